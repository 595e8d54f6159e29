"""What becomes of records in flight: the rules of their group, outcomes, and changes, which are written first."""

from collections.abc import Iterable, Iterator

from ottla.coordination.share.records import ACKNOWLEDGED, ARCHIVED, Batch
from ottla.frozen import frozen

_DONE = (ACKNOWLEDGED, ARCHIVED)


@frozen
class Rules:
    """What a group's settings say of its windows."""

    delivery_limit: int = 5
    locks_max: int = 2000
    deferred_max: int = 100_000  # records that wait for their time, or to be written as dead letters
    backoff_ms: int = 0  # before a released record comes again; longer each time
    backoff_factor: float = 2.0
    backoff_max_ms: int = 60_000
    dead_letters: bool = False  # what is given up goes to a topic first

    def pause_ms(self, delivery_count: int) -> int:
        exponent = min(delivery_count - 1, 64)  # beyond that any factor above 1 has reached the most
        return int(min(self.backoff_ms * self.backoff_factor**exponent, self.backoff_max_ms))


DEFAULT_RULES = Rules()


@frozen
class Outcome:
    """What becomes of a run of records."""

    state: int
    delivery_count: int
    due_ms: int = 0
    verdict: int = 0

    @property
    def is_done(self) -> bool:
        return self.state in _DONE


@frozen
class Acquired:
    first_offset: int
    last_offset: int
    delivery_count: int


@frozen
class Change:
    """Runs (first offset, last offset) and what becomes of them."""

    runs: tuple[tuple[int, int, Outcome], ...]
    start_offset: int
    batches: tuple[Batch, ...]
    complete: int = 0  # records behind the start that are done with, once this is written


def batches_of(runs: Iterable[tuple[int, int, Outcome]], start_offset: int) -> Iterator[Batch]:
    """What is written of them: from the start on, neighbours that are alike as one."""
    current: tuple[int, int, Outcome] | None = None
    for first, last, outcome in runs:
        if last < start_offset:
            continue
        if current is not None and current[1] + 1 == first and current[2] == outcome:
            current = (current[0], last, outcome)
            continue
        if current is not None:
            yield _batch(*current)
        current = (max(first, start_offset), last, outcome)
    if current is not None:
        yield _batch(*current)


def _batch(first: int, last: int, outcome: Outcome) -> Batch:
    return Batch(first, last, outcome.state, outcome.delivery_count, outcome.due_ms, outcome.verdict)
