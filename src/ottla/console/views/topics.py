"""Topics: all of them, and one with its partitions, settings and readers."""

from dataclasses import dataclass

from ottla.client.admin.configs import Config
from ottla.client.values import TopicPartition
from ottla.console import words
from ottla.console.context import Context, NotFound
from ottla.console.model import (
    Cell,
    Chart,
    Column,
    Figure,
    Filter,
    Grid,
    Page,
    Row,
    Table,
)
from ottla.console.sampler import Sampler, Snapshot
from ottla.console.views import topic_forms
from ottla.console.views.tables import matcher, ordered, paged


@dataclass(frozen=True, slots=True)
class Line:
    """What the list shows of a topic."""

    name: str
    partitions: int
    replicas: int
    records: int | None
    size: int | None
    rate: float
    lag: int | None
    groups: int
    internal: bool
    troubled: int

    @classmethod
    def of(cls, name: str, snapshot: Snapshot, sampler: Sampler) -> "Line":
        topic = snapshot.topics[name]
        partitions = topic.partitions.values()
        readers = snapshot.readers.get(name, set())
        return cls(
            name,
            len(topic.partitions),
            max((len(p.replicas) for p in partitions), default=0),
            snapshot.records(name),
            snapshot.sizes.get(name),
            sampler.history.get("topic", name).latest(5),
            snapshot.topic_lag.get(name) if readers else None,
            len(readers),
            topic.internal,
            sum(p.leader < 0 or len(p.isr) < len(p.replicas) for p in partitions),
        )


_KEYS = {
    "topic": lambda line: line.name,
    "partitions": lambda line: line.partitions,
    "records": lambda line: line.records,
    "size": lambda line: line.size,
    "rate": lambda line: line.rate,
    "lag": lambda line: line.lag,
    "groups": lambda line: line.groups,
}
_COLUMNS = (
    Column("topic", "Topic", sortable=True),
    Column("partitions", "Partitions", "number", 2, sortable=True),
    Column("records", "Records", "number", 2, sortable=True),
    Column("size", "Size", "number", 3, sortable=True),
    Column("rate", "Rate", "number", sortable=True),
    Column("minute", "Last minute", "spark", 2),
    Column("lag", "Largest lag", "number", 2, sortable=True),
    Column("groups", "Groups", "number", 3, sortable=True),
    Column("state", "State", "state"),
)


async def topics(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    text, sort = context.query.get("filter", ""), context.query.get("sort", "topic")
    internal = context.query.get("internal") == "1"
    lines = ordered(_lines(context, snapshot), sort, _KEYS)
    shown, pager = paged(context, "/topics", lines)
    rows = [Row(line.name, _cells(line, sampler)) for line in shown]
    empty = "No topic matches." if text else "There are no topics yet."
    query = {"filter": text, "sort": context.query.get("sort", "")}
    return Page(
        "Topics",
        "topics",
        subtitle=f"{words.plural(len(lines), 'topic')}{' that match' if text else ''}",
        figures=_totals(lines, sampler),
        blocks=[
            Table("topics", _COLUMNS, rows, empty=empty, sort=sort),
            *context.forms(topic_forms.create_form()),
        ],
        tabs=[
            ("Topics", words.address("/topics", query), not internal),
            ("With internal ones", words.address("/topics", query, internal=1), internal),
        ],
        filter=Filter(text, "Filter topics, or /pattern/", _kept(context, "sort", "internal", "only")),
        pager=pager,
    )


def _lines(context: Context, snapshot: Snapshot) -> list[Line]:
    """The topics that the page's parameters ask for, by name."""
    matches = matcher(context.query.get("filter", ""))
    internal = context.query.get("internal") == "1"
    lines = [
        Line.of(name, snapshot, context.workspace.sampler)
        for name in sorted(snapshot.topics)
        if matches(name) and (internal or not snapshot.topics[name].internal)
    ]
    return [line for line in lines if line.troubled] if context.query.get("only") == "troubled" else lines


def _totals(lines: list[Line], sampler: Sampler) -> list[Figure]:
    rate = sampler.history.get("cluster", "records").latest(5)
    partitions, troubled = sum(line.partitions for line in lines), sum(line.troubled for line in lines)
    size = sum(line.size or 0 for line in lines)
    return [
        Figure("records", "Records in", round(rate, 1), words.count(rate), "/s"),
        Figure("partitions", "Partitions", partitions, words.count(partitions)),
        Figure("size", "Size, all replicas", size, words.size(size)),
        Figure("troubled", "Not in sync", troubled, tone="warn" if troubled else ""),
    ]


def _cells(line: Line, sampler: Sampler) -> list[Cell]:
    state = (
        Cell("in sync", tone="good")
        if not line.troubled
        else Cell(f"{line.troubled} not in sync", tone="warn")
    )
    return [
        Cell(line.name, href=words.topic_address(line.name), tone="quiet" if line.internal else ""),
        Cell(line.partitions, words.count(line.partitions)),
        Cell(line.records, words.count(line.records)),
        Cell(line.size, words.size(line.size)),
        Cell(round(line.rate, 1), words.count(line.rate), unit="/s"),
        Cell(points=sampler.history.get("topic", line.name).values(60)),
        Cell(line.lag, words.count(line.lag)),
        Cell(line.groups, words.count(line.groups)),
        state,
    ]


def tabs(topic: str, here: str) -> list[tuple[str, str, bool]]:
    entries = (
        ("Messages", "messages"),
        ("Partitions", ""),
        ("Search", "search"),
        ("Settings", "settings"),
        ("Groups", "groups"),
    )
    return [(label, words.topic_address(topic, part), part == here) for label, part in entries]


async def named_topic(context: Context) -> tuple[str, Snapshot]:
    """The topic that the path names."""
    name = context.names[0]
    snapshot = await context.workspace.sampler.fresh()
    if name not in snapshot.topics:
        snapshot = await context.workspace.sampler.fresh(0)  # it may be a second old
    if name not in snapshot.topics:
        if snapshot.trouble:
            raise NotFound(
                f"The cluster does not answer, so nothing is known of topic {name}: {snapshot.trouble}"
            )
        raise NotFound(f"There is no topic {name}. It may have been deleted, or you may not see it.")
    return name, snapshot


def figures(name: str, snapshot: Snapshot, sampler: Sampler) -> list[Figure]:
    line = Line.of(name, snapshot, sampler)
    return [
        Figure("records", "Records", line.records, words.count(line.records)),
        Figure("rate", "Rate", round(line.rate, 1), words.count(line.rate), "/s"),
        Figure("size", "Size, all replicas", line.size, words.size(line.size)),
        Figure(
            "lag", "Largest lag", line.lag, words.count(line.lag), href=words.topic_address(name, "groups")
        ),
    ]


async def topic(context: Context) -> Page:
    """Partitions: leaders, replicas in sync, offsets, and where the replicas are."""
    name, snapshot = await named_topic(context)
    sampler = context.workspace.sampler
    series = sampler.history.get("topic", name)
    seconds = context.number("seconds", 300, 60, 3600)
    topic_image = snapshot.topics[name]
    count = len(topic_image.partitions)
    return Page(
        name,
        "topics",
        subtitle=f"{words.plural(count, 'partition')}, id {topic_image.id.hex()}"
        if any(topic_image.id)
        else words.plural(count, "partition"),
        figures=figures(name, snapshot, sampler),
        blocks=[
            Chart("rate", "Records in", [("records", series.last(seconds, snapshot.at))], "/s"),
            _partitions(name, snapshot),
            _placement(name, snapshot),
            *context.forms(*topic_forms.partition_forms(name, count)),
        ],
        tabs=tabs(name, ""),
        crumbs=[("Topics", "/topics")],
    )


def _partitions(name: str, snapshot: Snapshot) -> Table:
    sizes: dict[int, int] = {}
    for folder in snapshot.log_dirs:
        for where, size in folder.sizes.items():
            if where.topic == name:
                sizes[where.partition] = max(size, sizes.get(where.partition, 0))
    indexes = sorted(snapshot.topics[name].partitions)
    rows = [_partition(TopicPartition(name, index), snapshot, sizes.get(index)) for index in indexes]
    columns = [
        Column("partition", "Partition"),
        Column("leader", "Leader", "number"),
        Column("replicas", "Replicas", "code", 2),
        Column("isr", "In sync", "code", 2),
        Column("begin", "First offset", "number", 2),
        Column("end", "Next offset", "number"),
        Column("size", "Size", "number", 2),
        Column("epoch", "Epoch", "number", 3),
        Column("state", "State", "state"),
    ]
    return Table("partitions", columns, rows, "Partitions")


def _partition(where: TopicPartition, snapshot: Snapshot, size: int | None) -> Row:
    partition = snapshot.topics[where.topic].partitions[where.partition]
    begin, end, leader = snapshot.begins.get(where), snapshot.ends.get(where), partition.leader
    if leader < 0:
        state = Cell("no leader", tone="bad")
    elif len(partition.isr) == len(partition.replicas):
        state = Cell("in sync", tone="good")
    else:
        state = Cell(f"{len(partition.isr)} of {len(partition.replicas)} in sync", tone="warn")
    cells = [
        Cell(where.partition, href=words.topic_address(where.topic, "messages", partition=where.partition)),
        Cell(leader, href=f"/brokers/{leader}" if leader >= 0 else None),
        Cell(list(partition.replicas), ", ".join(map(str, partition.replicas))),
        Cell(list(partition.isr), ", ".join(map(str, partition.isr))),
        Cell(begin, f"{begin:,}" if begin is not None else "-"),
        Cell(end, f"{end:,}" if end is not None else "-"),
        Cell(size, words.size(size)),
        Cell(partition.leader_epoch),
        state,
    ]
    return Row(str(where.partition), cells)


def _placement(name: str, snapshot: Snapshot) -> Grid:
    """Replicas by broker, brokers by rack."""
    brokers = sorted(snapshot.info.brokers, key=lambda listed: (listed.rack or "", listed.id))
    rows = []
    for index, partition in sorted(snapshot.topics[name].partitions.items())[:200]:
        marks = []
        for broker in brokers:
            if broker.id not in partition.replicas:
                marks.append(Cell(None, ""))
            elif broker.id == partition.leader:
                marks.append(Cell("leader", "L", tone="lead", hint="leader"))
            elif broker.id in partition.isr:
                marks.append(Cell("in sync", "R", tone="good", hint="replica in sync"))
            else:
                marks.append(Cell("behind", "R", tone="bad", hint="replica that is not in sync"))
        rows.append((str(index), marks))
    columns = [f"{broker.id}{f' · {broker.rack}' if broker.rack else ''}" for broker in brokers]
    return Grid("placement", columns, rows, "Replicas by broker and rack", "L leads, R replicates.")


async def settings(context: Context) -> Page:
    """All settings: value, where it comes from, and what it would be otherwise."""
    name, snapshot = await named_topic(context)
    configs = await context.workspace.admin.describe_configs("topic", name, documentation=True)
    return Page(
        name,
        "topics",
        subtitle="settings",
        figures=figures(name, snapshot, context.workspace.sampler),
        blocks=[
            settings_table(configs.values()),
            *context.forms(topic_forms.settings_form(name), topic_forms.delete_form(name)),
        ],
        tabs=tabs(name, "settings"),
        crumbs=[("Topics", "/topics")],
    )


def default_of(config: Config) -> str | None:
    """What the setting would be otherwise; with the name of the broker's setting where that has another unit."""
    for name, value, source in config.synonyms:
        if source == "DEFAULT_CONFIG":
            return value if value is None or name.endswith(config.name) else f"{name}={value}"
    return None


def settings_table(configs: object) -> Table:
    rows = []
    chosen: list[Config] = sorted(configs, key=lambda c: (c.is_default, c.name))  # type: ignore[call-overload]
    for config in chosen:
        default = default_of(config)
        value = "(hidden)" if config.sensitive else config.value
        rows.append(
            Row(
                config.name,
                [
                    Cell(config.name, hint=config.documentation or ""),
                    Cell(
                        value,
                        value or "",
                        tone="" if config.is_default else "accent",
                        unit=f" ({meaning})" if (meaning := words.meaning(config.name, value)) else "",
                    ),
                    Cell(default, "" if default is None else default, tone="quiet"),
                    Cell(config.source, config.source.replace("_", " ").lower(), tone="quiet"),
                    Cell(config.read_only, "read only" if config.read_only else "", tone="quiet"),
                ],
            )
        )
    columns = [
        Column("name", "Setting", "code"),
        Column("value", "Value", "code"),
        Column("default", "Default", "code", 2),
        Column("source", "From", priority=2),
        Column("read_only", "Change", priority=3),
    ]
    return Table("settings", columns, rows, "Settings", "The cluster tells no settings.")


async def readers(context: Context) -> Page:
    """Groups that have committed offsets of this topic."""
    name, snapshot = await named_topic(context)
    rows = []
    for group_id in sorted(snapshot.readers.get(name, ())):
        group = snapshot.groups[group_id]
        places = [where for where in group.offsets if where.topic == name and where in snapshot.ends]
        lag = sum(max(0, snapshot.ends[where] - group.offsets[where].offset) for where in places)
        cells = [
            Cell(group_id, href=words.group_address(group_id)),
            Cell(group.listed.state, tone="good" if group.listed.state == "Stable" else "quiet"),
            Cell(len(places)),
            Cell(lag, words.count(lag)),
            Cell(points=context.workspace.sampler.history.get("group", group_id).values(60)),
        ]
        rows.append(Row(group_id, cells))
    columns = [
        Column("group", "Group"),
        Column("state", "State", "state"),
        Column("partitions", "Partitions", "number", 2),
        Column("lag", "Lag here", "number"),
        Column("minute", "Lag, last minute", "spark", 2),
    ]
    return Page(
        name,
        "topics",
        subtitle="groups that read it",
        figures=figures(name, snapshot, context.workspace.sampler),
        blocks=[Table("readers", columns, rows, empty="No group has committed an offset of this topic.")],
        tabs=tabs(name, "groups"),
        crumbs=[("Topics", "/topics")],
    )


def _kept(context: Context, *names: str) -> dict[str, str]:
    return {name: context.query[name] for name in names if context.query.get(name)}
