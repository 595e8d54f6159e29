"""Handlers without an event loop: from one wait to the next."""

import gc
import weakref

import pytest

from ottla.broker.waits import Running, Wait


def run(coroutine):
    finished = []
    running = Running(coroutine, lambda result, error: finished.append((result, error)))
    running.step()
    return running, finished


def test_a_handler_that_never_waits_is_done_at_once():
    async def handler():
        return 7

    assert run(handler())[1] == [(7, None)]


def test_a_wait_that_is_set_before_it_is_awaited_does_not_suspend():
    wait = Wait()
    wait.set(1)

    async def handler():
        return await wait

    assert run(handler())[1] == [(1, None)]


def test_a_handler_goes_on_when_its_wait_is_set():
    first, second = Wait(), Wait()

    async def handler():
        return await first + await second

    _, finished = run(handler())
    second.set(2)
    assert finished == []
    first.set(1)
    assert finished == [(3, None)]


def test_only_the_first_value_counts():
    wait = Wait()
    wait.set("event")
    wait.set("deadline")

    async def handler():
        return await wait

    assert run(handler())[1] == [("event", None)]


def test_an_error_that_is_set_is_raised_in_the_handler():
    wait = Wait()

    async def handler():
        with pytest.raises(ValueError, match="no"):
            await wait
        return "caught"

    _, finished = run(handler())
    wait.set(ValueError("no"))
    assert finished == [("caught", None)]


def test_an_error_of_the_handler_is_handed_over():
    async def handler():
        raise KeyError("x")

    ((result, error),) = run(handler())[1]
    assert result is None
    assert isinstance(error, KeyError)


def test_a_cancelled_handler_runs_its_finally_and_never_finishes():
    wait, cleaned = Wait(), []

    async def handler():
        try:
            await wait
        finally:
            cleaned.append(True)

    running, finished = run(handler())
    running.cancel()
    wait.set(1)
    assert cleaned == [True]
    assert finished == []


class Held:
    """What a handler has in its hands: a buffer, say."""


def test_what_a_handler_held_when_its_wait_failed_is_free_without_the_collector():
    gc.disable()
    try:
        waits, held = [], []

        async def job():
            wait = Wait()
            waits.append(wait)
            return await wait

        async def handler():
            buffer = Held()
            held.append(weakref.ref(buffer))
            try:
                await job()
            except ValueError:
                return "refused"

        _, finished = run(handler())
        waits.pop().set(ValueError())
        assert finished == [("refused", None)]
        assert held[0]() is None
    finally:
        gc.enable()
