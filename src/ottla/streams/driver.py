"""`TestDriver`: an application without broker, JVM or Spark. Each record is a step; time moves when it is told to."""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.globals import take_in
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_cells, arrow_column, numpy_column
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import WALL, Pipeline, Stage, TaskId, upstream_first
from ottla.streams import nodes
from ottla.streams.app import App
from ottla.streams.errors import BadTopology
from ottla.streams.guarding import MARK
from ottla.streams.serdes import Serde, bytes_, milliseconds, objects
from ottla.streams.views import view
from ottla.wire import columns

Headers = list[tuple[str, bytes | None]]


# The columns of a single record that are always the same: most steps have one.
_ZERO = arrow_column(np.zeros(1, np.int32))
_FIRST = arrow_column(np.zeros(1, np.int64))
_NO_HEADERS = columns.no_headers(1)


class Written(NamedTuple):
    """A record as it would lie in its topic."""

    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: Headers | None = None


class TestDriver:
    """The stages that Spark would run, with one partition each. A context manager."""

    __test__ = False  # for pytest: not a test

    def __init__(self, app: App, time_ms: int = 0) -> None:
        self._pipeline = app.pipeline()
        self._graph = app._builder.graph
        self._dead_letters = app._policy.outputs
        self._globals = {table.topic: KeyedStore(table.store) for table in self._pipeline.globals}
        shared = {store.spec.name: store for store in self._globals.values()}
        self._tasks = [_Task(stage, shared) for stage in upstream_first(self._pipeline)]
        self._readers = _readers(self._pipeline, self._tasks)
        self._written: dict[str, list[Written]] = {}
        self._waiting: deque[tuple[str, pa.RecordBatch]] = deque()
        self.now_ms = time_ms

    def __enter__(self) -> "TestDriver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def input(self, topic: str) -> "Input":
        for placed in self._graph.nodes:
            if isinstance(placed.node, nodes.Source) and placed.node.name == topic:
                return Input(self, topic, placed.node.key, placed.node.value)
        for table in self._graph.globals.values():
            if table.topic == topic:
                return Input(self, topic, table.key, table.value)
        raise BadTopology(f"the app does not read {topic}")

    def output(self, topic: str) -> "Output":
        if topic in self._dead_letters:
            return Output(self._written.setdefault(topic, []), bytes_, bytes_)
        for placed in self._graph.nodes:
            if isinstance(placed.node, nodes.Sink) and placed.node.topic == topic:
                return Output(self._written.setdefault(topic, []), placed.node.key, placed.node.value)
        raise BadTopology(f"the app does not write to {topic}")

    def written(self, topic: str) -> list[Written]:
        """The bytes that went to a topic, internal ones and changelogs included."""
        return self._written.get(topic, [])

    def store(self, name: str) -> Any:
        """Read access: by key; of windows and sessions also by time."""
        for task in self._tasks:
            if name in task.stores:
                return view(self._graph, name, partial(task.stores.__getitem__, name))
        raise BadTopology(f"the app has no store {name}")

    def errors(self) -> dict[str, int]:
        """How many records were skipped, by what failed: deserialization, processing, production."""
        counts: dict[str, int] = {}
        for task in self._tasks:
            for mark, count in task.marks.items():
                if mark.startswith(MARK):
                    kind = mark.removeprefix(MARK)
                    counts[kind] = counts.get(kind, 0) + count
        return counts

    def advance(self, *, seconds: float = 0, ms: int = 0) -> None:
        """Moves the wall clock: it is time for what was scheduled by it. With `App(clock="wall")` stages move too, so
        that windows close."""
        self.now_ms += int(seconds * 1000) + ms
        for task in self._tasks:
            self._take(task, task.step(None, self.now_ms))
            self._drain()

    def feed(self, topic: str, rows: pa.RecordBatch) -> None:
        """Rows in the schema of a fetch, as one step."""
        self._waiting.append((topic, rows))
        self._drain()

    def _drain(self) -> None:
        """Until nothing is on its way through internal topics."""
        while self._waiting:
            topic, rows = self._waiting.popleft()
            if topic in self._globals:
                take_in(self._globals[topic], rows)
            task = self._readers.get(topic)
            if task is not None:
                self._take(task, task.step(rows, self.now_ms))

    def _take(self, task: "_Task", step: Step) -> None:
        for output, rows in step.emitted:
            topic = self._pipeline.topic(output)
            self._written.setdefault(topic, []).extend(_written(rows))
            if topic in self._readers and topic != output:
                self._waiting.append((topic, _read(topic, rows)))
        for name, changes in task.changes.items():
            self._written.setdefault(self._pipeline.changelog(name), []).extend(_written(changes))


class _Task:
    """What a stream task does in a step, without a log."""

    def __init__(self, stage: Stage, shared: Mapping[str, KeyedStore]) -> None:
        self.stage, self._shared = stage, shared
        self.stores: dict[str, KeyedStore] = {spec.name: KeyedStore(spec) for spec in stage.stores}
        self.changes: dict[str, pa.RecordBatch] = {}
        self._id = TaskId(stage.name, 0)
        self._outputs = frozenset(stage.outputs)
        self._operator = stage.operator()
        self._time_ms = -1
        self.marks: dict[str, int] = {}

    def step(self, rows: pa.RecordBatch | None, wall_ms: int) -> Step:
        step = Step(
            self._id, {**self.stores, **self._shared}, self._outputs, self._time_ms, wall_ms, self.marks
        )
        newest = -1
        if rows is not None:
            self._operator.process(rows, step)
            newest = int(milliseconds(rows.column("timestamp")).max())
        elif self.stage.clock == WALL:
            newest = step.moved_ms = wall_ms
        self._time_ms = step.time_ms = max(self._time_ms, newest)
        self._operator.advance(step)
        self.marks = step.marks
        changes = {name: store.changes(max(0, self._time_ms)) for name, store in self.stores.items()}
        self.changes = {name: changed for name, changed in changes.items() if changed.num_rows}
        return step


class Input:
    """Where records are piped in, in the values that the app's serdes give."""

    def __init__(self, driver: TestDriver, topic: str, key: Serde, value: Serde) -> None:
        self._driver, self._topic, self._key, self._value = driver, topic, key, value

    def pipe(
        self, value: Any, key: Any = None, at: int | None = None, headers: Headers | None = None
    ) -> None:
        """`at` is the record's time in milliseconds; without it, that of the driver."""
        self.pipe_bytes(self._key.encode([key]), self._value.encode([value]), at, headers)

    def pipe_bytes(self, key: Any, value: Any, at: int | None = None, headers: Headers | None = None) -> None:
        """A record as others may have written it: what no serde would."""
        keys, values = (
            cell if isinstance(cell, pa.Array) else arrow_cells([cell], pa.binary()) for cell in (key, value)
        )
        stamps = np.array([self._driver.now_ms if at is None else at], np.int64)
        self._driver.feed(self._topic, _fetched(self._topic, keys, values, stamps, [headers]))

    def pipe_all(self, records: Iterable[tuple[Any, Any, int]]) -> None:
        """Keys, values and times, one step each."""
        for key, value, at in records:
            self.pipe(value, key, at)


class Output:
    """What was written to a topic."""

    def __init__(self, written: list[Written], key: Serde, value: Serde) -> None:
        self._written, self._key, self._value = written, key, value

    def records(self) -> list[tuple[Any, Any, int]]:
        """Key, value and time of all, in order."""
        keys, values = (
            objects(serde.decode(arrow_cells([record[place] for record in self._written], pa.binary())))
            for place, serde in enumerate((self._key, self._value))
        )
        return list(zip(keys, values, [record.time_ms for record in self._written], strict=True))

    def values(self) -> list[Any]:
        return [value for _, value, _ in self.records()]

    def headers(self) -> list[Headers]:
        return [record.headers or [] for record in self._written]

    def table(self) -> dict[Any, Any]:
        """The latest value of each key; a record without value deletes."""
        rows: dict[Any, Any] = {}
        for key, value, _ in self.records():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        return rows


def _readers(pipeline: Pipeline, tasks: list[_Task]) -> dict[str, _Task]:
    """The stage that reads a topic: there is one at most."""
    return {pipeline.topic(name): task for task in tasks for name in task.stage.inputs}


def _written(rows: pa.RecordBatch) -> list[Written]:
    names = rows.schema.names
    stamps = rows.column("timestamp")
    times = stamps.to_pylist() if pa.types.is_integer(stamps.type) else milliseconds(stamps).tolist()
    headers = [_pairs(cell) for cell in rows.column("headers").to_pylist()] if "headers" in names else None
    keys = rows.column("key").to_pylist() if "key" in names else [None] * rows.num_rows
    cells = zip(keys, rows.column("value").to_pylist(), times, strict=True)
    return [Written(*cell, headers[at] if headers else None) for at, cell in enumerate(cells)]


def _pairs(cell: list[dict[str, Any]] | None) -> Headers | None:
    return None if cell is None else [(header["key"], header["value"]) for header in cell]


def _read(topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """As it comes from the topic."""
    headers = (
        [_pairs(cell) for cell in rows.column("headers").to_pylist()]
        if "headers" in rows.schema.names
        else None
    )
    stamps = numpy_column(rows.column("timestamp"))
    return _fetched(topic, rows.column("key"), rows.column("value"), stamps, headers)


def _fetched(
    topic: str, keys: pa.Array, values: pa.Array, stamps_ms: Any, headers: list[Headers | None] | None
) -> pa.RecordBatch:
    count = len(keys)
    zeros = _ZERO if count == 1 else arrow_column(np.zeros(count, np.int32))
    cells = _NO_HEADERS if count == 1 else columns.no_headers(count)
    if headers and any(headers):
        cells = pa.array([_structs(cell or []) for cell in headers], columns.HEADERS)
    arrays = [
        keys,
        values,
        _topics(topic, count),
        zeros,
        _FIRST if count == 1 else arrow_column(np.arange(count)),
        arrow_column(stamps_ms * 1000, columns.TIMESTAMP),
        zeros,
        cells,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.SCHEMA_WITH_HEADERS)


@lru_cache(maxsize=256)
def _topics(name: str, count: int) -> pa.Array:
    return arrow_cells([name] * count, pa.string())


def _structs(headers: Headers) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in headers]
