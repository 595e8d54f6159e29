"""Heartbeats that wait for news."""

from ottla.broker.holds import Holds
from ottla.broker.pipeline import Pipeline
from ottla.broker.waits import Running


class Timer:
    def __init__(self, callback):
        self.callback, self.cancelled = callback, False

    def cancel(self):
        self.cancelled = True


class StoppedClock:
    """Timers run when the test says so."""

    def __init__(self):
        self.timers = []

    def call_later(self, delay_ms, callback):
        self.timers.append(Timer(callback))
        return self.timers[-1]

    def call_soon(self, callback):
        callback()


class Held:
    """One heartbeat of a group, held."""

    def __init__(self, group="g"):
        self.clock, self.news, self.next = StoppedClock(), [], []
        self.holds = Holds(self.clock)
        self.running = Running(
            self.holds.hold(group, 2000, self.next.append, lambda: None),
            lambda news, _: self.news.append(news),
        )
        self.running.step()


def test_a_held_heartbeat_hears_of_a_rebalance_at_once():
    held = Held()
    held.holds.on_rebalance("another")
    assert held.news == []
    held.holds.on_rebalance("g")
    assert held.news == [True]
    assert held.clock.timers[0].cancelled


def test_without_news_it_is_answered_in_time():
    held = Held()
    held.clock.timers[0].callback()
    assert held.news == [False]
    held.holds.on_rebalance("g")
    assert held.news == [False]


def test_it_is_answered_when_its_connection_sends_anything():
    held = Held()
    held.next[0]()
    assert held.news == [False]
    assert held.clock.timers[0].cancelled


def test_a_connection_that_is_gone_leaves_nothing_behind():
    held = Held()
    held.running.cancel()
    assert held.clock.timers[0].cancelled
    assert not held.holds._held


def test_the_next_request_of_a_connection_is_announced_to_the_one_before():
    slots, written, seen = [], [], []
    pipeline = Pipeline(lambda frame, slot: slots.append(slot), written.extend, lambda: None)
    pipeline.on_frame(b"heartbeat")
    slots[0].when_next(lambda: (seen.append("next"), slots[0].answer([b"one"])))
    slots[0].release()
    pipeline.on_frame(b"commit")
    slots[1].answer([b"two"])
    assert seen == ["next"]
    assert written == [b"one", b"two"]


def test_a_request_that_came_with_the_heartbeat_is_not_answered_late():
    holds, frames, written = Holds(StoppedClock()), [b"heartbeat", b"commit"], []

    def begin(frame, slot):
        if frame == b"commit":
            slot.answer([frame])
            return
        held = holds.hold("g", 2000, slot.when_next, slot.release)
        slot.running = Running(held, lambda news, _: slot.answer([frame]))
        slot.running.step()

    def cut():
        while frames and pipeline.ready:
            pipeline.on_frame(frames.pop(0))

    pipeline = Pipeline(begin, written.extend, cut)
    cut()
    assert written == [b"heartbeat", b"commit"]


def test_who_is_held_after_a_rebalance_hears_of_the_next_one():
    """Whoever was held before it may be done only later."""
    clock, news, later = StoppedClock(), [], []
    clock.call_soon = later.append
    holds = Holds(clock)

    def heartbeat(name):
        held = holds.hold("g", 2000, lambda callback: None, lambda: None)
        Running(held, lambda rebalances, _: news.append((name, rebalances))).step()

    heartbeat("first")
    holds.on_rebalance("g")
    heartbeat("second")
    for each in later:
        each()
    holds.on_rebalance("g")
    later[-1]()
    assert news == [("first", True), ("second", True)]
