"""Long work in short steps, other work of the loop in between: requests by their meter, chores as generators."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from ottla.broker.waits import Turn, Wait
from ottla.ports import Clock, Jobs

if TYPE_CHECKING:
    from ottla.storage.rewrite import Steps

T = TypeVar("T")

STEP_BYTES = 1 << 20  # checked, decompressed or written: about a millisecond
EARNED_PER_MS = (
    STEP_BYTES // 20
)  # a connection that takes less than a twentieth of the loop's time never rests
MUCH_BYTES = (
    64 << 10
)  # for one connection in one turn of the loop: below it, counting costs more than it saves
REQUEST_UNITS = 50_000  # what every request takes
THREADS_AT_ONCE = 2  # of the few that also sync files


class Work:
    """How much a connection may still do before others have their turn, in bytes or what takes as long.

    It belongs to the connection, not to a request: many small requests rest as often as one large one. A connection
    earns a share of the loop's time from one request to the next: one that does little never rests.
    """

    __slots__ = ("_earning_since_ms", "left")

    def __init__(self) -> None:
        self.left = STEP_BYTES
        self._earning_since_ms = 0

    def spend(self, units: int) -> bool:
        """Whether its share is used up; then `Turns.rest` is due."""
        self.left -= units
        return self.left <= 0

    def earn(self, now_ms: int) -> None:
        """Its next requests have come. Not while it works: a busy machine would make its steps long."""
        earned = (now_ms - self._earning_since_ms) * EARNED_PER_MS
        self._earning_since_ms = now_ms
        self.left = min(self.left + earned, STEP_BYTES)

    def on_turn(self) -> None:
        self.left = STEP_BYTES


class Turns:
    """Connections that have used up their share go on one by one, in order: one in each turn of the loop.

    So however many of them there are, everybody else waits for one step at most. Other brokers come first.

    A connection has its share unused when its request comes, or ends its wait. Where very many do so at once, the first
    of them fill the loop's turn, and those that want much wait for one of their own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Turn] = deque()
        self._is_armed = False
        self._spent = 0  # in this turn of the loop, by connections that did much

    @property
    def is_full(self) -> bool:
        """Whether a step's work was done in this turn of the loop already."""
        return self._spent >= STEP_BYTES

    def count(self, units: int) -> None:
        if not self._spent:
            self._clock.call_soon(self._on_next)
        self._spent += units

    def _on_next(self) -> None:
        self._spent = 0

    async def rest(self, work: Work, *, first: bool = False) -> None:
        turn = self.turn(first=first)
        try:
            await turn
        finally:  # also when the connection is gone: then it has no turn
            turn.on_done(_nothing)
            turn.set(None)
        work.on_turn()

    def turn(self, *, first: bool = False) -> Turn:
        """Is set when everything else that is due on the loop has run."""
        turn = Turn()
        if first:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        self._arm()
        return turn

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            # A timer, not call_soon: sockets get their turn too.
            self._clock.call_later(0, self._on_timer)

    def _on_timer(self) -> None:
        self._is_armed = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done:
                turn.set(None)  # it does its step now
                break
        if self._waiting:
            self._arm()


def _nothing() -> None: ...


class Places:
    """For a few at a time; the rest wait in order. A request that is cancelled while it waits gives up its place."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Wait[None]] = deque()

    async def take(self) -> None:
        if not self._free:
            await self._turn()
        self._free -= 1

    def give_back(self) -> None:
        self._free += 1
        self._wake()

    async def _turn(self) -> None:
        place: Wait[None] = Wait()
        self._waiting.append(place)
        try:
            await place
        except GeneratorExit:
            if place.done:
                self._wake()  # it was our turn: let the next one have it
            else:
                self._waiting.remove(place)
            raise

    def _wake(self) -> None:
        if self._free and self._waiting:
            self._waiting.popleft().set(None)


class HeavyWork:
    """What cannot be cut into steps, in threads: a few at a time, the rest wait in order.

    A job that runs ends first, even if its request is cancelled: so no number of connections that come and go keeps
    more than a few jobs, and what they hold, alive.
    """

    def __init__(self, jobs: Jobs, at_once: int = THREADS_AT_ONCE) -> None:
        self._jobs = jobs
        self._places = Places(at_once)

    def lane(self, at_once: int) -> "HeavyWork":
        """Work of another kind that does not wait for this, nor this for it."""
        return HeavyWork(self._jobs, at_once)

    async def run(self, job: Callable[[], T]) -> T:
        await self._places.take()
        wait: Wait[T] = Wait()

        def done(result: T | Exception) -> None:
            self._places.give_back()  # before this request can ask again: others were first
            wait.set(result)

        self._jobs.submit(job, done)
        return await wait


class Stepping(Generic[T]):
    """A step that yields a callable wants it run in a thread before it goes on."""

    def __init__(
        self,
        steps: "Steps[T]",
        clock: Clock,
        jobs: Jobs,
        finished: Callable[[T | None, Exception | None], None],
    ) -> None:
        self._steps, self._clock, self._jobs, self._finished = steps, clock, jobs, finished

    def go_on(self, thrown: Exception | None = None) -> None:
        try:
            job = self._steps.throw(thrown) if thrown is not None else next(self._steps)
        except StopIteration as stop:
            self._finished(stop.value, None)
        except Exception as error:
            self._finished(None, error)
        else:
            if job is None:
                # A timer, not call_soon: sockets get their turn between two steps.
                self._clock.call_later(0, self.go_on)
            else:
                self._jobs.submit(job, self._on_job)

    def _on_job(self, result: object) -> None:
        self.go_on(result if isinstance(result, Exception) else None)

    def close(self) -> None:
        self._steps.close()
