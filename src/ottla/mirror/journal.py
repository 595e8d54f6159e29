"""Records of the link's own topic at the target: runs of copied records, and what operators ask for. Pure."""

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ottla.client.values import TopicPartition
from ottla.mirror.runs import Run, Translator, join, pack, unpack

RUNS_OF_RECORD_MAX = 5_000  # 100 KB
_TAIL = struct.Struct(">i16sq")
_RUN, _CONTROL = b"r", b"c"
CONFIGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}


class RunKey(NamedTuple):
    """`topic_id` is the target topic's: a topic that was deleted and made again has other runs."""

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


class Journal:
    """What the records say so far."""

    def __init__(self) -> None:
        self.control = Control()
        self.maps: dict[tuple[TopicPartition, bytes], Translator] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        if key[:1] == _CONTROL:
            self.control = Control(**json.loads(value)) if value else Control()
        elif key[:1] == _RUN and value is not None:
            told = read_run_key(key)
            self.maps.setdefault((told.partition, told.topic_id), Translator()).add(unpack(value))


def read_run_key(key: bytes) -> RunKey:
    partition, topic_id, source = _TAIL.unpack_from(key, len(key) - _TAIL.size)
    topic = key[1 : len(key) - _TAIL.size].decode()
    return RunKey(TopicPartition(topic, partition), topic_id, source)
