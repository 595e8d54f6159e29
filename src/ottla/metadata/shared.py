"""The metadata log in memory, with ZooKeeper's promises: sessions, one lease, a check of epoch and position.

One `Shared` is the ensemble; every broker has a `SharedLog` of it, its session. A session that was cut
receives nothing and writes nothing; when it expires its registration and lease are gone. The caller
decides when: `deliver` hands out what is due, so a simulation can delay and reorder between sessions.
"""

from collections import deque
from collections.abc import Callable, Sequence

from ottla.metadata import codec
from ottla.metadata.log import ENTRY_MAX_BYTES, Deposed, Done, Listener, Outrun, TooLarge, Unavailable
from ottla.metadata.records import Record

Call = Callable[[], None]


class Shared:
    """The one truth. `schedule` runs a call later; without it calls run in order, at once."""

    def __init__(self, schedule: Callable[[Call], None] | None = None) -> None:
        self.entries: dict[int, tuple[int, bytes]] = {}
        self.end = 0
        self.epoch = 0
        self.holder: SharedLog | None = None
        self.snapshot: tuple[int, bytes] | None = None
        self.members: dict[int, tuple[SharedLog, bytes]] = {}
        self.sessions: list[SharedLog] = []
        self._schedule = schedule or self._in_turn
        self._queue: deque[Call] = deque()
        self._running = False

    def session(self) -> "SharedLog":
        return SharedLog(self)

    def later(self, call: Call) -> None:
        self._schedule(call)

    def tell_all(self) -> None:
        for session in list(self.sessions):
            session.news()

    def _in_turn(self, call: Call) -> None:
        """Calls made by calls wait for their turn, as they would with a real ensemble."""
        self._queue.append(call)
        if self._running:
            return
        self._running = True
        try:
            while self._queue:
                self._queue.popleft()()
        finally:
            self._running = False


class SharedLog:
    """One broker's session; a MetadataLog."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._listener: Listener | None = None
        self._position = 0
        self._seen_lease: tuple[int | None, int] | None = None
        self._seen_members: dict[int, bytes] | None = None
        self._broker_id = -1
        self._wanted: tuple[int, bytes] | None = None
        self.alive = False
        self.connected = True
        self._resigns = False  # to be done once there is a connection again

    # The port

    def open(self, listener: Listener, position: int = 0) -> None:
        self._listener = listener
        self._position = position
        self._seen_lease = self._seen_members = None
        self._wanted = None
        self.alive = True
        if self not in self._shared.sessions:
            self._shared.sessions.append(self)
        self.news()

    def register(self, broker_id: int, registration: bytes) -> None:
        self._wanted = broker_id, registration

        def at_the_ensemble() -> None:
            if self.alive and self.connected and self._wanted is not None:
                broker_id, registration = self._wanted  # a session's wishes do not overtake each other
                self._shared.members[broker_id] = (self, registration)
                self._shared.tell_all()

        self._shared.later(at_the_ensemble)

    def claim(self, broker_id: int, over: int | None = None) -> None:
        def at_the_ensemble() -> None:
            is_free = self._shared.holder is None or over == self._shared.epoch
            if self.alive and self.connected and is_free:
                self._broker_id = broker_id
                self._shared.holder = self
                self._shared.epoch += 1
                self._shared.tell_all()

        self._shared.later(at_the_ensemble)

    def resign(self) -> None:
        def at_the_ensemble() -> None:
            if not self.connected:
                self._resigns = True
            elif self._shared.holder is self:
                self._shared.holder = None
                self._shared.tell_all()

        self._shared.later(at_the_ensemble)

    def append(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        body = codec.encode(records)

        def write() -> None:
            self._shared.entries[position] = (epoch, body)
            self._shared.end = position + 1
            self._shared.tell_all()

        if len(body) > ENTRY_MAX_BYTES:
            return done(TooLarge(f"{len(body)} bytes of records are more than {ENTRY_MAX_BYTES}"))
        return self._guarded(position, epoch, write, done)

    def snapshot(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        body = codec.encode(records)

        def write() -> None:
            self._shared.snapshot = (position, body)
            for number in [number for number in self._shared.entries if number < position]:
                del self._shared.entries[number]

        self._guarded(position, epoch, write, done)

    def catch_up(self, done: Callable[[], None]) -> None:
        def at_the_ensemble() -> None:
            self._deliver()
            done()

        self._shared.later(at_the_ensemble)

    def close(self) -> None:
        self._listener = None
        self.expire()

    # What happens to a session

    def cut(self) -> None:
        """The broker cannot reach the ensemble; its session lives on until it expires."""
        self.connected = False

    def reconnect(self) -> None:
        self.connected = True
        if self.alive:
            if self._resigns:
                self._resigns = False
                self.resign()
            if self._wanted is not None:  # the last attempt may have failed
                self.register(*self._wanted)
            self._seen_lease = None
            self.news()
        else:
            self._shared.later(self._tell_lost)

    def expire(self) -> None:
        """The ensemble gives the session up, whether or not the broker has noticed."""
        self.alive = False
        shared = self._shared
        if self in shared.sessions:
            shared.sessions.remove(self)
        if shared.holder is self:
            shared.holder = None
        shared.members = {
            broker_id: held for broker_id, held in shared.members.items() if held[0] is not self
        }
        if self.connected:
            shared.later(self._tell_lost)
        shared.tell_all()

    def news(self) -> None:
        self._shared.later(self._deliver)

    def _tell_lost(self) -> None:
        if self._listener is not None and not self.alive and self.connected:
            self._listener.on_session_lost()

    def _guarded(self, position: int, epoch: int, write: Call, done: Done) -> None:
        """Epoch and position are checked in the same step that writes."""

        def at_the_ensemble() -> None:
            shared = self._shared
            if not self.connected:
                return done(Unavailable("no connection"))
            if not self.alive or shared.holder is not self or epoch != shared.epoch:
                return done(Deposed(f"epoch {epoch} is over, it is {shared.epoch} now"))
            if position != shared.end:
                return done(Outrun(f"the log is at {shared.end}, not {position}"))
            write()
            return shared.later(back_at_the_broker)

        def back_at_the_broker() -> None:
            if not self.alive or not self.connected:
                return done(Unavailable("the connection broke before the answer"))
            # Entries are delivered before their writer is told that they are stored.
            self._deliver()
            return done(None)

        self._shared.later(at_the_ensemble)

    def _deliver(self) -> None:
        listener, shared = self._listener, self._shared
        if listener is None or not self.alive or not self.connected:
            return
        if shared.snapshot is not None and self._position not in shared.entries:
            position, body = shared.snapshot
            if self._position < position:
                self._position = position
                listener.on_snapshot(position, codec.decode(body))
        while self._position in shared.entries:
            position = self._position
            self._position += 1
            listener.on_entry(position, codec.decode(shared.entries[position][1]))
        lease = (shared.holder._broker_id if shared.holder is not None else None, shared.epoch)
        if lease != self._seen_lease:
            self._seen_lease = lease
            listener.on_lease(*lease)
        members = {broker_id: registration for broker_id, (_, registration) in shared.members.items()}
        if members != self._seen_members:
            self._seen_members = members
            listener.on_members(members)
