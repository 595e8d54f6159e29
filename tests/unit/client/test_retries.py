import asyncio

import pytest

from ottla.client.core.retries import Backoff, is_retriable, retrying
from ottla.client.errors import ConnectionLost, TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.errors import InvalidTopicException, NotLeaderOrFollower


def test_waits_double_up_to_the_bound_and_never_march_in_step() -> None:
    backoff = Backoff(100, 1000, spread=lambda: 0.5)
    assert [backoff.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    assert Backoff(100, 1000, spread=lambda: 0.0).next_ms() == 80


def test_lost_connections_are_retried_and_final_errors_are_not() -> None:
    assert is_retriable(ConnectionLost("x")) and is_retriable(NotLeaderOrFollower())
    assert not is_retriable(InvalidTopicException()) and not is_retriable(ValueError())


def test_it_tries_until_it_works_and_tells_every_failure() -> None:
    failures: list[Exception] = []
    attempts = iter([NotLeaderOrFollower(), ConnectionLost("x"), None])

    async def operation() -> str:
        error = next(attempts)
        if error is not None:
            raise error
        return "done"

    work = retrying(
        LOOP,
        operation,
        timeout_ms=5_000,
        backoff=Backoff(1, 1),
        purpose="it",
        on_error=lambda error, _: failures.append(error),
    )
    assert asyncio.run(work) == "done"
    assert [type(each) for each in failures] == [NotLeaderOrFollower, ConnectionLost]


def test_when_time_is_up_the_last_error_is_told() -> None:
    async def operation() -> None:
        raise NotLeaderOrFollower("moved")

    with pytest.raises(TimedOut, match="moved"):
        asyncio.run(retrying(LOOP, operation, timeout_ms=20, backoff=Backoff(1, 1), purpose="it"))
