"""Applications in steps of any size, with tasks that die between them: what pipelines do, without a broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ottla.pipelines.globals import take_in
from ottla.pipelines.operators import Step
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import Stage, TaskId, upstream_first
from ottla.streams import App
from ottla.wire import columns

Record = tuple[str, Any, Any, int]  # topic, key, value, time: bytes or None


class Task:
    """A stream task whose state is what its changelogs hold."""

    def __init__(self, stage: Stage, shared: dict[str, KeyedStore]) -> None:
        self._stage, self._shared = stage, shared
        self._changelogs: dict[str, list[pa.RecordBatch]] = {spec.name: [] for spec in stage.stores}
        self._marks: dict[str, int] = {}
        self._time_ms = -1
        self.waiting: list[Record] = []
        self.die()

    def die(self) -> None:
        """Nothing but changelogs and what was committed with the positions is left."""
        self._operator = self._stage.operator()
        self._stores = {spec.name: KeyedStore(spec) for spec in self._stage.stores}
        for name, changes in self._changelogs.items():
            for rows in changes:
                stamps = rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000
                self._stores[name].apply(rows.column("key"), rows.column("value"), stamps)

    def step(self) -> Step:
        rows, self.waiting = fetched(self.waiting), []
        stores = {**self._stores, **self._shared}
        step = Step(
            TaskId(self._stage.name, 0), stores, frozenset(self._stage.outputs), self._time_ms, 0, self._marks
        )
        self._operator.process(rows, step)
        newest = int(rows.column("timestamp").cast(pa.int64()).to_numpy().max()) // 1000
        self._time_ms = step.time_ms = max(self._time_ms, newest)
        self._operator.advance(step)
        self._marks = step.marks
        for name, store in self._stores.items():
            changes = store.changes(max(0, self._time_ms))
            if changes.num_rows:
                self._changelogs[name].append(changes)
        return step


class Steps:
    """An application. `out` are the records that it wrote to topics of its own, by topic and key."""

    def __init__(self, app: App) -> None:
        self._pipeline = app.pipeline()
        self._globals = {table.topic: KeyedStore(table.store) for table in self._pipeline.globals}
        shared = {store.spec.name: store for store in self._globals.values()}
        self._tasks = [Task(stage, shared) for stage in upstream_first(self._pipeline)]
        self._readers = {
            self._pipeline.topic(name): task for task in self._tasks for name in task._stage.inputs
        }
        self.out: dict[tuple[str, Any], list[tuple[Any, int]]] = {}

    def step(self, records: Iterable[Record]) -> None:
        """All these records in one step of the first stages, then what they gave in one step of the next ones."""
        for record in records:
            if record[0] in self._globals:
                take_in(self._globals[record[0]], fetched([record]))
            else:
                self._readers[record[0]].waiting.append(record)
        for task in self._tasks:
            if task.waiting:
                for output, rows in task.step().emitted:
                    self._take(self._pipeline.topic(output), rows)

    def die(self) -> None:
        for task in self._tasks:
            task.die()

    def _take(self, topic: str, rows: pa.RecordBatch) -> None:
        cells = [rows.column(name).to_pylist() for name in ("key", "value", "timestamp")]
        for key, value, at in zip(*cells, strict=True):
            if topic in self._readers:
                self._readers[topic].waiting.append((topic, key, value, at))
            else:
                self.out.setdefault((topic, key), []).append((value, at))


def fetched(records: list[Record]) -> pa.RecordBatch:
    """As a stage is given them."""
    topics, keys, values, times = (list(column) for column in zip(*records, strict=True))
    stamps = pa.array([at * 1000 for at in times], pa.int64()).cast(columns.TIMESTAMP)
    count = len(records)
    arrays = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(topics, pa.string()),
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        stamps,
        pa.array([0] * count, pa.int32()),
        pa.nulls(count, columns.HEADERS),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.SCHEMA_WITH_HEADERS)
