"""What time it is for a pipeline."""

from __future__ import annotations

from ottla.client.values import TopicPartition
from ottla.homecare.clock import EventClock
from ottla.homecare.spark_progress import read_up_to

A, B = ("t", 0), ("t", 1)


def test_records_move_the_time_of_the_partition_furthest_behind() -> None:
    clock = EventClock(4_000)
    clock.on_read(A, 10, 50_000, wall_ms=100_000)
    clock.on_read(B, 5, 20_000, wall_ms=100_000)
    clock.on_tick({A: 11, B: 6}, 100_000)
    assert (clock.time_ms, clock.watermark_ms) == (20_000, 16_000)


def test_when_everything_is_read_the_wall_clock_moves_time() -> None:
    clock = EventClock(4_000)
    clock.on_read(A, 10, 50_000, wall_ms=51_000)
    clock.on_tick({A: 10, B: 0}, 60_000)
    assert clock.time_ms == 56_000


def test_records_that_wait_hold_the_wall_clock_back() -> None:
    clock = EventClock(4_000)
    clock.on_read(A, 10, 50_000, wall_ms=51_000)
    clock.on_tick({A: 11}, 600_000)
    assert clock.time_ms == 50_000


def test_ends_that_are_not_known_move_nothing() -> None:
    clock = EventClock(4_000)
    clock.on_tick({}, 600_000)
    assert clock.time_ms == 0


def test_a_clock_that_runs_ahead_takes_nobody_with_it() -> None:
    clock = EventClock(4_000)
    clock.on_read(A, 1, 10**15, wall_ms=50_000)
    clock.on_tick({A: 2}, 50_000)
    assert clock.time_ms == 54_000


def test_time_never_goes_back_and_positions_survive_a_restart() -> None:
    clock = EventClock(4_000)
    clock.restore(80_000, {A: 10})
    clock.on_tick({A: 10}, 70_000)
    assert clock.time_ms == 80_000
    clock.on_tick({A: 10}, 90_000)
    assert clock.time_ms == 86_000


def test_offsets_that_hold_no_records_count_as_read() -> None:
    clock = EventClock(4_000)
    clock.on_read(A, 10, 50_000, wall_ms=51_000)
    clock.on_passed(A, 11)
    clock.on_tick({A: 11}, 60_000)
    assert clock.time_ms == 56_000


def test_progress_tells_positions_of_topics_and_nothing_of_ticks() -> None:
    assert read_up_to('{"t": {"0": 11}, "@tasks": 2}') == {TopicPartition("t", 0): 11}
    assert read_up_to({"t": {"0": 11}}) == {TopicPartition("t", 0): 11}
    assert (read_up_to("12"), read_up_to(12), read_up_to(None)) == ({}, {}, {})
