"""All groups: what they are doing, and how far they are behind."""

from collections.abc import Iterable, Sequence

from ottla.client.admin.groups import Group
from ottla.console import words
from ottla.console.context import Context
from ottla.console.model import Cell, Column, Figure, Filter, Page, Row, Table
from ottla.console.sampler import GroupView, Sampler
from ottla.console.views.tables import matcher, ordered, paged

_TONES = {"Stable": "good", "Empty": "quiet", "Dead": "quiet"}
_RESTING = ("Stable", "Empty", "Dead", "")
_KEYS = {
    "group": lambda item: item[0],
    "state": lambda item: item[1].listed.state,
    "protocol": lambda item: protocol(item[1]),
    "lag": lambda item: item[1].lag,
    "topics": lambda item: len({where.topic for where in item[1].offsets}),
}
_COLUMNS = [
    Column("group", "Group", sortable=True),
    Column("state", "State", "state", sortable=True),
    Column("protocol", "Protocol", priority=3, sortable=True),
    Column("members", "Members", "number", 2),
    Column("topics", "Topics", "number", 2, sortable=True),
    Column("lag", "Lag", "number", sortable=True),
    Column("minute", "Lag, last minute", "spark", 2),
]


async def groups(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    text, sort = context.query.get("filter", ""), context.query.get("sort", "-lag")
    kind = context.query.get("type", "")
    matches = matcher(text)
    chosen = [
        (name, group)
        for name, group in sorted(snapshot.groups.items())
        if matches(name) and kind in ("", protocol(group))
    ]
    shown, pager = paged(context, "/groups", ordered(chosen, sort, _KEYS))
    rows = [_row(sampler, name, group) for name, group in shown]
    empty = "No group matches." if text or kind else "There are no groups yet."
    return Page(
        "Groups",
        "groups",
        subtitle=f"{words.plural(len(chosen), 'group')}{' that match' if text else ''}",
        figures=_figures([group for _, group in chosen]),
        blocks=[Table("groups", _COLUMNS, rows, empty=empty, sort=sort)],
        tabs=_kinds(context, snapshot.groups.values(), kind),
        filter=Filter(
            text, "Filter groups, or /pattern/", {"sort": context.query.get("sort", ""), "type": kind}
        ),
        pager=pager,
    )


def _row(sampler: Sampler, name: str, group: GroupView) -> Row:
    members = member_count(sampler.described.get(name))
    state = group.listed.state
    cells = [
        Cell(name, name or "(no name)", href=words.group_address(name)),
        Cell(state, state or "unknown", tone=_TONES.get(state, "warn" if state else "quiet")),
        Cell(protocol(group), tone="quiet"),
        Cell(members, words.count(members)),
        Cell(len({where.topic for where in group.offsets})),
        Cell(group.lag, words.count(group.lag)),
        Cell(points=sampler.history.get("group", name).values(60)),
    ]
    return Row(name, cells)


def _figures(groups: Sequence[GroupView]) -> list[Figure]:
    states = [group.listed.state for group in groups]
    total = sum(group.lag for group in groups)
    moving = sum(state not in _RESTING for state in states)
    return [
        Figure("lag", "Lag of all", total, words.count(total)),
        Figure("stable", "Stable", states.count("Stable")),
        Figure("empty", "Without members", states.count("Empty")),
        Figure("moving", "Rebalancing", moving, tone="warn" if moving else ""),
    ]


def _kinds(context: Context, groups: Iterable[GroupView], kind: str) -> list[tuple[str, str, bool]]:
    """A tab for each protocol, where there is more than one."""
    kinds = sorted({protocol(group) for group in groups} | ({kind} if kind else set()))
    if len(kinds) < 2 and not kind:
        return []
    query = {name: context.query.get(name, "") for name in ("filter", "sort")}
    return [
        (label, words.address("/groups", {**query, "type": value}), value == kind)
        for label, value in [("All", ""), *((other.capitalize(), other) for other in kinds)]
    ]


def member_count(described: Group | None) -> int | None:
    return len(described.members) if described is not None else None


def protocol(view: GroupView) -> str:
    """classic, consumer (KIP-848), share (KIP-932), streams (KIP-1071)."""
    return (view.listed.type or "classic").lower()
