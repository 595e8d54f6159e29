"""The whole cluster at a glance: how much comes in, who leads, and what is wrong in words."""

from collections import Counter
from collections.abc import Iterable, Iterator

from ottla.console import words
from ottla.console.context import Context
from ottla.console.model import (
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Notice,
    Notices,
    Page,
    Points,
    Row,
    Table,
)
from ottla.console.sampler import THROTTLED, Sampler, Snapshot
from ottla.console.scrapes import ScrapedFigures

LAG_NOTABLE = 100_000
SHOWN = 6
_BROKER_COLUMNS = [
    Column("broker", "Broker"),
    Column("address", "Address", "code"),
    Column("rack", "Rack", priority=2),
    Column("leaders", "Leads", "number"),
    Column("replicas", "Replicas", "number", 2),
    Column("size", "Size", "number", 2),
    Column("state", "State", "state"),
]


async def overview(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    seconds = context.number("seconds", 300, 60, 3600)
    return Page(
        "Overview",
        "overview",
        subtitle=f"cluster {snapshot.info.id or 'unknown'}, controller {snapshot.info.controller}",
        figures=_figures(sampler, snapshot),
        blocks=[
            _notices(sampler, snapshot),
            *_charts(sampler, seconds),
            _brokers(snapshot),
            _busiest(sampler, snapshot),
        ],
        tabs=[
            (label, words.address("/", seconds=value if value != 300 else ""), value == seconds)
            for label, value in (("1 minute", 60), ("5 minutes", 300), ("1 hour", 3600))
        ],
    )


def _figures(sampler: Sampler, snapshot: Snapshot) -> list[Figure]:
    records = sampler.history.get("cluster", "records").latest(5)
    size = sampler.history.get("cluster", "bytes").latest(2)
    under, leaderless, lag = snapshot.under_replicated(), snapshot.leaderless(), _lag(snapshot)
    figures = [
        Figure("records", "Records in", round(records, 1), words.count(records), "/s"),
        Figure("bytes", "Bytes in", round(size), words.size(size), "/s"),
        Figure("lag", "Largest lag", lag, words.count(lag), href="/groups?sort=-lag"),
        Figure(
            "under",
            "Under-replicated",
            len(under),
            tone="warn" if under else "",
            href="/topics?only=troubled",
        ),
        Figure("leaderless", "Without a leader", len(leaderless), tone="bad" if leaderless else ""),
    ]
    if sampler.scrapes.pages:
        slowed = sampler.scrapes.latest.throttles.get("Produce", 0.0)
        text = words.count(slowed)
        figures.append(
            Figure("throttled", "Producers slowed", round(slowed, 1), text, "/s", "warn" if slowed else "")
        )
    return figures


def _charts(sampler: Sampler, seconds: int) -> list[Block]:
    def points(kind: str, name: str) -> Points:
        return sampler.history.get(kind, name).last(seconds, sampler.snapshot.at)

    flows = [("in", points("cluster", "bytes"))]
    if sampler.scrapes.pages:
        flows.append(("out", points("cluster", "out")))
    title = "Bytes in (all replicas) and out" if len(flows) > 1 else "Bytes in, all replicas"
    charts: list[Block] = [
        Chart("records", "Records in", [("records", points("cluster", "records"))], "/s"),
        Chart("bytes", title, flows, "B/s"),
    ]
    throttled = [(api, points("throttled", api)) for api in THROTTLED]
    if any(value for _, line in throttled for _, value in line):
        charts.append(Chart("throttled", "Answers that told clients to wait (quotas)", throttled, "/s"))
    return charts


def problems(snapshot: Snapshot) -> list[Notice]:
    """What is wrong, the worst first."""
    notices: list[Notice] = []
    if snapshot.trouble:
        notices.append(Notice("bad", f"The cluster does not answer: {snapshot.trouble}"))
    if not snapshot.info.brokers:
        return notices
    return [*notices, *_partition_problems(snapshot), *_folder_problems(snapshot), *_group_problems(snapshot)]


def _partition_problems(snapshot: Snapshot) -> Iterator[Notice]:
    if snapshot.info.controller not in {broker.id for broker in snapshot.info.brokers}:
        yield Notice("bad", "The cluster has no controller: topics cannot be created, leaders not elected.")
    if leaderless := snapshot.leaderless():
        text = f"{words.plural(len(leaderless), 'partition')} without a leader: {_some(leaderless)}."
        yield Notice("bad", text, "/topics?only=troubled")
    if away := _away(snapshot):
        names = ", ".join(map(str, sorted(away)))
        yield Notice("bad", f"{words.plural(len(away), 'broker')} away: {names} should hold replicas.")
    if under := snapshot.under_replicated():
        count = words.plural(len(under), "partition")
        text = f"{count} with fewer replicas in sync than wanted: {_some(under)}."
        yield Notice("warn", text, "/topics?only=troubled")


def _folder_problems(snapshot: Snapshot) -> Iterator[Notice]:
    for folder in snapshot.log_dirs:
        if folder.error:
            text = f"Broker {folder.broker}: the folder {folder.path} fails ({folder.error})."
            yield Notice("bad", text, "/brokers")
        elif folder.total_bytes > 0 and folder.usable_bytes < folder.total_bytes * 0.1:
            text = f"Broker {folder.broker} has {words.size(folder.usable_bytes)} left in {folder.path}."
            yield Notice("warn", text, "/brokers")


def _group_problems(snapshot: Snapshot) -> Iterator[Notice]:
    states = {name: group.listed.state for name, group in snapshot.groups.items()}
    moving = [name for name, state in states.items() if state not in ("Stable", "Empty", "Dead", "")]
    if moving:
        text = f"{words.plural(len(moving), 'group')} rebalancing: {_some(moving)}."
        yield Notice("warn", text, "/groups")
    late = [name for name, group in snapshot.groups.items() if group.lag >= LAG_NOTABLE]
    if late:
        text = f"{words.plural(len(late), 'group')} more than {LAG_NOTABLE:,} records behind: {_some(late)}."
        yield Notice("warn", text, "/groups?sort=-lag")


def throttling(figures: ScrapedFigures) -> list[Notice]:
    """Who is slowed down by quotas at the moment: back-pressure that clients feel and seldom tell of."""
    words_of = {"Produce": "Producers", "Fetch": "Consumers"}
    return [
        Notice(
            "warn",
            f"{words_of.get(api, api)} are slowed down by quotas: {rate:.1f} answers a second told them to wait, "
            f"{figures.throttle_s.get(api, 0.0):.2f} s in each second.",
            "/access?part=quotas",
        )
        for api, rate in sorted(figures.throttles.items())
    ]


def _notices(sampler: Sampler, snapshot: Snapshot) -> Notices:
    notices = [*problems(snapshot), *throttling(sampler.scrapes.latest)]
    if not notices:
        topics = words.plural(len(snapshot.topics), "topic")
        text = f"All partitions of {topics} have their leaders and replicas; all groups are in step."
        notices = [
            Notice("good", text if snapshot.topics else "The cluster answers. There are no topics yet.")
        ]
    return Notices("state", notices)


def _brokers(snapshot: Snapshot) -> Table:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in snapshot.topics.values():
        for partition in topic.partitions.values():
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
    sizes: Counter[int] = Counter()
    for folder in snapshot.log_dirs:
        sizes[folder.broker] += sum(folder.sizes.values())
    rows = []
    for broker in sorted(snapshot.info.brokers, key=lambda listed: listed.id):
        is_controller = broker.id == snapshot.info.controller
        cells = [
            Cell(broker.id, href=f"/brokers/{broker.id}"),
            Cell(f"{broker.host}:{broker.port}"),
            Cell(broker.rack or "", tone="quiet"),
            Cell(leaders[broker.id], f"{leaders[broker.id]:,}"),
            Cell(replicas[broker.id], f"{replicas[broker.id]:,}"),
            Cell(sizes[broker.id], words.size(sizes[broker.id]) if broker.id in sizes else "-"),
            Cell("controller" if is_controller else "up", tone="good"),
        ]
        rows.append(Row(str(broker.id), cells))
    rows += [_missing(broker_id, replicas[broker_id]) for broker_id in sorted(_away(snapshot))]
    return Table("brokers", _BROKER_COLUMNS, rows, "Brokers", "No broker has answered yet.")


def _missing(broker_id: int, replicas: int) -> Row:
    unknown = Cell(None, "-")
    cells = [Cell(broker_id), unknown, Cell(""), Cell(0), Cell(replicas), unknown, Cell("away", tone="bad")]
    return Row(str(broker_id), cells)


def _busiest(sampler: Sampler, snapshot: Snapshot) -> Table:
    rates = {name: sampler.history.get("topic", name).latest(5) for name in snapshot.topics}
    chosen = sorted(rates, key=lambda name: (-rates[name], name))[:SHOWN]
    rows = [
        Row(
            name,
            [
                Cell(name, href=words.topic_address(name)),
                Cell(round(rates[name], 1), words.count(rates[name]), unit="/s"),
                Cell(points=sampler.history.get("topic", name).values(60)),
                Cell(snapshot.topic_lag.get(name, 0), words.count(snapshot.topic_lag.get(name, 0))),
            ],
        )
        for name in chosen
    ]
    columns = [
        Column("topic", "Topic"),
        Column("rate", "Rate", "number"),
        Column("minute", "Last minute", "spark"),
        Column("lag", "Largest lag", "number", 2),
    ]
    return Table("busiest", columns, rows, "Busiest topics", "There are no topics yet.")


def _lag(snapshot: Snapshot) -> int:
    return max((group.lag for group in snapshot.groups.values()), default=0)


def _away(snapshot: Snapshot) -> set[int]:
    """Brokers that replicas are assigned to and that are not in the cluster."""
    assigned = {
        r for topic in snapshot.topics.values() for p in topic.partitions.values() for r in p.replicas
    }
    return assigned - {broker.id for broker in snapshot.info.brokers}


def _some(names: Iterable[object]) -> str:
    listed = [str(name) for name in names]
    shown = ", ".join(listed[:3])
    return shown if len(listed) <= 3 else f"{shown} and {len(listed) - 3} more"
