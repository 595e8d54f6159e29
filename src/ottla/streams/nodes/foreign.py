"""Two tables where a row of the left one names a row of the right one (KIP-213), over three sub-topologies.

Left: each row that comes, goes or names another row subscribes at the right one's key; the row itself also goes to the
last sub-topology. Right: keeps subscriptions, and answers when one comes and when its row changes. Last: keeps the left
rows and joins an answer with its row, if the answer is to the row as it is now: a hash of the row's bytes goes with
subscription and answer. Kafka Streams does the last step where the left table is; stages here must not feed each other
in a circle, so the left rows are kept a second time.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_cells
from ottla.pipelines.state.spec import StoreSpec
from ottla.streams.errors import BadValue
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.base import Node, SeparateNode, keyed
from ottla.streams.nodes.lookups import NEVER, Lookup, rows_as_of
from ottla.streams.nodes.rows import Rows
from ottla.streams.serdes import Column, Serde, bytes_, objects

IF_FOUND, ALWAYS, DELETE, DELETE_AND_ANSWER = range(4)
_HASH = 16
_NO_HASH = bytes(_HASH)


class Subscription(NamedTuple):
    instruction: int
    hash: bytes  # of the left row; zeros if it is gone
    key: bytes  # of the left row


class SubscriptionSerde(Serde):
    name = "subscription"

    def decode(self, cells: pa.Array) -> Column:
        return [_subscription(cell) for cell in cells.to_pylist()]

    def encode(self, column: Column) -> pa.Array:
        return arrow_cells(
            [
                bytes([subscription.instruction]) + subscription.hash + subscription.key
                for subscription in column
            ],
            pa.binary(),
        )


def _subscription(cell: bytes | None) -> Subscription:
    if cell is None or len(cell) < 1 + _HASH:
        raise BadValue("a record of a subscription topic is no subscription; something else wrote to it")
    return Subscription(cell[0], cell[1 : 1 + _HASH], cell[1 + _HASH :])


_NONE, _ROW, _QUIET = range(3)


class Response(NamedTuple):
    """The left row's hash and the right row's bytes, None if there is no row. A `quiet` one only says that there is
    none: it matters if an earlier answer to an older row was on its way."""

    hash: bytes
    row: bytes | None
    quiet: bool = False


class AnswerSerde(Serde):
    name = "answer"

    def decode(self, cells: pa.Array) -> Column:
        return [
            Response(cell[:_HASH], cell[_HASH + 1 :] if cell[_HASH] == _ROW else None, cell[_HASH] == _QUIET)
            for cell in cells.to_pylist()
        ]

    def encode(self, column: Column) -> pa.Array:
        return arrow_cells([_answer(response) for response in column], pa.binary())


def _answer(answer: Response) -> bytes:
    kind = _ROW if answer.row is not None else _QUIET if answer.quiet else _NONE
    return answer.hash + bytes([kind]) + (answer.row or b"")


def hashes(serde: Serde, values: Column) -> list[bytes]:
    cells = serde.encode(values).to_pylist()
    return [_NO_HASH if cell is None else hashlib.blake2b(cell, digest_size=_HASH).digest() for cell in cells]


@frozen_with_dict
class Subscribe(Node):
    """Changes of the left table as subscriptions under the keys that `on(value)` names."""

    key: Serde
    value: Serde
    foreign_key: Serde
    on: Callable[[Any], Any]
    left: bool

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        frame = keyed(frame)
        marks, keys = hashes(self.value, frame.values), self.key.encode(frame.keys).to_pylist()
        places: list[int] = []
        named: list[Any] = []
        subscriptions: list[Subscription] = []
        changes = zip(objects(frame.values), objects(frame.olds), strict=True)
        for at, (new, old) in enumerate(changes):
            for name, instruction in self._instructions(new, old):
                places.append(at)
                named.append(name)
                subscriptions.append(Subscription(instruction, marks[at], keys[at]))
        changed = replace(frame, olds=None, trace=None).take(np.array(places, np.int64))
        return replace(changed, keys=named, values=subscriptions)

    def _instructions(self, new: Any, old: Any) -> list[tuple[Any, int]]:
        if new is None and old is None:
            return []
        before, now = (None if value is None else self.on(value) for value in (old, new))
        changed = before is not None and (now is None or self._bytes(now) != self._bytes(before))
        if self.left:
            return [*([(before, DELETE)] if changed else []), (now, ALWAYS)]
        if now is None:
            return [] if before is None else [(before, DELETE_AND_ANSWER)]
        return [(before, DELETE), (now, ALWAYS)] if changed else [(now, IF_FOUND)]

    def _bytes(self, key: Any) -> Any:
        return self.foreign_key.encode([key])[0].as_py()


@frozen_with_dict
class Answer(SeparateNode):
    """Subscriptions and the right table's changes in their order: answers under the left rows' keys."""

    store: str
    key: Serde  # of the right table
    value: Serde  # of the right table
    lookup: Lookup

    def spec(self) -> StoreSpec:
        return StoreSpec(self.store, (("hash", "bytes"),), timestamped=True)

    def run_separate(self, frames: list[Frame], step: Step) -> Frame:
        asked, changes = frames[0], keyed(_every(frames[1]))
        answers = _Answers(step, self)
        rows, times = self._rows(asked, step, changes)
        cells = self.value.encode(changes.values).to_pylist() if len(changes) else []
        answers.load(self.key.encode(changes.keys) if len(changes) else None)
        subscribed = self.key.encode(asked.keys).to_pylist() if len(asked) else []
        changed = self.key.encode(changes.keys).to_pylist() if len(changes) else []
        moments = [(int(order), 1, at) for at, order in enumerate(changes.order)]
        moments += [(int(order), 0, at) for at, order in enumerate(asked.order)]
        for order, is_change, at in sorted(moments):
            if is_change:
                answers.changed(changed[at], cells[at], int(changes.times[at]), order)
            else:
                row = (rows[at], int(times[at]))
                answers.asked(subscribed[at], asked.values[at], row, int(asked.times[at]), order)
        answers.write()
        return answers.frame()

    def _rows(self, asked: Frame, step: Step, changes: Frame) -> tuple[list[Any], Any]:
        """The bytes of the right rows at the moments of the subscriptions."""
        if not len(asked):
            return [], np.empty(0, np.int64)
        named = np.array([key is not None for key in objects(asked.keys)], bool)
        rows: list[Any] = [None] * len(asked)
        times = np.full(len(asked), NEVER, np.int64)
        if named.any():
            values, when = rows_as_of(self.lookup, self.key, step, asked.where(named), changes)
            cells = self.value.encode(objects(values)).to_pylist()
            for place, cell, at in zip(np.flatnonzero(named), cells, when, strict=True):
                rows[place], times[place] = cell, at
        return rows, times


def _every(frame: Frame) -> Frame:
    return frame if frame.trace is None else frame.trace


def _place(foreign: bytes, key: bytes) -> bytes:
    return len(foreign).to_bytes(4) + foreign + key


class _Answers:
    def __init__(self, step: Step, node: Answer) -> None:
        self._store = step.stores[node.store]
        self._rows = Rows(self._store, bytes_)
        self._by_foreign: dict[bytes, dict[bytes, bytes]] = {}
        self._out: list[tuple[bytes, Response, int, int]] = []

    def load(self, changed: pa.Array | None) -> None:
        """The subscriptions of the rows that change in this step."""
        if changed is None:
            return
        self._by_foreign = {foreign: {} for foreign in changed.to_pylist()}
        alive = np.flatnonzero(self._store.alive())
        cells = zip(self._store.keys(alive).to_pylist(), self._store.values(alive).to_pylist(), strict=True)
        for cell, mark in cells:
            size = 4 + int.from_bytes(cell[:4])
            if cell[4:size] in self._by_foreign:
                self._by_foreign[cell[4:size]][cell[size:]] = mark

    def asked(self, foreign: Any, asked: Subscription, row: tuple[Any, int], at: int, order: int) -> None:
        stored, found_at = row
        if foreign is not None:
            self._keep(foreign, asked, at)
        if asked.instruction == DELETE:
            return
        answer = None if asked.instruction == DELETE_AND_ANSWER else stored
        quiet = asked.instruction == IF_FOUND and stored is None
        self._out.append((asked.key, Response(asked.hash, answer, quiet), max(at, found_at), order))

    def _keep(self, foreign: bytes, asked: Subscription, at: int) -> None:
        gone = asked.instruction in (DELETE, DELETE_AND_ANSWER)
        self._rows.put(_place(foreign, asked.key), None if gone else asked.hash, at)
        known = self._by_foreign.get(foreign)
        if known is not None:
            if gone:
                known.pop(asked.key, None)
            else:
                known[asked.key] = asked.hash

    def changed(self, foreign: bytes, row: Any, at: int, order: int) -> None:
        for key, mark in sorted(self._by_foreign[foreign].items()):
            self._out.append((key, Response(mark, row), at, order))

    def write(self) -> None:
        self._rows.write()

    def frame(self) -> Frame:
        if not self._out:
            return EMPTY
        keys, values, times, order = (list(column) for column in zip(*self._out, strict=True))
        return framed(keys, values, times, order=order)


@frozen_with_dict
class ForeignJoin(SeparateNode):
    """Left rows and answers to them. The rows of a step come first: an answer is always younger than its row."""

    store: str
    key: Serde
    value: Serde
    foreign: Serde  # of the right rows
    function: Callable[[Any, Any], Any]
    left: bool

    @property
    def joined(self) -> str:
        """The store of the keys that have a result."""
        return f"{self.store}-joined"

    def specs(self) -> tuple[StoreSpec, ...]:
        return (
            StoreSpec(self.store, (("value", "bytes"),), timestamped=True),
            StoreSpec(self.joined, (("mark", "bytes"),)),
        )

    def run_separate(self, frames: list[Frame], step: Step) -> Frame:
        rows, answers = frames
        store = step.stores[self.store]
        if len(rows):
            stored_rows = Rows(store, self.value)
            places = stored_rows.load(self.key.encode(rows.keys))
            for place, value, at in zip(places, objects(rows.values), rows.times.tolist(), strict=True):
                stored_rows.put(place, value, at)
            stored_rows.write()
        return self._joined(answers, step) if len(answers) else EMPTY

    def _joined(self, answers: Frame, step: Step) -> Frame:
        stored_rows = Rows(step.stores[self.store], self.value)
        places = stored_rows.load(self.key.encode(answers.keys))
        mine = [stored_rows.get(place) for place in places]
        marks = hashes(self.value, mine)
        responses: list[Response] = answers.values
        theirs = objects(self.foreign.decode(arrow_cells([answer.row for answer in responses], pa.binary())))
        results = Rows(step.stores[self.joined], bytes_)
        results.load(self.key.encode(answers.keys))
        index: list[int] = []
        values: list[Any] = []
        for at, (place, answer) in enumerate(zip(places, responses, strict=True)):
            if answer.hash != marks[at]:
                continue  # to a row that is no more
            value = self._joined_value(mine[at], theirs[at])
            if value is None and answer.quiet and results.get(place) is None:
                continue
            results.put(place, None if value is None else b"1", 0)
            index.append(at)
            values.append(value)
        results.write()
        return replace(answers.take(np.array(index, np.int64)), values=values)

    def _joined_value(self, mine: Any, other: Any) -> Any:
        if mine is None or (other is None and not self.left):
            return None
        return self.function(mine, other)
