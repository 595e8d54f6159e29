"""Long work in short steps: a generator runs a little at a time, other work of the loop in between."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.ports import Clock, Jobs

if TYPE_CHECKING:
    from ottla.storage.rewrite import Steps

Finished = Callable[[Any, Exception | None], None]


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
