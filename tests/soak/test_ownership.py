"""The judge of groups notices what it is there to notice."""

from __future__ import annotations

import pytest

from tests.soak.ownership import Event, Judge

SECOND = 1_000_000_000


def judged(*lines: str) -> list[str]:
    """Lines are `SECONDS MEMBER WHAT NUMBERS`."""
    judge = Judge()
    for line in lines:
        at, member, what, *rest = line.split()
        judge.on_event(Event(int(float(at) * SECOND), member, what, tuple(rest)))
    return judge.in_order().wrong


def test_a_group_that_keeps_the_rules_is_not_blamed() -> None:
    assert judged(
        "1 a assigned 0 1", "2 a read 0 0 9", "3 a committed 0 10 2", "4 a revoked 1", "5 b assigned 1",
        "6 b read 1 0 4", "7 b crashed", "8 a assigned 1", "9 a read 1 0 5", "10 a leaving",
    ) == []  # fmt: skip


def test_a_member_that_did_not_run_may_be_replaced() -> None:
    assert judged(
        "1 a assigned 0", "8 b assigned 0", "9 a stalled 7000", "10 a lost 0", "11 b read 0 0 1",
        "12 b paused", "21 b resumed", "22 b lost 0",
    ) == []  # fmt: skip


@pytest.mark.parametrize(("why", "lines"), {
    "b was given 0, which a has": ("1 a assigned 0", "2 b assigned 0"),
    "b was given 1, which a has": ("1 a assigned 1", "5 a stalled 1500", "6 b assigned 1"),
    "which another one has": ("1 a assigned 0", "8 b assigned 0", "9 a stalled 7000", "9 a read 0 0 2",
                              f"10 a committed 0 3 {9 * SECOND}"),
    "a lost [0] for no reason": ("1 a assigned 0", "2 a lost 0"),
    "is skipped": ("1 a assigned 0", "2 a read 0 3 5"),
    "where 3 was due": ("1 a assigned 0", "2 a read 0 0 2", "3 a read 0 5 6"),
    "is committed": ("1 a assigned 0", "2 a read 0 0 9", "3 a committed 0 10 2", "4 a revoked 0",
                     "5 b assigned 0", "6 b read 0 5 9"),
    "which it has not": ("1 a assigned 0", "2 a revoked 0", "3 a read 0 0 1"),
    "lost while it was stopped": ("1 a assigned 0", "2 a read 0 0 9", "3 a paused", "12 a resumed",
                                  f"13 a committed 0 10 {12 * SECOND + 1}"),
}.items())  # fmt: skip
def test_whoever_breaks_a_rule_is_told(why: str, lines: tuple[str, ...]) -> None:
    (wrong,) = judged(*lines)
    assert why in wrong
