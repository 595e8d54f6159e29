"""Links into this cluster, from the heartbeats and checkpoints in MirrorMaker's topics."""

import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.client.values import ConsumerRecord, TopicPartition
from ottla.console import reading
from ottla.errors import OttlaError
from ottla.mirror import formats

if TYPE_CHECKING:
    from ottla.console.workspace import Workspace

EVERY_S = 5.0
TOPICS_MAX, CHECKPOINTS_MAX = 20, 500
HEARTBEATS, CHECKPOINTS = ".heartbeats", ".checkpoints.internal"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The newest that was copied from `source`: how old it is, is the link's delay.

    It was written at the source, by a link that goes the other way: that one's source is this cluster's name."""

    source: str
    target: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's position at the source, and what it is here."""

    source: str
    group: str
    place: TopicPartition
    upstream: int
    downstream: int


@dataclass(slots=True)
class MirrorTopics:
    """Asked at most every few seconds, and only for pages about mirrors."""

    heartbeats: dict[str, Heartbeat] = field(default_factory=dict)  # by source
    checkpoints: list[Checkpoint] = field(default_factory=list)
    _looked: float = -EVERY_S

    async def look(self, workspace: "Workspace", topics: Iterable[str]) -> None:
        if time.monotonic() - self._looked < EVERY_S:
            return
        self._looked = time.monotonic()
        names = sorted(topics)
        for topic in [name for name in names if name.endswith(HEARTBEATS)][:TOPICS_MAX]:
            source = topic.removesuffix(HEARTBEATS)
            for record in await _newest(workspace, topic, 20):
                if (beat := _heartbeat(source, record)) is not None:
                    self.heartbeats[source] = beat
        checkpoints: dict[object, Checkpoint] = {}
        for topic in [name for name in names if name.endswith(CHECKPOINTS)][:TOPICS_MAX]:
            for record in await _newest(workspace, topic, CHECKPOINTS_MAX):
                if (point := _checkpoint(topic.removesuffix(CHECKPOINTS), record)) is not None:
                    checkpoints[point.source, point.group, point.place] = point
        self.checkpoints = sorted(
            checkpoints.values(),
            key=lambda checkpoint: (checkpoint.source, checkpoint.group, checkpoint.place),
        )


async def _newest(workspace: "Workspace", topic: str, limit: int) -> list[ConsumerRecord]:
    """Both kinds of topics have one partition. Oldest first."""
    place = TopicPartition(topic, 0)
    try:
        begins, ends = await reading.edges(workspace, [place])
        part = await reading.backward(workspace, begins, ends, limit, "read_committed")
    except OttlaError:
        return []
    return sorted(part.records, key=lambda record: record.offset)


def _heartbeat(source: str, record: ConsumerRecord) -> Heartbeat | None:
    try:
        written_for, written_at, at_ms = formats.read_heartbeat(record.key or b"", record.value or b"")
    except (struct.error, UnicodeDecodeError):
        return None  # somebody else's record
    return Heartbeat(source, written_for if written_at == source else "here", at_ms)


def _checkpoint(source: str, record: ConsumerRecord) -> Checkpoint | None:
    try:
        group, place, upstream, downstream, _ = formats.read_checkpoint(
            record.key or b"", record.value or b""
        )
    except (struct.error, UnicodeDecodeError):
        return None
    return Checkpoint(source, group, place, upstream, downstream)
