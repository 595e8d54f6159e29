"""Which failures are worth another try, how long to wait before it, and when to stop."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from ottla import errors
from ottla.client.core.runtime import Runtime
from ottla.client.errors import TimedOut

T = TypeVar("T")

# After these the client looks up the partition's leader again.
STALE_METADATA = (
    errors.NotLeaderOrFollower,
    errors.UnknownTopicOrPartition,
    errors.LeaderNotAvailable,
    errors.FencedLeaderEpoch,
    errors.UnknownLeaderEpoch,
    errors.UnknownTopicId,
    errors.InconsistentTopicId,
    errors.ReplicaNotAvailable,
    errors.KafkaStorageError,
    errors.ListenerNotFound,
    errors.NetworkException,
    errors.NotController,
)
# After these the client looks up the coordinator of the group or the transaction again.
STALE_COORDINATOR = (errors.NotCoordinator, errors.CoordinatorNotAvailable, errors.NetworkException)


def is_retriable(error: BaseException) -> bool:
    return isinstance(error, errors.ProtocolError) and error.retriable


@dataclass(slots=True)
class Backoff:
    """Waits that double up to a bound, each a little off so that clients do not march in step."""

    base_ms: int = 100
    max_ms: int = 1_000
    attempts: int = 0
    spread: Callable[[], float] = lambda: 0.5

    def next_ms(self) -> float:
        plain = min(self.max_ms, self.base_ms * (1 << min(self.attempts, 20)))
        self.attempts += 1
        return plain * (0.8 + 0.4 * self.spread())

    def reset(self) -> None:
        self.attempts = 0


async def retrying(
    runtime: Runtime,
    operation: Callable[[], Awaitable[T]],
    *,
    timeout_ms: int,
    backoff: Backoff,
    purpose: str,
    on_error: Callable[[errors.ProtocolError, int], None] = lambda error, attempts: None,
    silence: str = "no answer",
) -> T:
    """Tries until it works, the error is final or the time is up; then the last error is told, or `silence` if there
    was none."""
    last: Exception | None = None
    attempts = 0
    try:
        async with runtime.timeout(timeout_ms / 1000):
            while True:
                try:
                    return await operation()
                except errors.ProtocolError as error:
                    attempts += 1
                    on_error(error, attempts)
                    if not error.retriable:
                        raise
                    last = error
                await runtime.sleep(backoff.next_ms() / 1000)
    except TimeoutError:
        raise TimedOut(f"{purpose}: gave up after {timeout_ms} ms; last: {last or silence}") from last
