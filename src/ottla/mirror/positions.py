"""What a step commits for each partition of the target: how far the source was copied, and what to show. Pure."""

import json
from dataclasses import dataclass

from ottla.client.values import OffsetAndMetadata
from ottla.mirror.errors import PositionLost

FORMAT = 1


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

    def to_offset(self) -> OffsetAndMetadata:
        """The offset is the target's: tools see a consumer that stands at the end."""
        shown = [
            self.source, self.topic_id, self.epoch, self.records, self.bytes, self.timestamp_ms, self.at_ms,
            self.skipped,
        ]  # fmt: skip
        return OffsetAndMetadata(
            self.target, json.dumps({"mirror": FORMAT, "at": shown}, separators=(",", ":"))
        )


def read(where: object, committed: OffsetAndMetadata) -> Position:
    try:
        told = json.loads(committed.metadata)
        if told["mirror"] != FORMAT:
            raise PositionLost(
                f"{where} was committed in format {told['mirror']}; this version reads {FORMAT}"
            )
        source, topic_id, epoch, records, size, timestamp_ms, at_ms, skipped = told["at"]
        return Position(
            source, committed.offset, topic_id, epoch, records, size, timestamp_ms, at_ms, skipped
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PositionLost(
            f"the position of {where} was not committed by a mirror: {committed.metadata!r}. Delete the topic at the "
            "target to copy it again"
        ) from error
