"""Groups: how far behind, who reads what, rebalances as they happened, and moving offsets."""

from ottla.client.admin.groups import Group
from ottla.client.values import TopicPartition
from ottla.console import words
from ottla.console.context import BadRequest, Context, NotFound
from ottla.console.model import (
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Filter,
    Form,
    Input,
    Notice,
    Notices,
    Page,
    Row,
    Table,
    Timeline,
)
from ottla.console.sampler import GroupView
from ottla.console.views import resets
from ottla.console.views.tables import matcher, ordered, paged

_TONES = {"Stable": "good", "Empty": "quiet", "Dead": "quiet"}
_KEYS = {
    "group": lambda item: item[0],
    "state": lambda item: item[1].listed.state,
    "lag": lambda item: item[1].lag,
    "topics": lambda item: len({where.topic for where in item[1].offsets}),
}


async def groups(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    text, sort = context.query.get("filter", ""), context.query.get("sort", "-lag")
    matches = matcher(text)
    found = [(name, group) for name, group in sorted(snapshot.groups.items()) if matches(name)]
    shown, pager = paged(context, "/groups", ordered(found, sort, _KEYS))
    rows = []
    for name, group in shown:
        described = sampler.described.get(name)
        rows.append(
            Row(
                name,
                [
                    Cell(name, name or "(no name)", href=words.group_address(name)),
                    _state(group.listed.state),
                    Cell(_protocol(group), tone="quiet"),
                    Cell(
                        len(described.members) if described else None,
                        words.count(len(described.members)) if described else "-",
                    ),
                    Cell(len({where.topic for where in group.offsets})),
                    Cell(group.lag, words.count(group.lag)),
                    Cell(points=sampler.history.get("group", name).values(60)),
                ],
            )
        )
    columns = [
        Column("group", "Group", sortable=True),
        Column("state", "State", "state", sortable=True),
        Column("protocol", "Protocol", priority=3),
        Column("members", "Members", "number", 2),
        Column("topics", "Topics", "number", 2, sortable=True),
        Column("lag", "Lag", "number", sortable=True),
        Column("minute", "Lag, last minute", "spark", 2),
    ]
    states = [group.listed.state for _, group in found]
    total = sum(group.lag for _, group in found)
    return Page(
        "Groups",
        "groups",
        subtitle=f"{words.plural(len(found), 'group')}{' that match' if text else ''}",
        figures=[
            Figure("lag", "Lag of all", total, words.count(total)),
            Figure("stable", "Stable", states.count("Stable")),
            Figure("empty", "Without members", states.count("Empty")),
            Figure(
                "moving",
                "Rebalancing",
                sum(s not in ("Stable", "Empty", "Dead", "") for s in states),
                tone="warn" if any(s not in ("Stable", "Empty", "Dead", "") for s in states) else "",
            ),
        ],
        blocks=[
            Table(
                "groups",
                columns,
                rows,
                empty="No group matches." if text else "There are no groups yet.",
                sort=sort,
            )
        ],
        filter=Filter(text, "Filter groups, or /pattern/", {"sort": context.query.get("sort", "")}),
        pager=pager,
    )


async def group(context: Context) -> Page:
    sampler = context.workspace.sampler
    name, view = await _found(context)
    sampler.watch_group(name)
    try:
        described: Group | None = (
            await context.workspace.admin.describe_group(name)
            if name not in sampler.described
            else sampler.described[name]
        )
    except Exception as error:  # a share group, or no right to describe it
        described, why = None, str(error)
    else:
        why = ""
    snapshot = sampler.snapshot
    seconds = context.number("seconds", 300, 60, 3600)
    series = sampler.history.get("group", name).last(seconds, snapshot.at)
    blocks: list[Block] = [Chart("lag", "Lag", [("lag", series)])]
    if why:
        blocks.insert(0, Notices("undescribed", [Notice("warn", f"Members are not shown: {why}")]))
    blocks.append(_progress(name, view, described, sampler.snapshot.ends))
    if described is not None:
        blocks.append(_members(described))
    moments = list(reversed(sampler.timelines.get(name, ())))[:50]
    blocks.append(
        Timeline("rebalances", moments, "Rebalances", "No rebalance while the console was watching.")
    )
    blocks += _forms(context, name, view)
    broker = view.coordinator
    return Page(
        name or "(no name)",
        "groups",
        subtitle=f"{view.listed.state or 'unknown state'}, {_protocol(view)} protocol",
        figures=[
            Figure("lag", "Lag", view.lag, words.count(view.lag)),
            Figure(
                "members",
                "Members",
                len(described.members) if described else None,
                str(len(described.members)) if described else "-",
            ),
            Figure(
                "epoch",
                "Epoch",
                described.epoch if described and described.epoch >= 0 else None,
                str(described.epoch) if described and described.epoch >= 0 else "-",
            ),
            Figure("coordinator", "Coordinator", broker, f"broker {broker}", href=f"/brokers/{broker}"),
        ],
        blocks=blocks,
        crumbs=[("Groups", "/groups")],
        tabs=[
            (label, words.group_address(name, seconds=value), value == seconds)
            for label, value in (("1 minute", 60), ("5 minutes", 300), ("1 hour", 3600))
        ],
    )


async def reset(context: Context) -> Page:
    """The preview of a reset; the same page asks for it to be done."""
    name, view = await _found(context)
    steps = await resets.plan(context, name, context.query)
    rows = [
        Row(
            str(step.place),
            [
                Cell(
                    str(step.place),
                    href=words.topic_address(
                        step.place.topic,
                        "messages",
                        partition=step.place.partition,
                        from_="offset",
                        offset=step.after,
                    ),
                ),
                Cell(step.before, "-" if step.before is None else f"{step.before:,}"),
                Cell(step.after, f"{step.after:,}", tone="accent"),
                Cell(step.after - (step.before or 0), f"{step.after - (step.before or 0):+,}"),
                Cell(step.end - step.after, words.count(step.end - step.after)),
            ],
        )
        for step in steps
    ]
    columns = [
        Column("place", "Partition"),
        Column("before", "Now at", "number"),
        Column("after", "Then at", "number"),
        Column("moves", "Moves", "number", 2),
        Column("lag", "Lag then", "number"),
    ]
    blocks: list[Block] = []
    if view.listed.state not in ("Empty", "Dead"):
        blocks.append(
            Notices(
                "busy",
                [
                    Notice(
                        "warn",
                        "The group has members. Stop them first: offsets of a group that reads cannot be moved.",
                    )
                ],
            )
        )
    blocks.append(Table("preview", columns, rows, "What would change"))
    hidden = [Input(each, "", "hidden", context.query.get(each, "")) for each in ("topic", "way", "to")]
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


async def _found(context: Context) -> tuple[str, GroupView]:
    if "id" not in context.query:
        raise BadRequest("which group? the address needs id=")
    name = context.query["id"]
    snapshot = await context.workspace.sampler.fresh()
    if name not in snapshot.groups:
        snapshot = await context.workspace.sampler.fresh(0)
    if name not in snapshot.groups:
        raise NotFound(f"There is no group {name}. It may have been deleted, or you may not see it.")
    return name, snapshot.groups[name]


def _progress(name: str, view: GroupView, described: Group | None, ends: object) -> Table:
    owners = {
        where: member for member in (described.members if described else ()) for where in member.assignment
    }
    places: list[TopicPartition] = sorted(set(view.offsets) | set(owners))
    rows = []
    for place in places[:1000]:
        committed = view.offsets.get(place)
        end = ends.get(place)  # type: ignore[attr-defined]
        lag = None if committed is None or end is None else max(0, end - committed.offset)
        owner = owners.get(place)
        rows.append(
            Row(
                str(place),
                [
                    Cell(
                        str(place),
                        href=words.topic_address(place.topic, "messages", partition=place.partition),
                    ),
                    Cell(
                        committed.offset if committed else None, f"{committed.offset:,}" if committed else "-"
                    ),
                    Cell(end, f"{end:,}" if end is not None else "gone"),
                    Cell(lag, words.count(lag)),
                    Cell(
                        owner.client_id if owner else None,
                        (owner.instance_id or owner.client_id) if owner else "-",
                        tone="" if owner else "quiet",
                    ),
                ],
            )
        )
    columns = [
        Column("partition", "Partition"),
        Column("committed", "Committed", "number"),
        Column("end", "Next offset", "number", 2),
        Column("lag", "Lag", "number"),
        Column("owner", "Read by", priority=2),
    ]
    return Table("progress", columns, rows, "Progress", "The group has committed nothing.")


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
        for member in sorted(described.members, key=lambda each: (each.client_id, each.id))
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


def _moving(member: object) -> Cell:
    target, owned = set(member.target), set(member.assignment)  # type: ignore[attr-defined]
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


def _state(state: str) -> Cell:
    return Cell(state, state or "unknown", tone=_TONES.get(state, "warn" if state else "quiet"))


def _protocol(view: GroupView) -> str:
    return {"": "classic", "Classic": "classic", "classic": "classic"}.get(
        view.listed.type, view.listed.type.lower()
    )


def _places(places: object) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):  # type: ignore[call-overload]
        by_topic.setdefault(topic, []).append(partition)
    return "; ".join(
        f"{topic}: {', '.join(map(str, indexes[:20]))}{' …' if len(indexes) > 20 else ''}"
        for topic, indexes in by_topic.items()
    )
