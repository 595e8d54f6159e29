"""What a step commits with each position: which state belongs to it, how far the clock is, and what to show."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.pipelines.errors import PipelineError, StateLost
from ottla.pipelines.operators import WALL_MARK
from ottla.pipelines.topology import TaskId

FORMAT = 1
METADATA_MAX = 4_000  # brokers take 4,096 bytes unless told otherwise (offset.metadata.max.bytes)


class ChangelogEnd(NamedTuple):
    """Where a store's changelog ends, in the topic with this id, and how its values are encoded."""

    offset: int
    topic_id: str
    signature: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What is shown of a stream task."""

    records: int = 0  # read since the pipeline began
    written: int = 0  # results since the pipeline began
    rows: int = 0  # of its stores
    bytes: int = 0
    restored: int = 0  # changelog records read for the last step
    at_ms: int = 0
    took_ms: int = 0
    host: str = ""
    ages_ms: tuple[int, ...] = ()  # of some of the last step's records when it was about to be committed
    shown: Mapping[str, int] = field(default_factory=dict)  # what the operator shows


FIGURES = tuple(figure.name for figure in fields(Figures))


@dataclass(frozen=True, slots=True)
class Commit:
    """The outcome of a stream task's last step. `token` is empty before the first one."""

    offsets: Mapping[TopicPartition, int]
    token: bytes = b""
    ends: Mapping[str, ChangelogEnd] = field(default_factory=dict)
    time_ms: int = -1
    figures: Figures = Figures()
    task: str = ""
    marks: Mapping[str, int] = field(default_factory=dict)  # what the operator keeps from step to step
    # Whether everything that was written behind `ends` is hidden by transactions. False also for the commits of earlier
    # versions, which do not say.
    is_exact: bool = False

    def next_wall_ms(self) -> int | None:
        """When the stage is to be stepped although nothing came."""
        return min((at for name, at in self.marks.items() if name.startswith(WALL_MARK)), default=None)

    def to_metadata(self) -> str:
        """Figures are left out where they would not fit: a position that cannot be committed helps nobody."""
        text = self._text(self.figures)
        text = text if len(text) <= METADATA_MAX else self._text(Figures(records=self.figures.records))
        if len(text) > METADATA_MAX and self.marks:
            raise PipelineError(
                f"{self.task} keeps {len(self.marks)} marks between its steps, more than a position's metadata takes "
                f"({METADATA_MAX} bytes): split the stage"
            )
        return text

    def _text(self, figures: Figures) -> str:
        content: dict[str, Any] = {
            "v": FORMAT,
            "task": self.task,
            "token": self.token.hex(),
            "ends": {name: list(end) for name, end in self.ends.items()},
            "time": self.time_ms,
            "shown": [getattr(figures, name) for name in FIGURES],
        }
        if self.marks:
            content["marks"] = dict(self.marks)
        if self.is_exact:
            content["exact"] = 1
        return json.dumps(content, separators=(",", ":"))

    def to_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """All positions carry the same text."""
        text = self.to_metadata()
        return {where: OffsetAndMetadata(offset, text) for where, offset in self.offsets.items()}


def read_commit(
    task: TaskId, inputs: Iterable[TopicPartition], committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> Commit:
    """The commit behind all positions of a stream task."""
    missing = [str(where) for where in inputs if where not in committed]
    if missing:
        raise StateLost(
            f"{task} has no committed position for {', '.join(missing)}: it was deleted, with its topic or by itself, "
            "or has expired. Without it nobody knows what the state holds; reset the pipeline to begin again"
        )
    committed = {where: committed[where] for where in inputs}
    texts = {position.metadata for position in committed.values()}
    if len(texts) != 1:
        raise PipelineError(
            f"the positions of {task} are of different steps: somebody else has committed to the pipeline's group"
        )
    offsets = {where: position.offset for where, position in committed.items()}
    return parse(str(task), offsets, texts.pop())


def parse(task: str, offsets: Mapping[TopicPartition, int], text: str) -> Commit:
    """The commit that a position's metadata describes."""
    if not text:
        # Set by a tool, for a pipeline whose internal topics are new: no step has left anything in them.
        return Commit(offsets, task=task, is_exact=True)
    try:
        content = json.loads(text)
        if content["v"] != FORMAT:
            raise PipelineError(f"{task} was committed in format {content['v']}; this version reads {FORMAT}")
        return Commit(
            offsets,
            bytes.fromhex(content["token"]),
            {name: ChangelogEnd(*end) for name, end in content["ends"].items()},
            content["time"],
            _figures(content["shown"]),
            content["task"],
            content.get("marks", {}),
            bool(content.get("exact", 0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(
            f"the positions of {task} were not committed by the pipeline; reset it to begin again"
        ) from error


def _figures(values: list[Any]) -> Figures:
    """A commit of another version may show more or less."""
    known = dict(zip(FIGURES, values, strict=False))
    return Figures(**{**known, "ages_ms": tuple(known.get("ages_ms", ()))})
