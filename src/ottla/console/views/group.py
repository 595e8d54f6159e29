"""One group: lag in records and in time, who reads what, rebalances as they happened, and moving offsets."""

import time
from collections.abc import Iterable, Mapping

from ottla.client.admin.groups import Group, Member
from ottla.client.values import TopicPartition
from ottla.console import words
from ottla.console.context import BadRequest, Context, NotFound
from ottla.console.model import (
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Form,
    Input,
    Notice,
    Notices,
    Page,
    Row,
    Table,
    Timeline,
)
from ottla.console.sampler import SHARE, GroupView, Sampler
from ottla.console.views import resets, streams_group
from ottla.console.views.groups import member_count, protocol
from ottla.console.views.tables import rows_max
from ottla.errors import OttlaError

PARTITIONS_MAX = 1000


async def group(context: Context) -> Page:
    sampler = context.workspace.sampler
    name, view = await _group_of(context)
    sampler.watch_group(name)
    described, why = await _described(sampler, name)
    view = sampler.snapshot.groups.get(name, view)
    ages_ms = await _ages(context, name, view)
    seconds = context.number("seconds", 300, 60, 3600)
    series = sampler.history.get("group", name).last(seconds, sampler.snapshot.at)
    moments = list(reversed(sampler.timelines.get(name, ())))[:50]
    blocks: list[Block] = [
        *([Notices("undescribed", [Notice("warn", f"Members are not shown: {why}")])] if why else []),
        Chart("lag", "Lag", [("lag", series)]),
        _progress(sampler, name, view, described, ages_ms, rows_max(context, PARTITIONS_MAX)),
        *_who(sampler, name, described),
        Timeline("rebalances", moments, "Rebalances", "No rebalance while the console was watching."),
        *_forms(context, name, view),
    ]
    return Page(
        name or "(no name)",
        "groups",
        subtitle=f"{view.listed.state or 'unknown state'}, {protocol(view)} protocol",
        figures=_figures(view, described, ages_ms),
        blocks=blocks,
        crumbs=[("Groups", "/groups")],
        links=[("States and delivery counts", _states_address(name))] if _is_share(view) else [],
        tabs=[
            (label, words.group_address(name, seconds=value), value == seconds)
            for label, value in (("1 minute", 60), ("5 minutes", 300), ("1 hour", 3600))
        ],
    )


async def reset(context: Context) -> Page:
    """The preview of a reset; the same page asks for it to be done."""
    name, view = await _group_of(context)
    steps = await resets.plan(context, name, context.query)
    blocks: list[Block] = []
    if view.listed.state not in ("Empty", "Dead"):
        text = "The group has members. Stop them first: offsets of a group that reads cannot be moved."
        blocks.append(Notices("busy", [Notice("warn", text)]))
    blocks.append(_preview(steps))
    hidden = [Input(key, "", "hidden", context.query.get(key, "")) for key in ("topic", "way", "to")]
    hidden += [Input("group", "", "hidden", name), Input("preview", "", "hidden", resets.fingerprint(steps))]
    blocks += context.forms(Form("reset-offsets", "Move the group", hidden, danger=True))
    return Page(
        name,
        "groups",
        "reset of offsets, preview: nothing has changed",
        blocks=blocks,
        crumbs=[("Groups", "/groups"), (name, words.group_address(name))],
        live=False,
    )


def _preview(steps: Iterable[resets.Step]) -> Table:
    columns = [
        Column("place", "Partition"),
        Column("before", "Now at", "number"),
        Column("after", "Then at", "number"),
        Column("moves", "Moves", "number", 2),
        Column("lag", "Lag then", "number"),
    ]
    return Table("preview", columns, [_step(step) for step in steps], "What would change")


def _step(step: resets.Step) -> Row:
    place, moves = step.place, step.after - (step.before or 0)
    there = words.topic_address(
        place.topic, "messages", partition=place.partition, from_="offset", offset=step.after
    )
    cells = [
        Cell(str(place), href=there),
        Cell(step.before, "-" if step.before is None else f"{step.before:,}"),
        Cell(step.after, f"{step.after:,}", tone="accent"),
        Cell(moves, f"{moves:+,}"),
        Cell(step.end - step.after, words.count(step.end - step.after)),
    ]
    return Row(str(place), cells)


async def _group_of(context: Context) -> tuple[str, GroupView]:
    if "id" not in context.query:
        raise BadRequest("which group? the address needs id=")
    name = context.query["id"]
    snapshot = await context.workspace.sampler.fresh()
    if name not in snapshot.groups:
        snapshot = await context.workspace.sampler.fresh(0)
    if name not in snapshot.groups:
        raise NotFound(f"There is no group {name}. It may have been deleted, or you may not see it.")
    return name, snapshot.groups[name]


async def _described(sampler: Sampler, name: str) -> tuple[Group | None, str]:
    """Its members, or why they are not known."""
    if name not in sampler.described:
        try:
            sampler.described[name] = await sampler.describe(name)
        except (
            OttlaError
        ) as error:  # a kind of group that this console does not know, or no right to describe it
            return None, str(error)
    return sampler.described[name], ""


async def _ages(context: Context, name: str, view: GroupView) -> dict[TopicPartition, float]:
    """For how long the first record has waited that the group is not done with, by partition; 0 where none waits."""
    ends = context.workspace.sampler.snapshot.ends
    waiting = {
        place: committed.offset
        for place, committed in view.offsets.items()
        if committed.offset < ends.get(place, 0) and (not _is_share(view) or view.lag)
    }
    stamps = await context.workspace.ages.of(context.workspace, name, waiting)
    now_ms = time.time() * 1000
    ages_ms = {place: max(0.0, now_ms - stamp) for place, stamp in stamps.items() if stamp >= 0}
    return {**{place: 0.0 for place in view.offsets if place not in waiting}, **ages_ms}


def _figures(
    view: GroupView, described: Group | None, ages_ms: Mapping[TopicPartition, float]
) -> list[Figure]:
    broker, members = view.coordinator, member_count(described)
    epoch = described.epoch if described is not None and described.epoch >= 0 else None
    oldest_ms = max(ages_ms.values(), default=None)
    return [
        Figure("lag", "Lag", view.lag, words.count(view.lag)),
        Figure(
            "oldest",
            f"Oldest {_undone(view)}",
            None if oldest_ms is None else round(oldest_ms),
            words.duration(oldest_ms) if oldest_ms else "none" if oldest_ms is not None else "-",
        ),
        Figure("members", "Members", members, words.count(members)),
        Figure("epoch", "Epoch", epoch, "-" if epoch is None else str(epoch)),
        Figure("coordinator", "Coordinator", broker, f"broker {broker}", href=f"/brokers/{broker}"),
    ]


def _progress(
    sampler: Sampler,
    name: str,
    view: GroupView,
    described: Group | None,
    ages_ms: Mapping[TopicPartition, float],
    shown_max: int,
) -> Table:
    owners: dict[TopicPartition, list[Member]] = {}
    for member in described.members if described is not None else ():
        for place in member.assignment:
            owners.setdefault(place, []).append(member)
    shares = sampler.shares.get(name, {})
    rows = []
    for place in sorted(set(view.offsets) | set(owners) | set(shares))[:shown_max]:
        end = sampler.snapshot.ends.get(place)
        committed = view.offsets.get(place)
        lag = None if committed is None or end is None else max(0, end - committed.offset)
        if place in shares and shares[place].lag >= 0:
            lag = shares[place].lag
        at = committed.offset if committed is not None else None
        rows.append(_partition(place, at, end, lag, ages_ms.get(place), owners.get(place, [])))
    columns = [
        Column("partition", "Partition"),
        Column("committed", "Done before" if _is_share(view) else "Committed", "number"),
        Column("end", "Next offset", "number", 2),
        Column("lag", "Lag", "number"),
        Column("oldest", f"Oldest {_undone(view)}", "number", 2),
        Column("owner", "Read by", priority=2),
    ]
    note = ""
    if _is_share(view):
        note = (
            "Everything before the start offset is accepted or rejected. Lag leaves out records behind it that are. "
            "How many records members hold at the moment, no request of the protocol tells."
        )
    return Table("progress", columns, rows, "Progress", "The group has committed nothing.", note=note)


def _partition(
    place: TopicPartition,
    at: int | None,
    end: int | None,
    lag: int | None,
    age_ms: float | None,
    owners: list[Member],
) -> Row:
    names = [member.instance_id or member.client_id for member in owners]
    cells = [
        Cell(str(place), href=words.topic_address(place.topic, "messages", partition=place.partition)),
        Cell(at, f"{at:,}" if at is not None else "-"),
        Cell(end, f"{end:,}" if end is not None else "gone"),
        Cell(lag, words.count(lag)),
        Cell(None if age_ms is None else round(age_ms), words.duration(age_ms) if age_ms else "-"),
        Cell(
            [member.client_id for member in owners] or None,
            ", ".join(names) or "-",
            tone="" if names else "quiet",
        ),
    ]
    return Row(str(place), cells)


def _who(sampler: Sampler, name: str, described: Group | None) -> list[Block]:
    if described is None:
        return []
    streams = sampler.streams.get(name)
    return [_members(described)] if streams is None else streams_group.blocks(streams)


def _members(described: Group) -> Table:
    rows = [
        Row(
            member.id,
            [
                Cell(member.client_id),
                Cell(member.id, tone="quiet"),
                Cell(member.host),
                Cell(member.instance_id or "", tone="quiet"),
                Cell(
                    member.epoch if member.epoch >= 0 else None,
                    str(member.epoch) if member.epoch >= 0 else "-",
                ),
                Cell([str(p) for p in member.assignment], _places(member.assignment)),
                _moving(member),
            ],
        )
        for member in sorted(described.members, key=lambda listed: (listed.client_id, listed.id))
    ]
    columns = [
        Column("client", "Client"),
        Column("member", "Member", "code", 3),
        Column("host", "Host", "code", 2),
        Column("instance", "Static id", priority=3),
        Column("epoch", "Epoch", "number", 2),
        Column("assignment", "Reads"),
        Column("target", "Will read", priority=2),
    ]
    note = f"Assigned by {described.assignor}." if described.assignor else ""
    return Table("members", columns, rows, "Members", "Nobody is in the group at the moment.", note=note)


def _moving(member: Member) -> Cell:
    target, owned = set(member.target), set(member.assignment)
    if not target or target == owned:
        return Cell("", tone="quiet")
    return Cell([str(p) for p in sorted(target)], _places(sorted(target)), tone="warn")


def _forms(context: Context, name: str, view: GroupView) -> list[Form]:
    topics = [("", "all topics it has committed"), *((t, t) for t in sorted({p.topic for p in view.offsets}))]
    preview = Form(
        "/group/reset",
        "Preview",
        [
            Input("id", "", "hidden", name),
            Input("topic", "Topic", "select", "", topics),
            Input("way", "Go on", "select", "earliest", resets.WAYS),
            Input("to", "Value", hint="offset, ± records, time or minutes"),
        ],
        "Reset offsets",
        get=True,
    )
    delete = Form(
        "delete-group",
        "Delete the group",
        [
            Input("group", "", "hidden", name),
            Input("confirm", "Type the group's name to confirm", required=True),
        ],
        "Delete this group",
        danger=True,
        folded=True,
    )
    return [preview, *context.forms(delete)]


def _is_share(view: GroupView) -> bool:
    return protocol(view) == SHARE


def _states_address(name: str) -> str:
    """Records that tell which offsets were delivered how often."""
    return words.address("/topics/__share_group_state/search", q=name, part="key")


def _undone(view: GroupView) -> str:
    """What a record is called that the group is not done with."""
    return "unacknowledged" if _is_share(view) else "unread"


def _places(places: Iterable[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    return "; ".join(
        f"{topic}: {', '.join(map(str, indexes[:20]))}{' …' if len(indexes) > 20 else ''}"
        for topic, indexes in by_topic.items()
    )
