"""Links that copy topics into this cluster: how far they are behind, in records and in seconds."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.client.values import TopicPartition
from ottla.console import words
from ottla.console.context import Context
from ottla.console.mirrors import HEARTBEATS, Checkpoint, MirrorTopics
from ottla.console.model import Cell, Column, Figure, Page, Row, Table
from ottla.console.sampler import Snapshot
from ottla.console.views.connectors import flow_tabs
from ottla.console.views.tables import rows_max
from ottla.mirror import positions
from ottla.mirror.errors import PositionLost
from ottla.mirror.positions import Position

GROUP = "ottla-mirror."
SILENT_MS = 30_000
ROWS_MAX = 1000
Figures = Mapping[tuple[str, int], Mapping[str, float]]


@dataclass(slots=True)
class Link:
    """From one cluster to this one: of `ottla mirror`, of MirrorMaker, or both."""

    source: str
    target: str
    is_ours: bool = False
    state: str = ""
    beat_ms: int | None = None
    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    figures: Figures = field(
        default_factory=dict
    )  # by the source's topic and partition, from the mirror's /metrics

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def lag(self) -> int | None:
        lags = [figure["lag_records"] for figure in self.figures.values() if "lag_records" in figure]
        return int(sum(lags)) if lags else None

    @property
    def lag_s(self) -> float | None:
        return max(
            (figure["lag_seconds"] for figure in self.figures.values() if "lag_seconds" in figure),
            default=None,
        )

    @property
    def step_ms(self) -> int:
        return max((position.at_ms for position in self.positions.values()), default=0)

    def figures_of(self, place: TopicPartition) -> Mapping[str, float]:
        """Topics have their source's name in front, unless both sides call them the same."""
        for topic in (place.topic.removeprefix(f"{self.source}."), place.topic):
            if (topic, place.partition) in self.figures:
                return self.figures[topic, place.partition]
        return {}


async def mirrors(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    topics = context.workspace.mirror_topics
    await topics.look(context.workspace, snapshot.topics)
    links = links_of(snapshot, topics, sampler.scrapes.latest.links)
    now_ms = time.time() * 1000
    lag = sum(link.lag or 0 for link in links)
    known = any(link.lag is not None for link in links)
    delays = [now_ms - link.beat_ms for link in links if link.beat_ms is not None]
    return Page(
        "Mirrors",
        "pipelines",
        subtitle=words.plural(len(links), "link"),
        figures=[
            Figure("links", "Links", len(links)),
            Figure("lag", "Lag of all", lag if known else None, words.count(lag) if known else "-"),
            Figure("delay", "Oldest heartbeat", *_age(max(delays, default=None))),
        ],
        blocks=[
            _links(links, now_ms),
            _partitions(links, now_ms, rows_max(context, ROWS_MAX)),
            _checkpoints(topics.checkpoints, snapshot, rows_max(context, ROWS_MAX)),
        ],
        tabs=flow_tabs("/mirrors"),
    )


def links_of(snapshot: Snapshot, topics: MirrorTopics, figures: Mapping[str, Figures]) -> list[Link]:
    links: dict[tuple[str, str], Link] = {}
    for name, group in snapshot.groups.items():
        source, dot, target = name.removeprefix(GROUP).partition(".")
        if not name.startswith(GROUP) or not dot:
            continue
        link = links[source, target] = Link(source, target, is_ours=True)
        link.state = "stopped" if group.listed.state in ("Empty", "Dead") else "running"
        link.positions = dict(_positions(group.offsets))
        link.figures = figures.get(link.name, {})
    for source, beat in topics.heartbeats.items():
        ours = [link for link in links.values() if link.source == source]
        if not ours:
            ours = [links.setdefault((source, beat.target), Link(source, beat.target))]
        for link in ours:
            link.beat_ms = beat.at_ms
    return [links[key] for key in sorted(links)]


def _positions(offsets: Mapping[TopicPartition, object]) -> Iterable[tuple[TopicPartition, Position]]:
    for place, committed in sorted(offsets.items()):
        if place.topic.endswith(HEARTBEATS):
            continue  # they never rest
        try:
            yield place, positions.read(place, committed)  # type: ignore[arg-type]
        except PositionLost:
            continue  # not committed by a mirror


def _links(links: Iterable[Link], now_ms: float) -> Table:
    rows = [
        Row(
            link.name,
            [
                Cell(link.name),
                Cell("ottla mirror" if link.is_ours else "MirrorMaker", tone="quiet"),
                _state(link, now_ms),
                Cell(len(link.positions), str(len(link.positions)) if link.is_ours else "-"),
                Cell(link.lag, words.count(link.lag)),
                _seconds(link.lag_s),
                Cell(*_age(None if link.beat_ms is None else now_ms - link.beat_ms)),
                Cell(*_age(now_ms - link.step_ms if link.step_ms else None)),
            ],
        )
        for link in links
    ]
    columns = [
        Column("link", "Link"),
        Column("by", "Copied by", priority=2),
        Column("state", "State", "state"),
        Column("partitions", "Partitions", "number", 2),
        Column("lag", "Lag", "number"),
        Column("seconds", "Lag in time", "number"),
        Column("heartbeat", "Last heartbeat", "number", 2),
        Column("step", "Last step", "number", 3),
    ]
    empty = "Nothing is copied into this cluster, by `ottla mirror` or MirrorMaker."
    note = (
        "Lag is told by the mirror: start it with --metrics PORT, and this console with --metrics HOST:PORT."
    )
    return Table("links", columns, rows, "Links", empty, note=note)


def _state(link: Link, now_ms: float) -> Cell:
    if link.state == "stopped":
        return Cell("stopped", tone="warn")
    if link.beat_ms is not None and now_ms - link.beat_ms > SILENT_MS:
        return Cell("silent", tone="warn", hint="no heartbeat has come for half a minute")
    return Cell(link.state or "heartbeats arrive", tone="good")


def _partitions(links: Iterable[Link], now_ms: float, shown_max: int) -> Table:
    rows: list[Row] = []
    for link in links:
        for place, position in list(link.positions.items())[: shown_max - len(rows)]:
            figures = link.figures_of(place)
            lag = figures.get("lag_records")
            cells = [
                Cell(str(place), href=words.topic_address(place.topic)),
                Cell(link.name, tone="quiet"),
                Cell(position.source, f"{position.source:,}"),
                Cell(None if lag is None else int(lag), words.count(lag)),
                _seconds(figures.get("lag_seconds")),
                Cell(position.records, words.count(position.records)),
                Cell(
                    position.skipped, words.count(position.skipped), tone="warn" if position.skipped else ""
                ),
                Cell(*_age(now_ms - position.at_ms if position.at_ms else None)),
            ]
            rows.append(Row(f"{link.name}/{place}", cells))
    columns = [
        Column("partition", "Copy"),
        Column("link", "Link", priority=2),
        Column("position", "Copied up to", "number"),
        Column("lag", "Lag", "number"),
        Column("seconds", "Lag in time", "number"),
        Column("records", "Records", "number", 2),
        Column("skipped", "Skipped", "number", 3),
        Column("step", "Last step", "number", 2),
    ]
    return Table("partitions", columns, rows, "Partitions", "No positions of `ottla mirror` are here.")


def _checkpoints(points: Iterable[Checkpoint], snapshot: Snapshot, shown_max: int) -> Table:
    rows = []
    for point in points:
        end = snapshot.ends.get(point.place)
        lag = None if end is None else max(0, end - point.downstream)
        cells = [
            Cell(
                point.group, href=words.group_address(point.group) if point.group in snapshot.groups else None
            ),
            Cell(point.source, tone="quiet"),
            Cell(str(point.place), href=words.topic_address(point.place.topic)),
            Cell(point.upstream, f"{point.upstream:,}"),
            Cell(point.downstream, f"{point.downstream:,}"),
            Cell(lag, words.count(lag)),
        ]
        rows.append(Row(f"{point.source}/{point.group}/{point.place}", cells))
    columns = [
        Column("group", "Group"),
        Column("source", "From", priority=2),
        Column("partition", "Partition"),
        Column("upstream", "There at", "number"),
        Column("downstream", "Here at", "number"),
        Column("lag", "Lag here", "number", 2),
    ]
    return Table("groups", columns, rows[:shown_max], "Groups carried over", "No checkpoints have come.")


def _seconds(seconds: float | None) -> Cell:
    return Cell(seconds, words.duration(None if seconds is None else seconds * 1000))


def _age(age_ms: float | None) -> tuple[int | None, str]:
    return (
        (None, "-")
        if age_ms is None
        else (round(max(0.0, age_ms)), f"{words.duration(max(0.0, age_ms))} ago")
    )
