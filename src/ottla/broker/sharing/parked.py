"""A share fetch that waits: it listens to each of its partitions once, and is told which of them have news."""

from functools import partial

from ottla import errors
from ottla.broker.sharing.partitions import SharePartition
from ottla.broker.sharing.sessions import Place
from ottla.broker.sharing.settings import ShareSettings
from ottla.broker.waits import Ticket, Wait
from ottla.ports import Clock

Marks = dict[Place, tuple[int, int]]  # `SharePartition.mark` when there was nothing to deliver


class Parked:
    """A context manager: `close` takes it off everything that it listens to."""

    def __init__(self, settings: ShareSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._tickets: dict[Place, Ticket] = {}
        self._shares: dict[Place, SharePartition] = {}
        self._news: dict[Place, None] = {}
        self._told: list[Place] = []  # news that the fetch looks at now
        self._wait: Wait[None] = Wait()
        self._is_called = self._is_closed = False

    def listen(self, place: Place, share: SharePartition, mark: tuple[int, int] | None) -> None:
        """Something that came since the mark is news at once."""
        self._stop(place)
        wake = partial(self._on_woken, place)
        self._tickets[place] = share.watch(wake, read_committed=self._settings.read_committed)
        self._shares[place] = share
        if share.is_closed or mark is None or _mark(share, self._settings) != mark:
            wake()

    async def news(self, deadline_ms: int) -> list[Place]:
        """The places that have some; none when the time is up."""
        self._told = []  # there was nothing to take: the fetch waits again
        if not self._news:
            self._wait = Wait()
            timer = self._clock.call_later(deadline_ms - self._clock.monotonic_ms(), self._call)
            try:
                await self._wait
            finally:  # also when the connection is gone
                timer.cancel()
        self._told, self._news = list(self._news), {}
        return self._told

    def _on_woken(self, place: Place) -> None:
        self._news[place] = None
        if not self._is_called:
            self._is_called = True
            # After what woke us, an append or an acknowledgement, has answered its own client.
            self._clock.call_soon(self._call)

    def _call(self) -> None:
        self._is_called = False
        if not self._is_closed:
            self._wait.set(None)

    def _stop(self, place: Place) -> None:
        ticket = self._tickets.pop(place, None)
        if ticket is not None:
            ticket.cancel()

    def close(self) -> None:
        """What woke this fetch may be more than it took, or it is gone before it looked: the next one looks."""
        self._is_closed = True
        for place in list(self._tickets):
            self._stop(place)
        for place in {**dict.fromkeys(self._told), **self._news}:
            self._shares[place].pass_on(read_committed=self._settings.read_committed)

    def __enter__(self) -> "Parked":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _mark(share: SharePartition, settings: ShareSettings) -> tuple[int, int] | None:
    """None where another broker leads now."""
    try:
        return share.mark(settings)
    except errors.ProtocolError:
        return None
