"""The time that a request takes of the event loop: its own steps, not what it waits for."""

import pytest

from ottla.broker.requests.metering import Usage
from ottla.broker.waits import Running, Wait


class Stopwatch:
    """Moves by what somebody does."""

    def __init__(self):
        self.now_ms = 0.0

    def stopwatch_ms(self):
        return self.now_ms


def run(handler, usage):
    ended = []
    running = Running(usage.timed(handler), lambda result, error: ended.append((result, error)))
    running.step()
    return running, ended


def test_steps_are_counted_and_waits_are_not():
    watch, news = Stopwatch(), Wait()
    usage = Usage(watch)

    async def handler():
        watch.now_ms += 2
        told = await news
        watch.now_ms += 3
        return told

    _, ended = run(handler(), usage)
    watch.now_ms += 1000  # others work
    news.set("done")
    assert ended == [("done", None)]
    assert usage.spent_ms == 5


def test_a_request_that_fails_has_cost_its_time_too():
    watch = Stopwatch()
    usage = Usage(watch)

    async def handler():
        watch.now_ms += 7
        raise LookupError("no")

    _, ((_, error),) = run(handler(), usage)
    assert isinstance(error, LookupError)
    assert usage.spent_ms == 7


def test_a_request_that_is_given_up_is_taken_off_what_it_waits_for():
    left = []

    async def handler():
        try:
            await Wait()
        finally:
            left.append(True)

    running, ended = run(handler(), Usage(Stopwatch()))
    running.cancel()
    assert left == [True] and not ended


@pytest.mark.parametrize("steps", [1, 50])
def test_a_wait_that_is_over_already_is_no_step_of_its_own(steps):
    watch = Stopwatch()
    usage = Usage(watch)

    async def handler():
        for _ in range(steps):
            ready = Wait()
            ready.set(None)
            await ready
            watch.now_ms += 1

    run(handler(), usage)
    assert usage.spent_ms == steps
