"""Memory for requests: never more than there is, in turn, and nobody keeps it for ever."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.server.budget import SLOW_MS, Budget


class Clock:
    def __init__(self):
        self.now, self.timers = 0, []

    def monotonic_ms(self):
        return self.now

    def call_later(self, delay_ms, callback):
        self.timers.append((self.now + delay_ms, callback))
        return self

    def cancel(self):
        pass

    def advance(self, ms):
        self.now += ms
        due = [each for each in self.timers if each[0] <= self.now]
        self.timers = [each for each in self.timers if each[0] > self.now]
        for _, callback in due:
            callback()


class Holder:
    def __init__(self, budget):
        self.budget, self.size, self.granted, self.reason = budget, 0, False, None

    def take(self, size):
        self.size = size
        self.granted = self.budget.take(self, size, self._on_granted)

    def _on_granted(self):
        self.granted = True

    def give(self):
        self.granted = False
        self.budget.on_complete(self)
        self.budget.give(self.size)

    def abort(self, reason):
        self.reason = reason
        self.budget.leave(self)
        if self.granted:
            self.give()


def test_the_first_in_line_is_the_first_to_get_it():
    budget = Budget(100, Clock())
    first, second, third = (Holder(budget) for _ in range(3))
    first.take(80)
    second.take(60)
    third.take(10)  # there would be room, but others came before
    assert [each.granted for each in (first, second, third)] == [True, False, False]
    first.give()
    assert second.granted and third.granted


def test_a_frame_larger_than_everything_passes_alone():
    budget = Budget(100, Clock())
    large, small = Holder(budget), Holder(budget)
    large.take(1000)
    small.take(1)
    assert large.granted and not small.granted
    large.give()
    assert small.granted


def test_whoever_leaves_the_line_lets_the_next_one_through():
    budget = Budget(100, Clock())
    first, second, third = (Holder(budget) for _ in range(3))
    first.take(50)
    second.take(90)
    third.take(40)
    budget.leave(second)
    assert third.granted


def test_a_slow_sender_is_cut_off_only_while_others_wait():
    clock = Clock()
    budget = Budget(100, clock)
    slow, other = Holder(budget), Holder(budget)
    slow.take(90)
    clock.advance(SLOW_MS * 10)
    assert slow.reason is None
    other.take(90)
    clock.advance(SLOW_MS)
    assert slow.reason is not None and other.granted


def test_one_whose_frame_is_complete_is_not_cut_off():
    clock = Clock()
    budget = Budget(100, clock)
    busy, other = Holder(budget), Holder(budget)
    busy.take(90)
    budget.on_complete(busy)
    other.take(90)
    clock.advance(SLOW_MS)
    clock.advance(SLOW_MS)
    assert busy.reason is None and not other.granted


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 60)), max_size=60))
def test_what_is_held_never_exceeds_the_limit_and_all_get_their_turn(steps):
    budget = Budget(100, Clock())
    holders = [Holder(budget) for _ in range(5)]
    waiting = set()
    for index, size in steps:
        holder = holders[index]
        if holder.granted:
            holder.give()
        elif holder not in waiting:
            holder.take(size)
        waiting = {each for each in holders if each in budget._waiting}
        assert budget.held_bytes == sum(each.size for each in holders if each.granted) <= 100
    while any(each.granted for each in holders):
        next(each for each in holders if each.granted).give()
    assert (budget.held_bytes, budget.waiting) == (0, 0)
