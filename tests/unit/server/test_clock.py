"""One heap of timers over an event loop."""

import asyncio

from ottla.server.clock import LoopClock


def run(scenario):
    async def main():
        clock = LoopClock(asyncio.get_running_loop())
        try:
            return await scenario(clock)
        finally:
            clock.close()

    return asyncio.run(main())


def test_timers_fire_in_the_order_of_their_time():
    async def scenario(clock):
        fired, done = [], asyncio.Event()
        clock.call_later(20, lambda: (fired.append("late"), done.set()))
        clock.call_later(5, lambda: fired.append("early"))
        await asyncio.wait_for(done.wait(), 60)
        return fired

    assert run(scenario) == ["early", "late"]


def test_a_cancelled_timer_does_not_fire_and_is_swept():
    async def scenario(clock):
        fired, done = [], asyncio.Event()
        for _ in range(1000):
            clock.call_later(60_000, lambda: fired.append("never")).cancel()
        clock.call_later(1, done.set)
        await asyncio.wait_for(done.wait(), 60)
        return fired, len(clock._heap)

    fired, left = run(scenario)
    assert fired == []
    assert left < 200


def test_advancing_brings_the_future_and_moves_both_clocks():
    async def scenario(clock):
        fired, done = [], asyncio.Event()
        week = 7 * 24 * 3_600_000
        before = clock.now_ms(), clock.monotonic_ms()
        clock.call_later(week, lambda: (fired.append(clock.now_ms()), done.set()))
        clock.advance(week)
        await asyncio.wait_for(done.wait(), 60)
        return fired[0] - before[0] >= week, clock.monotonic_ms() - before[1] >= week

    assert run(scenario) == (True, True)


def test_a_timer_armed_by_a_timer_fires_too():
    async def scenario(clock):
        done = asyncio.Event()
        clock.call_later(1, lambda: clock.call_later(1, done.set))
        await asyncio.wait_for(done.wait(), 60)

    run(scenario)


def test_a_callback_that_fails_does_not_stop_the_timers_after_it():
    async def scenario(clock):
        done, failed = asyncio.Event(), []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
        clock.call_later(1, lambda: 1 / 0)
        clock.call_later(1, lambda: clock.call_later(5, done.set))
        await asyncio.wait_for(done.wait(), 60)
        return [type(context["exception"]) for context in failed]

    assert run(scenario) == [ZeroDivisionError]
