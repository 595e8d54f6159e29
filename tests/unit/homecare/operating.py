"""A stage of home care without topics or Spark: records in, results out, a restart whenever it is wanted."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ottla.homecare.pipelines import stage
from ottla.homecare.rules import Rules
from ottla.pipelines import Step
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.stepping import merged
from ottla.pipelines.topology import TaskId
from ottla.wire import columns

Record = tuple[str, str | None, int, Any]  # topic, key, time in ms, value


class Operating:
    """Steps with a given watermark; state survives in changelogs alone once `restart` was called."""

    def __init__(self, name: str, rules: Rules) -> None:
        self.rules, self.stage = rules, stage(name, rules)
        self._changes: dict[str, list[pa.RecordBatch]] = {spec.name: [] for spec in self.stage.stores}
        self._time_ms = -1
        self.restart()

    def restart(self) -> None:
        """What a worker does that has nothing but the changelogs."""
        self._operator = self.stage.operator()
        self.stores = {spec.name: KeyedStore(spec) for spec in self.stage.stores}
        for name, store in self.stores.items():
            for rows in self._changes[name]:
                store.apply(rows.column("key"), rows.column("value"))

    def step(self, watermark_ms: int, *records: Record) -> list[dict[str, Any]]:
        """The results' values."""
        self.step_rows(watermark_ms, [batch(*records)] if records else [])
        return [json.loads(v) for _, rows in self.emitted for v in rows.column("value").to_pylist()]

    def step_rows(self, watermark_ms: int, batches: list[pa.RecordBatch]) -> None:
        step = Step(TaskId(self.stage.name, 0), self.stores, frozenset(self.stage.outputs), self._time_ms)
        if batches:
            rows = merged(pa.Table.from_batches(batches)).combine_chunks().to_batches()
            self._operator.process(rows[0], step)
        self._time_ms = step.time_ms = max(self._time_ms, watermark_ms + self.rules.lateness_ms)
        self._operator.advance(step)
        for name, store in self.stores.items():
            self._changes[name].append(store.changes(0))
        self.emitted = step.emitted
        self.shown = step.shown


def batch(*records: Record) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": [None if key is None else key.encode() for _, key, _, _ in records],
            "value": [json.dumps(value).encode() for _, _, _, value in records],
            "topic": [topic for topic, _, _, _ in records],
            "partition": [0] * len(records),
            "offset": list(range(len(records))),
            "timestamp": [at * 1000 for _, _, at, _ in records],
            "timestampType": [0] * len(records),
        },
        schema=columns.SCHEMA,
    )
