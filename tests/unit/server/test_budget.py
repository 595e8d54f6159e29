"""Memory for requests: never more than there is, nobody keeps it for ever, and a frame can always be finished."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.budget import GRACE_MS, LOOK_MS, RATE_BYTES_PER_S, SMALL_BYTES, Budget, Frame, Lane, Parked
from ottla.testing.world.time import Time

KB = 1 << 10


class Clock(Time):
    def turn(self) -> None:
        """What was to be called soon is."""
        self.advance(0)


class Sender:
    """A connection that receives one frame, as far as it is given room."""

    def __init__(self, lane, size, host="a"):
        self.lane, self.reason = lane, None
        self.lease = lane.open(self, host, size)
        self.frame = None
        self.is_waiting = False

    def send(self, count=1 << 40):
        """As much as it may; whether all of it has arrived."""
        lease = self.lease
        while count and not self.is_waiting and lease.received < lease.size:
            if lease.received == lease.held_bytes:
                self.is_waiting = not lease.grow()
                self._fit()
                continue
            part = min(count, lease.held_bytes - lease.received)
            lease.received += part
            count -= part
        if lease.received == lease.size and lease.holder is not None:
            lease.on_complete()
        return lease.received == lease.size

    def _fit(self):
        if self.lease.held_bytes and self.frame is None:
            self.frame = Frame(self.lease)

    def on_room(self):
        self.is_waiting = False
        self._fit()

    def free(self):
        self.frame = None

    def abort(self, reason):
        self.reason = reason
        self.lease.release()
        self.frame = None


def a_lane(limit_kb=2048, clock=None, **options):
    return Lane(limit_kb * KB, clock or Clock(), **options)


def test_what_is_announced_costs_nothing_and_what_has_arrived_does():
    lane = a_lane(100 << 10)
    sender = Sender(lane, 90 << 20)
    assert lane.held_bytes == 0
    sender.send(5 * KB)
    assert lane.held_bytes <= 1 << 20
    sender.send()
    assert lane.held_bytes == 90 << 20


def test_memory_is_back_when_the_last_view_of_the_buffer_is_gone():
    gc.disable()
    try:
        lane = a_lane()
        sender = Sender(lane, 200 * KB)
        sender.send()
        view = memoryview(sender.frame)[10:20]
        sender.free()
        assert lane.held_bytes == 200 * KB
        del view
        assert lane.held_bytes == 0
    finally:
        gc.enable()


def test_two_half_frames_do_not_block_each_other():
    clock = Clock()
    lane = a_lane(1024, clock)
    first, second = Sender(lane, 600 * KB), Sender(lane, 600 * KB)
    while not first.send(SMALL_BYTES):
        second.send(SMALL_BYTES)
    assert second.is_waiting and not second.send()
    first.free()
    clock.turn()
    assert second.send()
    second.free()
    assert lane.held_bytes == 0


def test_complete_frames_and_the_oldest_one_stay_within_the_limit():
    """Else each would be the oldest in its turn, and all of them would fit."""
    clock = Clock()
    lane = a_lane(1024, clock)
    senders = [Sender(lane, 300 * KB) for _ in range(20)]
    for _ in range(3):
        for sender in senders:
            sender.send()
        clock.turn()
        assert lane.held_bytes <= 1024 * KB
    assert 1 <= sum(each.lease.received == each.lease.size for each in senders) < 4


def test_a_frame_larger_than_everything_passes_alone():
    clock = Clock()
    lane = a_lane(100, clock)
    large, other = Sender(lane, 5000 * KB), Sender(lane, 200 * KB)
    assert large.send() and not other.send()
    large.free()
    clock.turn()
    assert other.send()


def test_who_leaves_the_line_lets_the_next_one_through():
    clock = Clock()
    lane = a_lane(1024, clock)
    first, second = Sender(lane, 2000 * KB), Sender(lane, 900 * KB)
    first.send(600 * KB)
    second.send()
    assert second.is_waiting
    first.abort("gone")
    clock.turn()
    assert second.send()


@pytest.mark.parametrize("sent_kb", [5, 500])
def test_a_slow_sender_is_cut_off_only_while_others_wait(sent_kb):
    clock = Clock()
    lane = a_lane(1024, clock)
    slow = Sender(lane, 50_000 * KB)
    slow.send(sent_kb * KB)
    clock.advance(GRACE_MS * 10)
    assert slow.reason is None
    other = Sender(lane, 900 * KB)
    other.send()
    assert slow.reason is not None
    clock.turn()
    assert other.send()


def test_a_sender_that_keeps_the_rate_is_not_cut_off():
    clock = Clock()
    lane = a_lane(1024, clock)
    steady = Sender(lane, 50 * RATE_BYTES_PER_S)
    steady.send(RATE_BYTES_PER_S)
    other = Sender(lane, 900 * KB)
    other.send()
    for _ in range(48):
        clock.advance(LOOK_MS)
        steady.send(RATE_BYTES_PER_S)
        assert steady.reason is None and other.is_waiting
    clock.advance(GRACE_MS + 3 * LOOK_MS)
    assert steady.reason is not None


def test_time_spent_waiting_for_memory_is_not_slowness():
    clock = Clock()
    lane = a_lane(1024, clock)
    busy, patient, late = Sender(lane, 500 * KB), Sender(lane, 900 * KB), Sender(lane, 900 * KB)
    busy.send()
    patient.send()
    late.send()
    clock.advance(GRACE_MS * 10)
    assert patient.is_waiting and patient.reason is None
    busy.free()
    clock.turn()
    clock.advance(GRACE_MS // 2)
    assert patient.reason is None and patient.send()


def test_one_address_leaves_something_to_the_others():
    clock = Clock()
    lane = a_lane(4096, clock, share_of_host=0.75)
    greedy = [Sender(lane, 1000 * KB, "greedy") for _ in range(10)]
    for sender in greedy:
        sender.send(512 * KB)
    modest = Sender(lane, 400 * KB, "modest")
    assert modest.send()


@pytest.mark.parametrize("is_peer", [True, False])
def test_only_other_brokers_may_have_a_whole_lane_from_one_address(is_peer):
    size = 300 * KB
    lane = Budget(64 << 20, Clock()).lane(size, is_peer=is_peer)
    Sender(lane, size, "elsewhere")  # the oldest: it has room of its own
    ninety_percent = int(lane.limit_bytes / 2 * 0.9)
    senders = [Sender(lane, size, "one address") for _ in range(ninety_percent // size)]
    assert all(sender.send() for sender in senders) == is_peer


def test_lanes_do_not_borrow_from_each_other():
    clock = Clock()
    budget = Budget(8 << 20, clock)
    senders = [Sender(budget.lane(50 << 20, is_peer=False), 50 << 20) for _ in range(20)]
    for sender in senders:
        sender.send(1 << 20)
    assert budget.bulk.waiting
    assert Sender(budget.lane(10 * KB, is_peer=False), 10 * KB).send()
    assert Sender(budget.lane(300 * KB, is_peer=True), 300 * KB).send()
    assert budget.peers.limit_bytes + budget.small.limit_bytes + budget.bulk.limit_bytes == 8 << 20


def test_large_requests_that_wait_share_a_bound_and_small_ones_need_none():
    parked = Parked(1 << 20)
    give_back = parked.take(1000 * KB)
    assert not parked.takes(100 * KB) and parked.takes(1 * KB)
    give_back()
    assert parked.takes(100 * KB) and parked.held_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 900), st.sampled_from("sfxt")), max_size=80))
def test_what_is_held_stays_within_the_limit_and_all_get_their_turn(steps):
    clock = Clock()
    lane = a_lane(1024, clock)
    senders = {}
    for index, size_kb, action in steps:
        sender = senders.get(index)
        if sender is None:
            sender = senders[index] = Sender(lane, min(size_kb, 512) * KB, host=str(index % 2))
        if action == "s":
            sender.send(size_kb * KB // 2)
        elif action == "f" and sender.lease.holder is None:
            sender.free()
            del senders[index]
        elif action == "x":
            sender.abort("gone")
            del senders[index]
        clock.turn()
        held = sum(each.lease.held_bytes for each in senders.values())
        assert lane.held_bytes == held <= lane.limit_bytes
    for _ in range(10):
        for index in list(senders):
            if senders[index].send():
                senders[index].free()
                del senders[index]
            clock.turn()
    assert not senders
    assert (lane.held_bytes, lane.waiting) == (0, 0)
