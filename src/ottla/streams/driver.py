"""`TestDriver`: an application without broker, JVM or Spark. Each record is a step; time moves when it is told to."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import Stage, TaskId, upstream_first
from ottla.streams import nodes
from ottla.streams.app import App
from ottla.streams.errors import BadTopology
from ottla.streams.serdes import Serde, objects
from ottla.wire import columns


class TestDriver:
    """The stages that Spark would run, with one partition each. A context manager."""

    __test__ = False  # for pytest: not a test

    def __init__(self, app: App, time_ms: int = 0) -> None:
        self._pipeline = app.pipeline()
        self._nodes = app._builder.graph.nodes
        self._tasks = [_Task(stage) for stage in upstream_first(self._pipeline)]
        self._written: dict[str, list[tuple[Any, Any, int]]] = {}
        self._waiting: list[tuple[str, pa.RecordBatch]] = []
        self._next_ms = time_ms

    def __enter__(self) -> "TestDriver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def input(self, topic: str) -> "Input":
        for placed in self._nodes:
            if isinstance(placed.node, nodes.Source) and placed.node.name == topic:
                return Input(self, topic, placed.node.key, placed.node.value)
        raise BadTopology(f"the app does not read {topic}")

    def output(self, topic: str) -> "Output":
        for placed in self._nodes:
            if isinstance(placed.node, nodes.Sink) and placed.node.topic == topic:
                return Output(self._written.setdefault(topic, []), placed.node.key, placed.node.value)
        raise BadTopology(f"the app does not write to {topic}")

    def store(self, name: str) -> "Store":
        for placed in self._nodes:
            for spec in placed.stores:
                if spec.name == name:
                    store = next(task.stores[name] for task in self._tasks if name in task.stores)
                    return Store(store, placed.node)
        raise BadTopology(f"the app has no store {name}")

    def advance(self, *, seconds: float = 0, ms: int = 0) -> None:
        """Moves the wall clock, and with it every stage."""
        self._next_ms += int(seconds * 1000) + ms
        for task in self._tasks:
            self._take(task, task.step(None, self._next_ms))
        self._drain()

    def _feed(self, topic: str, rows: pa.RecordBatch) -> None:
        self._waiting.append((topic, rows))
        self._drain()

    def _drain(self) -> None:
        """Until nothing is on its way through internal topics."""
        while self._waiting:
            topic, rows = self._waiting.pop(0)
            for task in self._tasks:
                names = {self._pipeline.topic(name): name for name in task.stage.inputs}
                if topic in names:
                    self._take(task, task.step(rows, None))

    def _take(self, task: "_Task", step: Step) -> None:
        for output, rows in step.emitted:
            name = self._pipeline.topic(output)
            if name != output:
                self._waiting.append((name, _read(name, rows)))
                continue
            cells = (
                rows.column("key").to_pylist(),
                rows.column("value").to_pylist(),
                rows.column("timestamp").to_pylist(),
            )
            self._written.setdefault(name, []).extend(zip(*cells, strict=True))


class _Task:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.stores: dict[str, KeyedStore] = {spec.name: KeyedStore(spec) for spec in stage.stores}
        self._operator = stage.operator()
        self._time_ms = -1

    def step(self, rows: pa.RecordBatch | None, wall_ms: int | None) -> Step:
        step = Step(TaskId(self.stage.name, 0), self.stores, frozenset(self.stage.outputs), self._time_ms)
        newest = -1
        if rows is not None:
            self._operator.process(rows, step)
            newest = max(rows.column("timestamp").cast(pa.int64()).to_pylist()) // 1000
        self._time_ms = step.time_ms = max(self._time_ms, newest, -1 if wall_ms is None else wall_ms)
        self._operator.advance(step)
        for store in self.stores.values():
            store.changes(max(0, self._time_ms))
        return step


class Input:
    """Where records are piped in, in the values that the app's serdes give."""

    def __init__(self, driver: TestDriver, topic: str, key: Serde, value: Serde) -> None:
        self._driver, self._topic, self._key, self._value = driver, topic, key, value

    def pipe(self, value: Any, key: Any = None, at: int | None = None) -> None:
        """`at` is the record's time in milliseconds; without it, that of the driver."""
        stamp = self._driver._next_ms if at is None else at
        columns_ = [self._key.encode([key]), self._value.encode([value]), pa.array([stamp], pa.int64())]
        rows = pa.RecordBatch.from_arrays(columns_, names=["key", "value", "timestamp"])
        self._driver._feed(self._topic, _read(self._topic, rows))


class Output:
    """What was written to a topic."""

    def __init__(self, cells: list[tuple[Any, Any, int]], key: Serde, value: Serde) -> None:
        self._cells, self._key, self._value = cells, key, value

    def records(self) -> list[tuple[Any, Any, int]]:
        """Key, value and time of all, in order."""
        keys, values = ([cells[i] for cells in self._cells] for i in (0, 1))
        decoded = (
            objects(s.decode(pa.array(c, pa.binary()))) for s, c in ((self._key, keys), (self._value, values))
        )
        return list(zip(*decoded, [at for _, _, at in self._cells], strict=True))

    def values(self) -> list[Any]:
        return [value for _, value, _ in self.records()]

    def table(self) -> dict[Any, Any]:
        """The latest value of each key; a record without value deletes."""
        found: dict[Any, Any] = {}
        for key, value, _ in self.records():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found


class Store(Mapping[Any, Any]):
    """The rows of a store, as the app's serdes give them."""

    def __init__(self, store: KeyedStore, node: Any) -> None:
        self._store, self._node = store, node

    def __getitem__(self, key: Any) -> Any:
        row = int(self._store.find(self._node.key.encode([key]))[0])
        if row < 0:
            raise KeyError(key)
        if isinstance(self._node, nodes.Count):
            return int(self._store["n"][row])
        return objects(self._node.value.decode(self._store.values([row])))[0]

    def __iter__(self) -> Iterator[Any]:
        rows = self._store.alive().nonzero()[0]
        return iter(objects(self._node.key.decode(self._store.keys(rows))))

    def __len__(self) -> int:
        return len(self._store)


def _read(topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """As it comes from the topic."""
    count = rows.num_rows
    stamps = pa.array([at * 1000 for at in rows.column("timestamp").to_pylist()], pa.int64()).cast(
        columns.TIMESTAMP
    )
    zeros = pa.array([0] * count, pa.int32())
    return pa.RecordBatch.from_arrays(
        [
            rows.column("key"),
            rows.column("value"),
            pa.array([topic] * count, pa.string()),
            zeros,
            pa.array(range(count), pa.int64()),
            stamps,
            zeros,
        ],
        schema=columns.SCHEMA,
    )
