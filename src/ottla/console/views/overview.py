"""The whole cluster at a glance: how much comes in, who leads, and what is wrong in words."""

from collections import Counter

from ottla.console import words
from ottla.console.context import Context
from ottla.console.model import Block, Cell, Chart, Column, Figure, Notice, Notices, Page, Row, Table
from ottla.console.sampler import Sampler, Snapshot

LAG_NOTABLE = 100_000
SHOWN = 6


async def overview(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    seconds = context.number("seconds", 300, 60, 3600)
    now = snapshot.at
    records = sampler.history.get("cluster", "records")
    size = sampler.history.get("cluster", "bytes")
    under, leaderless = snapshot.under_replicated(), snapshot.leaderless()
    flows = [("in", size.last(seconds, now))]
    if sampler.outflow.pages:
        flows.append(("out", sampler.history.get("cluster", "out").last(seconds, now)))
    charts: list[Block] = [
        Chart("records", "Records in", [("records", records.last(seconds, now))], "/s"),
        Chart(
            "bytes",
            "Bytes in (all replicas) and out" if len(flows) > 1 else "Bytes in, all replicas",
            flows,
            "B/s",
        ),
    ]
    return Page(
        "Overview",
        "overview",
        subtitle=f"cluster {snapshot.info.id or 'unknown'}, controller {snapshot.info.controller}",
        figures=[
            Figure(
                "records", "Records in", round(records.latest(5), 1), words.count(records.latest(5)), "/s"
            ),
            Figure("bytes", "Bytes in", round(size.latest(2)), words.size(size.latest(2)), "/s"),
            Figure(
                "lag", "Largest lag", _lag(snapshot), words.count(_lag(snapshot)), href="/groups?sort=-lag"
            ),
            Figure(
                "under",
                "Under-replicated",
                len(under),
                tone="warn" if under else "",
                href="/topics?only=troubled",
            ),
            Figure("leaderless", "Without a leader", len(leaderless), tone="bad" if leaderless else ""),
        ],
        blocks=[_notices(snapshot), *charts, _brokers(snapshot), _busiest(sampler, snapshot)],
        tabs=[
            (label, words.address("/", seconds=value if value != 300 else ""), value == seconds)
            for label, value in (("1 minute", 60), ("5 minutes", 300), ("1 hour", 3600))
        ],
    )


def problems(snapshot: Snapshot) -> list[Notice]:
    """What is wrong, the worst first."""
    found: list[Notice] = []
    if snapshot.trouble:
        found.append(Notice("bad", f"The cluster does not answer: {snapshot.trouble}"))
    if not snapshot.info.brokers:
        return found
    if snapshot.info.controller not in {broker.id for broker in snapshot.info.brokers}:
        found.append(
            Notice("bad", "The cluster has no controller: topics cannot be created, leaders not elected.")
        )
    if leaderless := snapshot.leaderless():
        found.append(
            Notice(
                "bad",
                f"{words.plural(len(leaderless), 'partition')} without a leader: {_some(leaderless)}.",
                "/topics?only=troubled",
            )
        )
    away = _away(snapshot)
    if away:
        found.append(
            Notice(
                "bad",
                f"{words.plural(len(away), 'broker')} away: {', '.join(map(str, sorted(away)))} should hold replicas.",
            )
        )
    if under := snapshot.under_replicated():
        found.append(
            Notice(
                "warn",
                f"{words.plural(len(under), 'partition')} with fewer replicas in sync than wanted: {_some(under)}.",
                "/topics?only=troubled",
            )
        )
    for folder in snapshot.log_dirs:
        if folder.error:
            found.append(
                Notice(
                    "bad",
                    f"Broker {folder.broker}: the folder {folder.path} fails ({folder.error}).",
                    "/brokers",
                )
            )
        elif folder.total_bytes > 0 and folder.usable_bytes < folder.total_bytes * 0.1:
            found.append(
                Notice(
                    "warn",
                    f"Broker {folder.broker} has {words.size(folder.usable_bytes)} left in {folder.path}.",
                    "/brokers",
                )
            )
    rebalancing = [
        name
        for name, group in snapshot.groups.items()
        if group.listed.state not in ("Stable", "Empty", "Dead", "")
    ]
    if rebalancing:
        found.append(
            Notice(
                "warn",
                f"{words.plural(len(rebalancing), 'group')} rebalancing: {_some(rebalancing)}.",
                "/groups",
            )
        )
    late = [name for name, group in snapshot.groups.items() if group.lag >= LAG_NOTABLE]
    if late:
        found.append(
            Notice(
                "warn",
                f"{words.plural(len(late), 'group')} more than {LAG_NOTABLE:,} records behind: {_some(late)}.",
                "/groups?sort=-lag",
            )
        )
    return found


def _notices(snapshot: Snapshot) -> Notices:
    found = problems(snapshot)
    if not found:
        topics = words.plural(len(snapshot.topics), "topic")
        text = f"All partitions of {topics} have their leaders and replicas; all groups are in step."
        found = [Notice("good", text if snapshot.topics else "The cluster answers. There are no topics yet.")]
    return Notices("state", found)


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
    for broker in sorted(snapshot.info.brokers, key=lambda each: each.id):
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
    for missing in sorted(_away(snapshot)):
        cells = [
            Cell(missing),
            Cell("", "-"),
            Cell(""),
            Cell(0),
            Cell(replicas[missing]),
            Cell(None, "-"),
            Cell("away", tone="bad"),
        ]
        rows.append(Row(str(missing), cells))
    columns = [
        Column("broker", "Broker"),
        Column("address", "Address", "code"),
        Column("rack", "Rack", priority=2),
        Column("leaders", "Leads", "number"),
        Column("replicas", "Replicas", "number", 2),
        Column("size", "Size", "number", 2),
        Column("state", "State", "state"),
    ]
    return Table("brokers", columns, rows, "Brokers", "No broker has answered yet.")


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


def _some(names: object) -> str:
    listed = [str(each) for each in names]  # type: ignore[attr-defined]
    shown = ", ".join(listed[:3])
    return shown if len(listed) <= 3 else f"{shown} and {len(listed) - 3} more"
