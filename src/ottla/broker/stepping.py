"""Long work in short steps, other work of the loop in between: requests by their meter, chores as generators."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.waits import Wait
from ottla.ports import Clock, Jobs

if TYPE_CHECKING:
    from ottla.storage.rewrite import Steps

T = TypeVar("T")
Finished = Callable[[Any, Exception | None], None]

STEP_BYTES = 1 << 20  # checked, decompressed or written: about a millisecond
THREADS_AT_ONCE = 2  # of the few that also sync files


class Work:
    """How much a connection has done since others had their turn, in bytes or what takes as long.

    It belongs to the connection, not to a request: many small requests rest as often as one large one.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = STEP_BYTES

    def spend(self, units: int) -> bool:
        """True when it is time to rest."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = STEP_BYTES
        return True

    async def pace(self, units: int, clock: Clock) -> None:
        if self.spend(units):
            await rest(clock)


async def rest(clock: Clock) -> None:
    """Everything else that is due on the loop runs first."""
    wait: Wait[None] = Wait()
    # A timer, not call_soon: sockets get their turn too.
    timer = clock.call_later(0, lambda: wait.set(None))
    try:
        await wait
    finally:  # also when the connection is gone
        timer.cancel()


class HeavyWork:
    """What cannot be cut into steps, in threads: a few at a time, the rest wait in order.

    A request that is cancelled while it waits gives up its place. A job that runs ends first: so no number of
    connections that come and go keeps more than a few jobs, and what they hold, alive.
    """

    def __init__(self, jobs: Jobs, at_once: int = THREADS_AT_ONCE) -> None:
        self._jobs, self._free = jobs, at_once
        self._waiting: deque[Wait[None]] = deque()

    def lane(self, at_once: int) -> "HeavyWork":
        """Work of another kind that does not wait for this, nor this for it."""
        return HeavyWork(self._jobs, at_once)

    async def run(self, job: Callable[[], T]) -> T:
        if not self._free:
            await self._turn()
        self._free -= 1
        wait: Wait[T] = Wait()

        def done(result: T | Exception) -> None:
            self._free += 1
            self._wake()  # before this request can ask again: others were first
            wait.set(result)

        self._jobs.submit(job, done)
        return await wait

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


class Stepping:
    """A step that yields a callable wants it run in a thread before it goes on."""

    def __init__(self, steps: "Steps[Any]", clock: Clock, jobs: Jobs, finished: Finished) -> None:
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
