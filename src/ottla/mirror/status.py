"""What anybody can see of a link, whether it runs or not: positions at the target, ends at the source."""

import time
from dataclasses import dataclass

from ottla.client import Producer
from ottla.client.admin import Admin
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.ranges import Range
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import journal, positions
from ottla.mirror.errors import MirrorError, PositionLost
from ottla.mirror.journal import Control, Journal
from ottla.mirror.link import Link
from ottla.mirror.positions import Position

LATEST, MAX_TIMESTAMP = -1, -3


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """`lag` and `lag_s` are None while the source cannot be asked."""

    source: TopicPartition
    target: TopicPartition
    position: Position
    lag: int | None  # records
    lag_s: float | None  # of the source's time that is not copied

    @property
    def silent_s(self) -> float | None:
        """Since the last step."""
        return time.time() - self.position.at_ms / 1000 if self.position.at_ms else None


@dataclass(frozen=True, slots=True)
class LinkStatus:
    state: str  # running, paused or stopped
    control: Control
    partitions: list[PartitionStatus]

    @property
    def lag(self) -> int | None:
        lags = [partition.lag for partition in self.partitions]
        return None if None in lags else sum(lag for lag in lags if lag is not None)


def status(link: Link, *, timeout_ms: int = 15_000) -> LinkStatus:
    with Admin({**link.target_client, "default.api.timeout.ms": timeout_ms}) as target:
        known = _positions(link, target)
        if not known:
            raise MirrorError(f"there is no mirror {link.name} at {link.target}, or it has not committed yet")
        control = read_control(link, target)
        running = any(g.id == link.group and g.state not in ("Empty", "Dead") for g in target.list_groups())
    state = "stopped" if not running else "paused" if control.paused else "running"
    lags = _lags(link, known, timeout_ms)
    partitions = [
        PartitionStatus(_source(link, place), place, position, *lags.get(place, (None, None)))
        for place, position in sorted(known.items())
    ]
    return LinkStatus(state, control, partitions)


def set_control(link: Link, **changes: object) -> Control:
    """Asks a link, running or not, to pause, to go on, or to copy at another rate."""
    with Admin(link.target_client) as target:
        if link.journal not in target.list_topics():
            raise MirrorError(f"there is no mirror {link.name} at {link.target}")
        control = read_control(link, target).changed(**changes)
    key, value = journal.control_record(control)
    with Producer(link.target_client) as producer:
        producer.send(link.journal, value, key, partition=0).result(30)
    return control


def read_control(link: Link, target: Admin) -> Control:
    where = TopicPartition(link.journal, 0)
    if link.journal not in target.list_topics():
        return Control()
    begin = target.list_offsets({where: -2})[where].offset
    end = target.list_offsets({where: LATEST}, committed_only=True)[where].offset
    replayed = Journal()
    with ColumnarReader(link.target_client) as reader:
        for rows in reader.read([Range(*where, begin, end)]):
            for key, value in zip(
                rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
            ):
                if journal.is_control(key):
                    replayed.apply(key, value)
    return replayed.control


def _positions(link: Link, target: Admin) -> dict[TopicPartition, Position]:
    by_place = {}
    for place, committed in target.group_offsets(link.group).items():
        if link.naming.is_heartbeats(place.topic):
            continue  # they never rest
        try:
            by_place[place] = positions.read(place, committed)
        except PositionLost:
            continue
    return by_place


def _source(link: Link, place: TopicPartition) -> TopicPartition:
    topic = place.topic
    if not link.naming.identical or link.naming.is_heartbeats(topic):
        topic = link.naming.upstream(topic)
    return TopicPartition(topic, place.partition)


def _lags(
    link: Link, known: dict[TopicPartition, Position], timeout_ms: int
) -> dict[TopicPartition, tuple[int | None, float | None]]:
    sources = {place: _source(link, place) for place in known}
    try:
        with Admin({**link.source_client, "default.api.timeout.ms": timeout_ms}) as source:
            topics = source.list_topics()
            asked = [
                w for w in sources.values() if w.topic in topics and w.partition in topics[w.topic].partitions
            ]
            ends = source.list_offsets(dict.fromkeys(asked, LATEST), committed_only=True)
            newest = source.list_offsets(dict.fromkeys(asked, MAX_TIMESTAMP))
    except OttlaError:
        return {}
    lags: dict[TopicPartition, tuple[int | None, float | None]] = {}
    for place, position in known.items():
        where = sources[place]
        if where not in ends:
            continue
        lag = max(0, ends[where].offset - position.source)
        behind_ms = newest[where].timestamp - position.timestamp_ms if position.timestamp_ms >= 0 else 0
        lags[place] = (lag, max(0, behind_ms) / 1000 if lag else 0.0)
    return lags
