"""The records in flight of a share-partition: delivered, acknowledged, given back, given up; and a model of it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla import errors
from ottla.coordination.share.records import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    ShareKey,
    ShareState,
    ShareUpdate,
)
from ottla.coordination.share.state import updated
from ottla.coordination.share.window import ACCEPT, GAP, REJECT, RELEASE, RENEW, Acquired, Window

LOCK_MS = 1000


def window(start=0, limit=3, locks=100):
    return Window(start, limit, locks, end_offset=start)


def acquire(win, member, *batches, most=100, now=0):
    return win.acquire(
        member, [(*batch, True) if len(batch) == 2 else batch for batch in batches], most, now, LOCK_MS
    )


def settle(win, change):
    assert change is not None
    win.apply(change)


def test_records_go_to_one_member_and_are_done_when_it_accepts_them():
    win = window()
    assert acquire(win, "a", (0, 4)) == [Acquired(0, 4, 1)]
    assert acquire(win, "b", (0, 4)) == []
    settle(win, win.acknowledge("a", [(0, 4, [ACCEPT])], 0, LOCK_MS))
    assert (win.start_offset, win.next_fetch_offset, win.records) == (5, 5, {})


def test_a_released_record_goes_to_another_and_is_given_up_at_the_limit():
    win = window(limit=2)
    for member, count in (("a", 1), ("b", 2)):
        assert acquire(win, member, (0, 0)) == [Acquired(0, 0, count)]
        settle(win, win.acknowledge(member, [(0, 0, [RELEASE])], 0, LOCK_MS))
    assert win.start_offset == 1 and acquire(win, "c", (0, 0)) == []


def test_records_are_acknowledged_one_by_one_and_the_start_waits_for_the_first():
    win = window()
    acquire(win, "a", (0, 3))
    settle(win, win.acknowledge("a", [(1, 3, [ACCEPT, REJECT, GAP])], 0, LOCK_MS))
    assert win.start_offset == 0 and win.count(ACKNOWLEDGED) == 1 and win.count(ARCHIVED) == 2
    settle(win, win.acknowledge("a", [(0, 0, [ACCEPT])], 0, LOCK_MS))
    assert win.start_offset == 4


@pytest.mark.parametrize(
    ("member", "batches", "error"),
    [
        ("b", [(0, 1, [ACCEPT])], errors.InvalidRecordState),
        ("a", [(0, 9, [ACCEPT])], errors.InvalidRecordState),
        ("a", [(1, 0, [ACCEPT])], errors.InvalidRequest),
        ("a", [(0, 1, [ACCEPT, ACCEPT, ACCEPT])], errors.InvalidRequest),
        ("a", [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])], errors.InvalidRequest),
        ("a", [(0, 0, [9])], errors.InvalidRequest),
    ],
)
def test_what_a_member_does_not_hold_it_cannot_acknowledge(member, batches, error):
    win = window()
    acquire(win, "a", (0, 1))
    before = {offset: record.state for offset, record in win.records.items()}
    with pytest.raises(error):
        win.acknowledge(member, batches, 0, LOCK_MS)
    assert before == {offset: record.state for offset, record in win.records.items()}
    assert not any(record.is_pending for record in win.records.values())


def test_a_change_that_cannot_be_written_leaves_everything_as_it_was():
    win = window()
    acquire(win, "a", (0, 1))
    change = win.acknowledge("a", [(0, 1, [ACCEPT])], 0, LOCK_MS)
    with pytest.raises(errors.InvalidRecordState):
        win.acknowledge("a", [(0, 0, [ACCEPT])], 0, LOCK_MS)  # it is being written
    assert win.expire(10 * LOCK_MS) is None
    win.drop(change)
    settle(win, win.acknowledge("a", [(0, 1, [ACCEPT])], 0, LOCK_MS))
    assert win.start_offset == 2


def test_a_strict_member_gets_no_more_than_it_asked_for_and_others_get_the_rest():
    win = window()
    assert win.acquire("a", [(0, 9, True)], 4, 0, LOCK_MS, strict=True) == [Acquired(0, 3, 1)]
    assert acquire(win, "b", (0, 9)) == [Acquired(4, 9, 1)]


def test_a_change_tells_how_many_records_behind_the_start_are_done_with():
    win = window()
    acquire(win, "a", (0, 4))
    change = win.acknowledge("a", [(1, 2, [ACCEPT])], 0, LOCK_MS)
    assert (change.start_offset, change.complete) == (0, 2)
    win.apply(change)
    change = win.acknowledge("a", [(0, 0, [ACCEPT]), (4, 4, [REJECT])], 0, LOCK_MS)
    assert (change.start_offset, change.complete) == (3, 1)


def test_locks_expire_and_can_be_renewed():
    win = window()
    acquire(win, "a", (0, 1))
    assert win.next_expiry_ms() == LOCK_MS
    assert win.acknowledge("a", [(0, 0, [RENEW])], 900, LOCK_MS) is None
    settle(win, win.expire(LOCK_MS))
    assert acquire(win, "b", (0, 1), now=LOCK_MS) == [Acquired(1, 1, 2)]


def test_a_session_that_ends_gives_back_and_does_not_count():
    win = window()
    acquire(win, "a", (0, 1))
    settle(win, win.release("a"))
    assert acquire(win, "b", (0, 1)) == [Acquired(0, 1, 1)]


def test_the_window_is_bounded_and_moves_on():
    win = window(locks=10)
    assert acquire(win, "a", (0, 9), (10, 19)) == [Acquired(0, 9, 1)]
    assert not win.is_worth_fetching(100)
    settle(win, win.acknowledge("a", [(0, 9, [ACCEPT])], 0, LOCK_MS))
    assert acquire(win, "a", (10, 19)) == [Acquired(10, 19, 1)]


def test_markers_and_what_was_compacted_away_are_passed_over():
    win = window()
    assert acquire(win, "a", (0, 1), (2, 2, False), (7, 8)) == [Acquired(0, 1, 1), Acquired(7, 8, 1)]
    settle(win, win.acknowledge("a", [(0, 1, [ACCEPT]), (7, 8, [ACCEPT])], 0, LOCK_MS))
    assert win.start_offset == 9


def test_records_that_are_gone_from_the_log_are_not_waited_for():
    win = window()
    acquire(win, "a", (0, 1))
    settle(win, win.acknowledge("a", [(1, 1, [RELEASE])], 0, LOCK_MS))
    win.on_log_start(5)
    assert win.records[0].state != AVAILABLE and win.start_offset == 0  # "a" may still acknowledge 0
    settle(win, win.acknowledge("a", [(0, 0, [ACCEPT])], 0, LOCK_MS))
    assert win.start_offset == 5


class Sharing(RuleBasedStateMachine):
    """Members, a leader that dies, writes that fail and overtake each other, beside what was ever accepted."""

    @initialize()
    def begin(self):
        self.key = ShareKey("g", bytes(16), 0)
        self.state = ShareState(start_offset=0)
        self.win = Window.load(self.state, 0, 3, 12)
        self.now = 0
        self.accepted: set[int] = set()
        self.holders: dict[int, str] = {}
        self.writes: list = []

    @rule(member=st.sampled_from("abc"), size=st.integers(1, 4), most=st.integers(1, 6))
    def fetch(self, member, size, most):
        start = self.win.next_fetch_offset
        batches = [(start, start + size - 1), (start + size, start + 2 * size - 1)]
        for got in acquire(self.win, member, *batches, most=most, now=self.now):
            for offset in range(got.first_offset, got.last_offset + 1):
                assert offset not in self.accepted, "an accepted record was delivered again"
                assert offset not in self.holders, "two members hold one record"
                self.holders[offset] = member

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), kind=st.sampled_from([ACCEPT, RELEASE, REJECT]))
    def acknowledge(self, data, kind):
        offset = data.draw(st.sampled_from(sorted(self.holders)))
        member = self.holders[offset]
        if self.win.records[offset].is_pending:
            return
        change = self.win.acknowledge(member, [(offset, offset, [kind])], self.now, LOCK_MS)
        self.writes.append((change, {offset} if kind == ACCEPT else set()))

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), works=st.booleans())
    def write(self, data, works):
        change, accepts = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        if not works:
            self.win.drop(change)
            return
        self.state = updated(self.state, ShareUpdate(self.key, 0, 0, change.start_offset, -1, change.batches))
        self.win.apply(change)
        self.accepted |= accepts
        for offset, _, _ in change.records:
            self.holders.pop(offset, None)

    @rule(by=st.integers(1, 700))
    def time_passes(self, by):
        self.now += by
        change = self.win.expire(self.now)
        if change is not None:
            self.writes.append((change, set()))

    @rule(member=st.sampled_from("abc"))
    def leave(self, member):
        change = self.win.release(member)
        if change is not None:
            self.writes.append((change, set()))

    @rule()
    def leader_dies(self):
        self.writes, self.holders = [], {}
        self.win = Window.load(self.state, self.state.start_offset, 3, 12)

    @invariant()
    def nothing_accepted_is_free(self):
        if hasattr(self, "win"):
            free = {offset for offset, record in self.win.records.items() if record.state == AVAILABLE}
            assert not free & self.accepted
            assert self.win.end_offset - self.win.start_offset <= 12 + 8


Sharing.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_an_accepted_record_never_comes_back = Sharing.TestCase
