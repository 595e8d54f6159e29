"""Records of the link's own topic at the target: runs of copied records, and what operators ask for. Pure."""

import bisect
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ottla.client.values import TopicPartition
from ottla.mirror.runs import Run, Translator, join, pack, unpack

RUNS_OF_RECORD_MAX = 5_000  # 100 KB
RECORDS_MAX = 200_000  # of one partition, whose keys are remembered so that they can be deleted
_TAIL = struct.Struct(">i16sq")
_RUN, _CONTROL = b"r", b"c"
CONFIGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}


class RunKey(NamedTuple):
    """`topic_id` is the target topic's: a topic that was deleted and re-created has other runs."""

    partition: TopicPartition  # of the source
    topic_id: bytes
    source: int


@dataclass(frozen=True, slots=True)
class Control:
    """What operators ask of a running link."""

    paused: bool = False
    throttle_bytes: int | None = None  # None: as the link's settings say

    def changed(self, **changes: Any) -> "Control":
        return replace(self, **changes)


def run_records(
    partition: TopicPartition, topic_id: bytes, runs: Iterable[Run]
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values that remember the runs of a step."""
    joined = join(runs)
    for begin in range(0, len(joined), RUNS_OF_RECORD_MAX):
        part = joined[begin : begin + RUNS_OF_RECORD_MAX]
        yield run_key(RunKey(partition, topic_id, part[0].source)), pack(part)


def run_key(key: RunKey) -> bytes:
    topic = key.partition.topic.encode()
    return _RUN + topic + _TAIL.pack(key.partition.partition, key.topic_id, key.source)


def control_record(control: Control) -> tuple[bytes, bytes]:
    return _CONTROL, json.dumps(asdict(control)).encode()


def is_control(key: bytes) -> bool:
    return key == _CONTROL


MapKey = tuple[TopicPartition, bytes]  # the source's partition and the target topic's id


class Journal:
    """What the records say so far."""

    def __init__(self) -> None:
        self.control = Control()
        self.maps: dict[MapKey, Translator] = {}
        # Where the records of each map begin: a record holds many runs under the source offset of its first.
        self._record_sources: dict[MapKey, list[int]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        if key[:1] == _CONTROL:
            self.control = Control(**json.loads(value)) if value else Control()
        elif key[:1] == _RUN:
            partition, topic_id, source = read_run_key(key)
            if value is None:
                self._forget_record((partition, topic_id), source)
            else:
                self.maps.setdefault((partition, topic_id), Translator()).add(unpack(value))
                self._remember_record((partition, topic_id), source)

    def forget_map(self, where: MapKey) -> list[bytes]:
        """The keys of its records, which can be deleted."""
        self.maps.pop(where, None)
        return [_key_of(where, source) for source in self._record_sources.pop(where, ())]

    def forget_below(self, where: MapKey, source: int) -> list[bytes]:
        """Forgets runs below a source offset; the keys of records that can be deleted.

        A record goes when the next one begins at or below the first run that is kept: until then one of its later runs
        may be needed, and without it a restarted mirror would translate to a later record, and groups would skip some.
        """
        first_kept = self.maps[where].forget_below(source)
        sources = self._record_sources.get(where, [])
        if first_kept is None or not sources:
            return []
        count = max(0, bisect.bisect_right(sources, first_kept) - 1)
        unneeded, sources[:count] = sources[:count], []
        return [_key_of(where, record_source) for record_source in unneeded]

    def _remember_record(self, where: MapKey, source: int) -> None:
        sources = self._record_sources.setdefault(where, [])
        at = bisect.bisect_left(sources, source)
        if at == len(sources) or sources[at] != source:
            sources.insert(at, source)
        if len(sources) > RECORDS_MAX:
            # A key that is not remembered is not deleted, and the record before it is kept longer: both are harmless.
            del sources[1 : len(sources) // 2 : 2]

    def _forget_record(self, where: MapKey, source: int) -> None:
        """Its runs stay known until they lie below the source's log start: deletions only save space."""
        sources = self._record_sources.get(where, [])
        at = bisect.bisect_left(sources, source)
        if at < len(sources) and sources[at] == source:
            del sources[at]


def _key_of(where: MapKey, source: int) -> bytes:
    return run_key(RunKey(*where, source))


def read_run_key(key: bytes) -> RunKey:
    partition, topic_id, source = _TAIL.unpack_from(key, len(key) - _TAIL.size)
    topic = key[1 : len(key) - _TAIL.size].decode()
    return RunKey(TopicPartition(topic, partition), topic_id, source)
