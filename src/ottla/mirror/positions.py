"""What a step commits for each partition of the target: how far the source was copied, and what to show. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.client.values import OffsetAndMetadata
from ottla.mirror.errors import PositionLost
from ottla.mirror.runs import Run

FORMAT, WITH_RUNS = 1, 2


@dataclass(frozen=True, slots=True)
class Position:
    """`source` is the next offset to copy, `target` the end of what was written. `topic_id` is the source topic's."""

    source: int
    target: int = 0
    topic_id: str = ""
    epoch: int = -1  # the leader epoch of the last batch that was copied
    records: int = 0  # copied since the link began
    bytes: int = 0
    timestamp_ms: int = -1  # of the newest record of the last batch
    at_ms: int = 0  # when the step was committed
    skipped: int = 0  # offsets that were gone at the source before they were copied
    runs: tuple[Run, ...] = ()  # the last ones, which the journal does not have yet

    def to_offset(self) -> OffsetAndMetadata:
        """The offset is the target's: tools see a consumer that stands at the end."""
        shown = [
            self.source, self.topic_id, self.epoch, self.records, self.bytes, self.timestamp_ms, self.at_ms,
            self.skipped,
        ]  # fmt: skip
        metadata: dict[str, object] = {"mirror": FORMAT, "at": shown}
        if self.runs:  # a version that does not know them must not write a position without them
            metadata = {"mirror": WITH_RUNS, "at": shown, "runs": _packed(self.runs)}
        return OffsetAndMetadata(self.target, json.dumps(metadata, separators=(",", ":")))


def read(where: object, committed: OffsetAndMetadata) -> Position:
    try:
        content = json.loads(committed.metadata)
        if content["mirror"] not in (FORMAT, WITH_RUNS):
            raise PositionLost(
                f"{where} was committed in format {content['mirror']}; this version reads {FORMAT} and {WITH_RUNS}"
            )
        source, topic_id, epoch, records, size, timestamp_ms, at_ms, skipped = content["at"]
        return Position(
            source, committed.offset, topic_id, epoch, records, size, timestamp_ms, at_ms, skipped,
            tuple(_unpacked(content.get("runs", ()))),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise PositionLost(
            f"the position of {where} was not committed by a mirror: {committed.metadata!r}. Delete the topic at the "
            "target to copy it again"
        ) from error


def _packed(runs: Iterable[Run]) -> list[int]:
    """Flat, each run from the end of the one before it: few digits."""
    packed: list[int] = []
    source = target = 0
    for run in runs:
        packed += [run.source - source, run.target - target, run.length]
        source, target = run.source + run.length, run.target + run.length
    return packed


def _unpacked(packed: Sequence[int]) -> Iterable[Run]:
    source = target = 0
    for at in range(0, len(packed), 3):
        source, target, length = source + packed[at], target + packed[at + 1], packed[at + 2]
        yield Run(source, target, length)
        source, target = source + length, target + length
