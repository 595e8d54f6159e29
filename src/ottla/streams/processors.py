"""The processor API: a class with `process(record)`, stores of its own, and calls at times."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.arrays import arrow_cells, arrow_column
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.state.windows import split_stored_window_keys, stored_window_keys
from ottla.pipelines.topology import EVENTS, WALL
from ottla.streams.errors import BadTopology
from ottla.streams.json_serde import json
from ottla.streams.serdes import Serde, objects, string

Headers = list[tuple[str, bytes | None]]
ALL = -1  # outputs


@dataclass(frozen=True, slots=True)
class Record:
    """What a processor gets and forwards."""

    key: Any
    value: Any
    time_ms: int
    headers: Headers = field(default_factory=list)

    def but(self, **changes: Any) -> "Record":
        """The same with another key, value, time_ms or headers."""
        return replace(self, **changes)


class Processor(ABC):
    """One for each stream task and process. What it must not lose is in its stores: the next step may run in another
    process, with another object, so attributes are no more than a cache of what `init` made."""

    context: "Context"

    def init(self, context: "Context") -> None:
        """Once, before the first record: stores are there, and what is to be called at times is scheduled here."""
        self.context = context

    @abstractmethod
    def process(self, record: Record) -> None: ...


class Context:
    """What a processor can ask for. Good as long as the processor."""

    def __init__(
        self, definitions: "Iterable[StoreDefinition]", outputs: tuple[str, ...], partition: int
    ) -> None:
        self.partition = partition
        self.schedules: list[Schedule] = []
        self.forwarded: list[
            tuple[Record, int, int]
        ] = []  # with the output's number and the place in the step
        self.place = 0
        self._definitions = {definition.name: definition for definition in definitions}
        self._outputs = outputs
        self._stores: dict[str, RowStore] = {}
        self._step: Step | None = None
        self.record: Record | None = None  # that is processed now; None at scheduled times

    @property
    def time_ms(self) -> int:
        """Stream time: the latest of all records so far."""
        return -1 if self._step is None else self._step.time_ms

    @property
    def wall_ms(self) -> int:
        return 0 if self._step is None else self._step.wall_ms

    def store(self, name: str) -> Any:
        """A `KeyStore` or a `WindowedStore`."""
        if name not in self._definitions:
            known = ", ".join(self._definitions) or "none"
            raise BadTopology(
                f"the processor has no store {name}; process(..., stores=[...]) gave it {known}"
            )
        if name not in self._stores:
            self._stores[name] = self._definitions[name].open(self)
        return self._stores[name]

    def forward(self, record: Record, to: str | None = None) -> None:
        """To all children, or to the output of that name."""
        if to is not None and to not in self._outputs:
            raise BadTopology(
                f"forward(to={to!r}): process(..., outputs=[...]) has {', '.join(self._outputs) or 'none'}"
            )
        self.forwarded.append((record, ALL if to is None else self._outputs.index(to), self.place))

    def schedule(
        self,
        call: Callable[[int], None],
        *,
        seconds: float = 0,
        ms: int = 0,
        clock: str = EVENTS,
    ) -> "Schedule":
        """`call(now_ms)` every so often, in the time of the records or (clock="wall") of the wall clock. When several
        are due at once it is called once, as in Kafka Streams. The times are part of the state."""
        every_ms = int(seconds * 1000) + ms
        if every_ms <= 0 or clock not in (EVENTS, WALL):
            raise BadTopology(
                f"schedule(seconds={seconds}, ms={ms}, clock={clock!r}) needs a time and {EVENTS} or {WALL}"
            )
        self.schedules.append(Schedule(call, every_ms, clock))
        return self.schedules[-1]

    def begin(self, step: Step) -> None:
        if step is not self._step:
            # What a step forwarded before it failed is forwarded again when it is done again.
            self._step, self.forwarded, self.record, self.place = step, [], None, 0

    def keyed(self, name: str) -> KeyedStore:
        if self._step is None:
            raise BadTopology(f"store {name} can be read when there are records, not in init")
        return self._step.stores[name]

    def now_ms(self) -> int:
        """The time of the record that is processed."""
        return self.record.time_ms if self.record is not None else max(0, self.time_ms)


@dataclass
class Schedule:
    call: Callable[[int], None]
    every_ms: int
    clock: str
    is_cancelled: bool = False

    def cancel(self) -> None:
        """In this process; a processor that is re-created schedules again."""
        self.is_cancelled = True

    def after(self, due_ms: int, now_ms: int) -> int:
        """The next time: a multiple of the interval later; those that were missed are not made up for."""
        return due_ms + (max(0, now_ms - due_ms) // self.every_ms + 1) * self.every_ms


# -- stores ---------------------------------------------------------------------------------------------


@frozen_with_dict
class StoreDefinition:
    """A store of processors. Two that are given the same one share it."""

    name: str
    key: Serde
    value: Serde
    retention_ms: int | None = None  # of windows

    @property
    def kind(self) -> str:
        return "keyed" if self.retention_ms is None else "window"

    @property
    def spec(self) -> StoreSpec:
        windowed = self.retention_ms is not None
        return StoreSpec(self.name, (("value", "bytes"),), windowed=windowed, timestamped=True)

    def open(self, context: Context) -> "RowStore":
        return (KeyStore if self.retention_ms is None else WindowedStore)(context, self)


def keyed_store(name: str, key: Serde = string, value: Serde = json) -> StoreDefinition:
    """A value for each key."""
    return StoreDefinition(name, key, value)


def window_store(
    name: str, key: Serde = string, value: Serde = json, *, retention_seconds: float
) -> StoreDefinition:
    """A value for each key and time; rows leave when stream time is `retention_seconds` past them."""
    return StoreDefinition(name, key, value, int(retention_seconds * 1000))


class RowStore:
    def __init__(self, context: Context, definition: StoreDefinition) -> None:
        self._context, self._definition = context, definition

    @property
    def _store(self) -> KeyedStore:
        return self._context.keyed(self._definition.name)

    def __len__(self) -> int:
        return len(self._store)

    def _read(self, places: pa.Array) -> list[Any]:
        rows = self._store.find(places)
        known = rows >= 0
        values = iter(objects(self._definition.value.decode(self._store.values(rows[known]))))
        return [next(values) if there else None for there in known]

    def _write(self, place: pa.Array, value: Any) -> None:
        if value is None:
            rows = self._store.find(place)
            self._store.delete(rows[rows >= 0])
            return
        cells = self._definition.value.encode([value])
        rows = self._store.rows(place)
        self._store.put_values(rows, cells)
        self._store.times[rows] = self._context.now_ms()

    def _alive(self) -> Any:
        return self._store.alive().nonzero()[0]


class KeyStore(RowStore):
    """`store[key]`, `store.get(key)`, `store[key] = value`, `del store[key]`, `store.items()`."""

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._read(self._definition.key.encode([key]))[0]
        return default if value is None else value

    def put(self, key: Any, value: Any) -> None:
        """None deletes."""
        self._write(self._definition.key.encode([key]), value)

    def delete(self, key: Any) -> None:
        self.put(key, None)

    def items(self) -> list[tuple[Any, Any]]:
        """All rows, in the order of the keys' bytes; as they are now, whatever is changed on the way."""
        rows = self._alive()
        cells = self._store.keys(rows)
        order = np.argsort(np.array(cells.to_pylist(), object), kind="stable")
        keys = objects(self._definition.key.decode(cells))
        values = objects(self._definition.value.decode(self._store.values(rows)))
        return [(keys[at], values[at]) for at in order]

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.delete(key)

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self.items()])


class WindowedStore(RowStore):
    """Values by key and time."""

    def put(self, key: Any, value: Any, at: int) -> None:
        """None deletes."""
        self._write(self._place(key, at), value)

    def get(self, key: Any, at: int) -> Any:
        return self._read(self._place(key, at))[0]

    def fetch(self, key: Any, from_ms: int, to_ms: int) -> list[tuple[int, Any]]:
        """Times and values of a key, from and to included, oldest first."""
        wanted = self._definition.key.encode([key])[0]
        return [(at, value) for _, at, value in self._rows(from_ms, to_ms, wanted)]

    def items(self, from_ms: int = 0, to_ms: int = 1 << 62) -> list[tuple[Any, int, Any]]:
        """Keys, times and values, oldest first."""
        rows = self._rows(from_ms, to_ms)
        keys = objects(self._definition.key.decode(arrow_cells([cell for cell, _, _ in rows], pa.binary())))
        return [(key, at, value) for key, (_, at, value) in zip(keys, rows, strict=True)]

    def expire(self) -> None:
        retention_ms = self._definition.retention_ms or 0
        old = self._alive()
        old = old[self._store.window_starts[old] < self._context.time_ms - retention_ms]
        if len(old):
            self._store.delete(old)

    def _place(self, key: Any, at: int) -> pa.Array:
        return stored_window_keys(self._definition.key.encode([key]), np.array([at], np.int64))

    def _rows(self, from_ms: int, to_ms: int, key: Any = None) -> list[tuple[bytes, int, Any]]:
        """Of all keys or, by an Arrow scalar, of one. A store has no order: all rows are looked at, as whole columns,
        and only those that are wanted become objects."""
        rows = self._alive()
        starts = self._store.window_starts[rows]
        rows = rows[(starts >= from_ms) & (starts <= to_ms)]
        keys, starts, _ = split_stored_window_keys(self._store.keys(rows))
        if key is not None:
            same = pc.equal(keys, key.cast(pa.binary())).fill_null(False).to_numpy(zero_copy_only=False)
            keys, starts, rows = keys.filter(arrow_column(same)), starts[same], rows[same]
        values = objects(self._definition.value.decode(self._store.values(rows)))
        cells = zip(keys.to_pylist(), starts.tolist(), values, strict=True)
        return sorted(cells, key=lambda cell: (cell[1], cell[0]))
