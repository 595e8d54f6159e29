"""Carries out what a coordinator's machine decides, over one partition of its internal topic.

Append before apply, apply before answer, answer once committed: a failed append leaves nothing to undo, and
no client sees a result that could still be lost. Replies that only read are parked too, until everything applied
so far is committed. When the broker loses leadership, requests that still wait are answered NOT_COORDINATOR.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from ottla.effects import AnyToken, Effects, Entry, Message, Message_co, TimerName, Token
from ottla.errors import CoordinatorNotAvailable, MessageTooLarge, NotCoordinator, ProtocolError
from ottla.ports import Clock, TimerHandle
from ottla.wire.records import Record

R = TypeVar("R")


class Machine(Protocol[Entry, TimerName, Message_co]):
    """A coordinator's state. `apply` alone changes what must survive; the rest is decisions."""

    def apply(self, record: Entry, offset: int, producer: tuple[int, int] | None) -> None: ...

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None: ...

    def on_loaded(self, now_ms: int) -> Effects[Entry, TimerName, Message_co]: ...

    def on_timer(self, name: TimerName, now_ms: int) -> Effects[Entry, TimerName, Message_co]: ...


class RecordCodec(Protocol[Entry]):
    """The machine's records as Kafka's bytes. An unknown record decodes to None and is passed over."""

    def encode(self, record: Entry) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> Entry | None: ...


class ShardLog(Protocol):
    """The partition behind a shard."""

    def append(self, records: list[Record], producer: tuple[int, int] | None) -> int:
        """One atomic batch; the offset behind it. Raises a ProtocolError when it cannot."""
        ...

    def committed(self) -> int:
        """The high watermark."""
        ...

    def when_committed(self, offset: int, wake: Callable[[], None]) -> None:
        """Calls `wake` once, when the high watermark has reached the offset, or leadership is gone."""
        ...


class Shard(Generic[Entry, TimerName, Message]):
    def __init__(
        self,
        machine: Machine[Entry, TimerName, Message],
        codec: RecordCodec[Entry],
        log: ShardLog,
        clock: Clock,
        send: Callable[[Message], None] = lambda message: None,
    ) -> None:
        self.machine = machine
        self._codec, self._log, self._clock, self._send = codec, log, clock, send
        self._end = 0  # behind the last record applied
        self._waiting: dict[AnyToken, Callable[[object], None]] = {}
        self._parked: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_waiting = False  # for the first of them to be committed
        self._timers: dict[TimerName, TimerHandle] = {}
        self._closed = False

    def handle(
        self,
        decide: Callable[[Token[R], int], Effects[Entry, TimerName, Message]],
        answer: Callable[[R | ProtocolError], None],
    ) -> Token[R]:
        """Answers once, now or later, with what the machine replies, or with a ProtocolError."""
        token: Token[R] = Token()
        if self._closed:
            answer(NotCoordinator())
            return token
        # A Reply holds an answer of its token's type, so that each is called with what it takes.
        self._waiting[token] = cast("Callable[[object], None]", answer)
        try:
            effects = decide(token, self._clock.now_ms())
        except ProtocolError as error:
            self._answer(token, error)
        else:
            self._carry_out(effects, token)
        return token

    def forget(self, token: AnyToken) -> None:
        """The connection of this request is gone: its answer is dropped."""
        self._waiting.pop(token, None)

    def carry_out(self, effects: Effects[Entry, TimerName, Message]) -> None:
        self._carry_out(effects, None)

    def _carry_out(self, effects: Effects[Entry, TimerName, Message], asked_by: AnyToken | None) -> None:
        if self._closed:
            return  # no longer the leader; `close` has answered the requests that waited
        if effects.records:
            try:
                self._append(effects)
            except ProtocolError as error:
                self._refuse(effects, asked_by, error)
                return
        for timer in effects.timers:
            self._arm(timer.name, timer.delay_ms)
        for reply in effects.replies:
            self._when_committed(partial(self._answer, reply.token, reply.answer))
        for message in effects.sends:
            self._when_committed(partial(self._send, message))
        self.on_committed()

    def on_committed(self) -> None:
        """The high watermark may have moved."""
        committed = self._log.committed()
        while self._parked and self._parked[0][0] <= committed:
            self._parked.popleft()[1]()
        if self._parked and not self._is_waiting:
            self._is_waiting = True
            self._log.when_committed(self._parked[0][0], self._on_woken)

    def _on_woken(self) -> None:
        self._is_waiting = False
        self.on_committed()

    def on_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None:
        """A transaction's marker was written to this partition."""
        self.machine.apply_marker(producer_id, producer_epoch, committed, offset)
        self._end = offset + 1

    def replay(self, records: Iterable[Record], producer: tuple[int, int] | None) -> None:
        """One batch of the log, at start; `loaded` ends it."""
        for record in records:
            if record.key is not None:
                decoded = self._codec.decode(record.key, record.value)
                if decoded is not None:
                    self.machine.apply(decoded, record.offset, producer)
            self._end = record.offset + 1

    def loaded(self) -> None:
        self.carry_out(self.machine.on_loaded(self._clock.now_ms()))

    def close(self) -> None:
        """Leadership is gone: the next leader replays."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._parked.clear()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer(NotCoordinator())

    def _append(self, effects: Effects[Entry, TimerName, Message]) -> None:
        now_ms = self._clock.now_ms()
        batch = [Record(i, now_ms, *self._codec.encode(record)) for i, record in enumerate(effects.records)]
        end = self._log.append(batch, effects.producer)
        base = end - len(batch)
        for i, record in enumerate(effects.records):
            self.machine.apply(record, base + i, effects.producer)
        self._end = end

    def _refuse(
        self, effects: Effects[Entry, TimerName, Message], asked_by: AnyToken | None, error: ProtocolError
    ) -> None:
        """Nothing happened. What is not the client's fault is worth another try.

        The request itself is answered even if it was to wait: the records may have made the group it waits in, and
        without them nobody has its token."""
        for timer in effects.if_refused:
            self._arm(timer.name, timer.delay_ms)
        if not isinstance(error, MessageTooLarge | NotCoordinator):
            error = CoordinatorNotAvailable(error.message)
        for reply in effects.replies:
            self._answer(reply.token, error)
        if asked_by is not None:
            self._answer(asked_by, error)

    def _when_committed(self, action: Callable[[], None]) -> None:
        self._parked.append((self._end, action))

    def _answer(self, token: AnyToken, value: object) -> None:
        answer = self._waiting.pop(token, None)
        if answer is not None:
            answer(value)

    def _arm(self, name: TimerName, delay_ms: int | None) -> None:
        running = self._timers.pop(name, None)
        if running is not None:
            running.cancel()
        if delay_ms is not None:
            self._timers[name] = self._clock.call_later(delay_ms, lambda: self._on_timer(name))

    def _on_timer(self, name: TimerName) -> None:
        self._timers.pop(name, None)
        self.carry_out(self.machine.on_timer(name, self._clock.now_ms()))
