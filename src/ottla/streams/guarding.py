"""Errors by policy: a record that cannot be read, processed or written stops the application, is skipped, or goes to a
dead-letter topic with Kafka Streams' headers (KIP-1034). All that are skipped are counted.

What a node did before its error stays done, as in Kafka Streams: the record is missing behind that node alone.
"""

import logging
import traceback
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_cells
from ottla.streams.errors import BadTopology
from ottla.streams.frames import EMPTY, Frame, concatenated
from ottla.streams.json_serde import json
from ottla.streams.nodes import AnyNode, Node, SeparateNode, Sink, Source
from ottla.streams.nodes import stateless as stateless_nodes
from ottla.streams.serdes import objects
from ottla.wire.columns import HEADERS

log = logging.getLogger(__name__)
FAIL, SKIP = "fail", "skip"
READING, PROCESSING, WRITING = "deserialization", "processing", "production"
MARK = "errors:"
SETTING = "errors.dead.letter.queue.topic.name"
# The fields in which nodes hold functions of the user's.
_USERS = ("function", "test", "tests", "make", "initial", "add", "merger", "select")


@frozen_with_dict
class Policy:
    """`dead_letters` is the topic for what is skipped."""

    on_error: str = FAIL
    dead_letters: str | None = None

    def __post_init__(self) -> None:
        if self.on_error not in (FAIL, SKIP):
            raise BadTopology(f"errors={self.on_error!r}; it is {FAIL!r} or {SKIP!r}")

    @property
    def outputs(self) -> tuple[str, ...]:
        return () if self.dead_letters is None else (self.dead_letters,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Of records, beyond those that the topology needs."""
        return () if self.dead_letters is None else ("partition", "offset")


def chosen(errors: str | None, client: dict[str, Any]) -> Policy:
    """Kafka's setting among those of clients chooses the dead-letter topic; records are skipped then."""
    topic = client.pop(SETTING, None)
    if topic is not None and errors == FAIL:
        raise BadTopology(
            f"{SETTING} skips what fails, errors={FAIL!r} stops: a step that stops writes nothing"
        )
    return Policy(errors or (FAIL if topic is None else SKIP), topic)


class Guard:
    """Runs the nodes of a sub-topology for one run of records after the other."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._rows: pa.RecordBatch | None = None

    def begin(self, rows: pa.RecordBatch | None) -> None:
        """The records that are worked on: what fails is looked up there."""
        self._rows = rows

    def read(self, source: Source, rows: pa.RecordBatch, order: Any, step: Step) -> Frame:
        if self._policy.on_error == FAIL:
            return source.read(rows, order)
        try:
            return source.read(rows, order)
        except Exception as error:
            if rows.num_rows == 1:
                self._skip(READING, step, error, rows, 0)
                return EMPTY
        frames = []
        for at in range(rows.num_rows):
            try:
                frames.append(source.read(rows.slice(at, 1), order[at : at + 1]))
            except Exception as error:
                self._skip(READING, step, error, rows, at)
        return concatenated(frames)

    def run(self, node: Node, frame: Frame, step: Step, *sides: Frame) -> Frame:
        if self._policy.on_error == FAIL:
            return node.run(frame, step, *sides)
        if not _may_repeat(node):
            return self._singly(node, frame, step, *sides)
        try:
            return node.run(frame, step, *sides)
        except _FATAL:
            raise
        except Exception:
            return self._singly(node, frame, step, *sides)

    def run_separate(self, node: SeparateNode, frames: list[Frame], step: Step) -> Frame:
        if self._policy.on_error == FAIL:
            return node.run_separate(frames, step)
        places = sorted(
            (int(at), side, row) for side, frame in enumerate(frames) for row, at in enumerate(frame.order)
        )
        outputs = []
        for _, side, row in places:
            single = frames[side].take(np.array([row]))
            inputs = [single if place == side else EMPTY for place in range(len(frames))]
            try:
                outputs.append(node.run_separate(inputs, step))
            except _FATAL:
                raise
            except Exception as error:
                self._skip(PROCESSING, step, error, *self._origin(single))
        return _with_trace(outputs)

    def on_time(self, node: AnyNode, step: Step) -> Frame:
        try:
            return node.on_time(step)
        except _FATAL:
            raise
        except Exception as error:
            if self._policy.on_error == FAIL:
                raise
            self._skip(PROCESSING, step, error, None, 0)
            return EMPTY

    def _singly(self, node: Node, frame: Frame, step: Step, *sides: Frame) -> Frame:
        if len(frame) > 1 and not _is_of_users(node):
            return node.run(frame, step, *sides)  # counts and the like: nothing of a record can fail there
        outputs = []
        for at in range(len(frame)):
            single = frame.take(np.array([at]))
            try:
                outputs.append(node.run(single, step, *sides))
            except _FATAL:
                raise
            except Exception as error:
                kind = WRITING if isinstance(node, Sink) else PROCESSING
                rows, place = self._origin(single)
                self._skip(kind, step, error, rows, place)
        return _with_trace(outputs)

    def _origin(self, single: Frame) -> tuple[pa.RecordBatch, int]:
        """The record as it was read; at scheduled times there is none, but what failed, in JSON."""
        if self._rows is not None:
            return self._rows, int(single.order[0])
        keys, values = (
            json.encode([_plain(cell) for cell in objects(column)]) for column in (single.keys, single.values)
        )
        return pa.RecordBatch.from_arrays([keys, values], names=["key", "value"]), 0

    def _skip(self, kind: str, step: Step, error: Exception, rows: pa.RecordBatch | None, at: int) -> None:
        mark = MARK + kind
        step.marks[mark] = step.marks.get(mark, 0) + 1
        if step.marks[mark] == 1:
            log.warning("%s: the first %s error is skipped: %r", step.task, kind, error)
        if self._policy.dead_letters is not None and rows is not None:
            step.emit(self._policy.dead_letters, _letter(rows, at, error, step))


def _with_trace(outputs: list[Frame]) -> Frame:
    """All records one after the other; a join that reads the table sees its changes as if they had come at once."""
    whole = concatenated(outputs)
    if all(frame.trace is None for frame in outputs):
        return whole
    traces = [frame if frame.trace is None else frame.trace for frame in outputs]
    return replace(whole, trace=concatenated(traces))


_FATAL = (BadTopology, PipelineError)  # of the program, not of a record


def shown(step: Step) -> dict[str, int]:
    """Counts of errors for the status."""
    return {name.replace(":", "_"): n for name, n in step.marks.items() if name.startswith(MARK)}


def _may_repeat(node: Node) -> bool:
    """Whether running a node again after an error does no harm: it has no state and calls nothing for its effects."""
    stateless = type(node).__module__ == stateless_nodes.__name__
    return isinstance(node, Sink) or (stateless and not isinstance(node, stateless_nodes.Peek))


def _is_of_users(node: Node) -> bool:
    keeping = getattr(node, "keeping", None)
    return isinstance(node, Sink) or any(
        hasattr(holder, name) for holder in (node, keeping) for name in _USERS
    )


def _letter(rows: pa.RecordBatch, at: int, error: Exception, step: Step) -> pa.RecordBatch:
    names = rows.schema.names
    cells = {name: rows.column(name)[at].as_py() for name in names if name != "timestamp"}
    text = "".join(traceback.format_exception(error))
    kind = type(error)
    headers = [
        *(cells.get("headers") or ()),
        _header("__streams.errors.exception", f"{kind.__module__}.{kind.__qualname__}"),
        _header("__streams.errors.message", str(error)),
        _header("__streams.errors.stacktrace", text),
        _header("__streams.errors.topic", cells.get("topic") or ""),
        _header("__streams.errors.partition", str(cells.get("partition", step.task.partition))),
        _header("__streams.errors.offset", str(cells.get("offset", -1))),
    ]
    stamps = (
        rows.column("timestamp").slice(at, 1).view(pa.int64()).to_numpy() // 1000
        if "timestamp" in names
        else None
    )
    columns = [
        arrow_cells([cells["key"]], pa.binary()),
        arrow_cells([cells["value"]], pa.binary()),
        pa.array([max(0, step.time_ms)] if stamps is None else stamps, pa.int64()),
        pa.array([headers], HEADERS),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp", "headers"])


def _header(name: str, text: str) -> dict[str, Any]:
    return {"key": name, "value": text.encode()}


def _plain(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
