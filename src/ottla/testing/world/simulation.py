"""What every simulated world has: a seed, chance and time that follow from it, and the story of what happened."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from random import Random

from ottla.testing.world.ledger import Broken
from ottla.testing.world.time import BEGIN_MS, Time

TRACE = 60  # lines


class Simulation(ABC):
    """Subclasses populate the world in `_run`, and check what must hold in `_after_event`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.time = Time()
        self.events = 0
        self.trace: deque[str] = deque(maxlen=TRACE)

    def run(self) -> None:
        """Broken says what did not hold, and what led to it."""
        try:
            self._run()
        except Exception as error:
            lines = "\n".join(self.trace)
            what = error or type(error).__name__
            raise Broken(f"{what}\nseed {self.seed}, event {self.events}{self._replay()}\n{lines}") from error

    def until(self, condition: Callable[[], object], patience_ms: float, what: str = "") -> None:
        deadline_ms = self.time.exact_ms + patience_ms
        while not condition():
            if self.time.exact_ms >= deadline_ms or not self._next_event():
                raise Broken(f"{self._waiting()} ({what})" if what else self._waiting())

    def go_on(self, duration_ms: float) -> None:
        """At least so long: up to the first event behind it."""
        end_ms = self.time.exact_ms + duration_ms
        while self.time.exact_ms < end_ms and self._next_event():
            pass

    def note(self, line: str) -> None:
        self.trace.append(f"{self.now_ms:10.1f} {line}")

    @property
    def now_ms(self) -> float:
        """Since the beginning."""
        return self.time.exact_ms - BEGIN_MS

    @abstractmethod
    def _run(self) -> None: ...

    def _after_event(self) -> None:
        """What must hold, looked at after every event."""

    def _waiting(self) -> str:
        """Who has not come to an end, for the complaint about it."""
        return "it does not come to rest"

    def _replay(self) -> str:
        return ""

    def _next_event(self) -> bool:
        if not self.time.next_event():
            return False
        self.events += 1
        self._after_event()
        return True
