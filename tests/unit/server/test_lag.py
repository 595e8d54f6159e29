"""Work at a stretch is bounded: what can wait for the next turn of the loop does."""

import asyncio
from functools import partial

from ottla.server.lag import STRETCH_MS, Stretch


class Watch:
    """A clock whose hand is moved, and what was put off to the next turn."""

    def __init__(self):
        self.ms, self.soon = 0.0, []

    def stopwatch_ms(self):
        return self.ms

    def call_soon(self, callback):
        self.soon.append(callback)

    def turn(self):
        due, self.soon = self.soon, []
        for callback in due:
            callback()


def test_a_stretch_is_long_after_ten_milliseconds_until_the_next_turn():
    watch = Watch()
    stretch = Stretch(watch)  # type: ignore[arg-type]
    assert not stretch.is_long()
    watch.ms += STRETCH_MS
    assert not stretch.is_long()
    watch.ms += 0.1
    assert stretch.is_long()
    assert stretch.is_long()
    assert len(watch.soon) == 1
    watch.turn()
    assert not stretch.is_long()
    assert len(watch.soon) == 1


def test_timers_that_are_due_together_leave_room_for_others():
    """Ten timers of 5 ms each: something that waits for its turn on the loop comes before the last of them."""
    import time

    from ottla.server.clock import LoopClock

    async def main():
        loop = asyncio.get_running_loop()
        clock, order, done = LoopClock(loop), [], asyncio.Event()

        def slow(number):
            busy_until = time.perf_counter() + 0.005
            while time.perf_counter() < busy_until:
                pass
            order.append(number)
            if number == 0:
                loop.call_soon(order.append, "other")
            if number == 9:
                done.set()

        for number in range(10):
            clock.call_later(1, partial(slow, number))
        await asyncio.wait_for(done.wait(), 60)
        clock.close()
        return order

    order = asyncio.run(main())
    assert [each for each in order if each != "other"] == list(range(10))
    assert order.index("other") < 9
