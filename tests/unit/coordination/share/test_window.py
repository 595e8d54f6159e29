"""The records in flight of a share-partition: delivered, acknowledged, given back, given up; and a model of it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla import errors
from ottla.coordination.share.outcomes import Acquired, Rules
from ottla.coordination.share.records import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    DELIVERY_LIMIT,
    REJECTED,
    Batch,
    ShareKey,
    ShareState,
    ShareUpdate,
)
from ottla.coordination.share.state import updated
from ottla.coordination.share.window import ACCEPT, GAP, PIECES_MAX, REJECT, RELEASE, RENEW, Window

LOCK_MS = 1000
KEY = ShareKey("g", bytes(16), 0)
RULES = Rules(3, 12, deferred_max=6, backoff_ms=50, dead_letters=True)


def window(start=0, limit=3, locks=100, **more):
    return Window(start, Rules(limit, locks, **more))


def acquire(win, member, *batches, most=100, now=0, dues=None, from_offset=None):
    return win.acquire(
        member,
        [(*batch, True) if len(batch) == 2 else batch for batch in batches],
        most,
        now,
        LOCK_MS,
        from_offset=batches[0][0] if from_offset is None else from_offset,
        dues=dues or {},
    )


def states(win):
    return {offset: run.state for run in win.runs for offset in range(run.first_offset, run.last_offset + 1)}


def settle(win, change):
    assert change is not None
    win.apply(change)


def test_records_go_to_one_member_and_are_done_when_it_accepts_them():
    win = window()
    assert acquire(win, "a", (0, 4)) == [Acquired(0, 4, 1)]
    assert acquire(win, "b", (0, 4)) == []
    settle(win, win.acknowledge("a", [(0, 4, [ACCEPT])], 0, LOCK_MS))
    assert (win.start_offset, win.next_fetch_offset, list(win.runs)) == (5, 5, [])


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
    before = states(win)
    with pytest.raises(error):
        win.acknowledge(member, batches, 0, LOCK_MS)
    assert before == states(win)
    assert not any(run.is_pending for run in win.runs)


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
    taken = win.acquire("a", [(0, 9, True)], 4, 0, LOCK_MS, from_offset=0, strict=True)
    assert taken == [Acquired(0, 3, 1)]
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
    assert states(win)[0] != AVAILABLE and win.start_offset == 0  # "a" may still acknowledge 0
    settle(win, win.acknowledge("a", [(0, 0, [ACCEPT])], 0, LOCK_MS))
    win.on_log_start(5)
    assert win.start_offset == win.next_fetch_offset == 5


def test_a_large_hole_in_the_log_costs_nothing():
    win = window()
    acquire(win, "a", (0, 1))
    assert acquire(win, "b", (10**12, 10**12)) == [Acquired(10**12, 10**12, 1)]
    assert len(win.runs) == 3 and not win.has_room
    settle(win, win.acknowledge("a", [(0, 1, [ACCEPT])], 0, LOCK_MS))
    assert win.start_offset == 10**12 and win.has_room


def test_a_released_record_comes_again_after_a_pause_that_grows():
    win = window(limit=5, backoff_ms=100, backoff_factor=3.0, backoff_max_ms=500)
    wall = 1_000_000
    for count, pause in ((1, 100), (2, 300), (3, 500)):
        assert acquire(win, "a", (0, 0)) == [Acquired(0, 0, count)]
        settle(win, win.acknowledge("a", [(0, 0, [RELEASE])], 0, LOCK_MS, wall))
        assert win.next_due_ms() == wall + pause and acquire(win, "b", (0, 0)) == []
        assert not win.ripen(wall + pause - 1)
        assert win.ripen(wall + pause)
        wall += pause


def test_a_pause_is_written_and_a_new_leader_keeps_to_it():
    win = window(backoff_ms=100)
    acquire(win, "a", (0, 1))
    change = win.acknowledge("a", [(1, 1, [RELEASE])], 0, LOCK_MS, 1000)
    state = updated(ShareState(start_offset=0), ShareUpdate(KEY, 0, 0, 0, -1, change.batches))
    win = Window.load(state, 0, win.rules)
    assert acquire(win, "b", (0, 1)) == [Acquired(0, 0, 1)] and win.next_due_ms() == 1100
    win.ripen(1100)
    assert acquire(win, "b", (0, 1)) == [Acquired(1, 1, 2)]


def test_records_with_a_time_wait_for_it_and_hold_up_nobody():
    win = window(locks=2)
    dues = {0: 500, 2: 300}
    assert acquire(win, "a", (0, 3), dues=dues) == [Acquired(1, 1, 1), Acquired(3, 3, 1)]
    assert (win.next_due_ms(), win.start_offset) == (300, 0)
    assert not win.has_room  # two are locked
    settle(win, win.acknowledge("a", [(1, 1, [ACCEPT]), (3, 3, [ACCEPT])], 0, LOCK_MS))
    assert win.has_room  # what waits takes no lock
    assert acquire(win, "a", (4, 5), dues={}) == [Acquired(4, 5, 1)]
    settle(win, win.acknowledge("a", [(4, 5, [ACCEPT])], 0, LOCK_MS))
    assert win.ripen(300) and acquire(win, "a", (0, 3)) == [Acquired(2, 2, 1)]
    assert win.ripen(500) and acquire(win, "b", (0, 3)) == [Acquired(0, 0, 1)]


def test_what_waits_is_bounded():
    win = window(locks=4, deferred_max=3)
    acquire(win, "a", (0, 2), dues={0: 9, 1: 9, 2: 9})
    assert not win.has_room and not win.is_worth_fetching(100)
    assert win.ripen(9) and win.is_worth_fetching(100)


@pytest.mark.parametrize(("kind", "verdict"), [(REJECT, REJECTED), (RELEASE, DELIVERY_LIMIT)])
def test_what_is_given_up_is_kept_until_it_is_a_dead_letter(kind, verdict):
    win = window(limit=1, dead_letters=True)
    acquire(win, "a", (0, 1))
    change = win.acknowledge("a", [(0, 0, [kind]), (1, 1, [ACCEPT])], 0, LOCK_MS)
    state = updated(ShareState(start_offset=0), ShareUpdate(KEY, 0, 0, 0, -1, change.batches))
    settle(win, change)
    for leader in (win, Window.load(state, 0, win.rules)):
        (letter,) = leader.dead()
        assert (letter.first_offset, letter.last_offset, letter.verdict) == (0, 0, verdict)
        assert leader.start_offset == 0 and acquire(leader, "b", (0, 1)) == []
        settle(leader, leader.archive(0, 0))
        assert leader.start_offset == 2 and leader.dead() == []


def test_a_lock_of_a_change_that_failed_still_ends():
    win = window()
    acquire(win, "a", (0, 0))
    change = win.acknowledge("a", [(0, 0, [ACCEPT])], 0, LOCK_MS)
    assert win.next_expiry_ms() is None
    win.drop(change)
    assert win.next_expiry_ms() == LOCK_MS and win.expire(LOCK_MS) is not None


def test_offsets_that_were_compacted_away_inside_the_window_do_not_stop_it():
    """A new leader finds 10 to 19 and 30 to 34 released, and no batch of theirs in the log."""
    state = updated(
        ShareState(start_offset=10),
        ShareUpdate(KEY, 0, 0, 10, -1, (Batch(20, 29, ACKNOWLEDGED, 1), Batch(35, 39, AVAILABLE, 1))),
    )
    win = Window.load(state, 10, Rules(3, 100))
    assert win.next_fetch_offset == 10
    assert acquire(win, "a", (20, 29), (35, 39), from_offset=10) == [Acquired(35, 39, 2)]
    assert (win.start_offset, win.next_fetch_offset) == (35, 40)


def test_a_hole_is_passed_over_though_the_batch_behind_it_is_not_taken():
    win = window(locks=10)
    acquire(win, "a", (0, 4), (5, 9))
    settle(win, win.acknowledge("a", [(0, 4, [RELEASE])], 0, LOCK_MS))
    assert acquire(win, "b", (10, 14), from_offset=0) == []  # the window is full
    assert (win.start_offset, win.next_fetch_offset) == (5, 10)
    assert acquire(win, "b", (10, 14), from_offset=10) == [Acquired(10, 14, 1)]


def test_a_hole_takes_nothing_from_members_nor_dead_letters():
    win = window(dead_letters=True)
    acquire(win, "a", (0, 9))
    settle(win, win.acknowledge("a", [(0, 1, [RELEASE]), (4, 5, [REJECT])], 0, LOCK_MS))
    assert acquire(win, "b", (10, 10), from_offset=0) == [Acquired(10, 10, 1)]
    assert (win.start_offset, [run.first_offset for run in win.dead()]) == (2, [4])
    settle(win, win.acknowledge("a", [(2, 3, [ACCEPT]), (6, 9, [ACCEPT])], 0, LOCK_MS))
    assert win.start_offset == 4


class Sharing(RuleBasedStateMachine):
    """Members, a leader that dies, writes that fail and overtake each other, beside what was ever accepted."""

    @initialize()
    def begin(self):
        self.key = ShareKey("g", bytes(16), 0)
        self.state = ShareState(start_offset=0)
        self.win = Window.load(self.state, 0, RULES)
        self.now = 0
        self.accepted: set[int] = set()
        self.holders: dict[int, str] = {}
        self.writes: list = []

    @rule(
        member=st.sampled_from("abc"),
        size=st.integers(1, 4),
        most=st.integers(1, 6),
        strict=st.booleans(),
        later=st.integers(0, 3),
        hole=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def fetch(self, member, size, most, strict, later, hole):
        from_offset = self.win.next_fetch_offset
        start = from_offset + hole
        batches = [(start, start + size - 1, True), (start + size, start + 2 * size - 1, True)]
        dues = {start + later: self.now + 300} if later else {}
        came_back = from_offset < self.win.end_offset
        taken = self.win.acquire(
            member, batches, most, self.now, LOCK_MS, from_offset=from_offset, strict=strict, dues=dues
        )
        assert not (hole and came_back) or self.win.next_fetch_offset > from_offset, "a hole stops the group"
        assert not strict or sum(got.last_offset - got.first_offset + 1 for got in taken) <= most
        for got in taken:
            for offset in range(got.first_offset, got.last_offset + 1):
                assert offset not in dues, "a record came before its time"
                assert offset not in self.accepted, "an accepted record was delivered again"
                assert offset not in self.holders, "two members hold one record"
                self.holders[offset] = member

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), kind=st.sampled_from([ACCEPT, RELEASE, REJECT]))
    def acknowledge(self, data, kind):
        offset = data.draw(st.sampled_from(sorted(self.holders)))
        member = self.holders[offset]
        if self.win.runs.at(offset).is_pending:
            return
        change = self.win.acknowledge(member, [(offset, offset, [kind])], self.now, LOCK_MS, self.now)
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
        for first, last, _ in change.runs:
            for offset in range(first, last + 1):
                self.holders.pop(offset, None)

    @rule(by=st.integers(1, 700))
    def time_passes(self, by):
        self.now += by
        self.win.ripen(self.now)
        change = self.win.expire(self.now, self.now)
        if change is not None:
            self.writes.append((change, set()))

    @rule(member=st.sampled_from("abc"))
    def leave(self, member):
        change = self.win.release(member)
        if change is not None:
            self.writes.append((change, set()))

    @rule()
    def letters_are_written(self):
        for letter in self.win.dead():
            self.writes.append((self.win.archive(letter.first_offset, letter.last_offset), set()))

    @rule()
    def leader_dies(self):
        self.writes, self.holders = [], {}
        self.win = Window.load(self.state, self.state.start_offset, RULES)

    @invariant()
    def nothing_accepted_is_free(self):
        if hasattr(self, "win"):
            now = states(self.win)
            assert not {offset for offset, state in now.items() if state == AVAILABLE} & self.accepted
            assert self.win.end_offset - self.win.start_offset <= 12 + 6 + 8
            assert list(now) == list(range(self.win.start_offset, self.win.end_offset))
            live = [run for run in self.win.runs if run.is_free]
            first = min((run.first_offset for run in live), default=self.win.end_offset)
            assert self.win.next_fetch_offset == first
            held = [run for run in self.win.runs if run.state == ACQUIRED and not run.is_pending]
            assert self.win.next_expiry_ms() == min((run.until_ms for run in held), default=None)
            waiting = [run.due_ms for run in self.win.runs if run.due_ms]
            assert self.win.next_due_ms() == min(waiting, default=None)
            assert {run.first_offset for run in self.win.dead()} == {
                run.first_offset for run in self.win.runs if run.verdict and not run.is_pending
            }


Sharing.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_an_accepted_record_never_comes_back = Sharing.TestCase


def test_small_batches_that_one_fetch_locks_are_one_entry_in_memory():
    win = window()
    assert acquire(win, "a", *((n, n) for n in range(50))) == [Acquired(0, 49, 1)]
    assert acquire(win, "b", *((n, n) for n in range(50, 60))) == [Acquired(50, 59, 1)]
    assert len(win.runs) == 2
    win.apply(win.acknowledge("a", [(10, 19, [RELEASE]), (20, 29, [ACCEPT])], 0, LOCK_MS))
    assert acquire(win, "b", *((n, n) for n in range(10, 30))) == [Acquired(10, 19, 2)]
    assert [(run.first_offset, run.last_offset) for run in win.runs] == [
        (0, 9),
        (10, 19),
        (20, 29),
        (30, 49),
        (50, 59),
    ]


def test_acknowledgements_that_change_their_type_very_often_are_refused():
    window = Window(0)
    count = 2 * PIECES_MAX
    window.acquire("a", [(0, count - 1, True)], 500, 0, 1000, from_offset=0)
    with pytest.raises(errors.InvalidRequest, match="in parts"):
        window.acknowledge("a", [(0, count - 1, [1, 2] * (count // 2))], 0, 1000)
    assert window.acknowledge("a", [(0, count - 1, [1])], 0, 1000) is not None
