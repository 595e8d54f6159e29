from typing import Any, NamedTuple

from ottla.config.log import LogConfig
from ottla.storage.retention import Expiry, expired

NOW = 1_000_000


class Aged(NamedTuple):
    base_offset: int
    size_bytes: int
    largest_timestamp: int


def three(sizes=(100, 100, 100), ages=(300, 200, 100)) -> list[Aged]:
    return [Aged(10 * at, size, NOW - age) for at, (size, age) in enumerate(zip(sizes, ages, strict=True))]


def expiry(segments: list[Aged], **given: Any) -> Expiry:
    start, mark = given.pop("log_start_offset", 0), given.pop("high_watermark", 30)
    config = LogConfig(**{"retention_ms": -1, **given})
    return expired(segments, config, log_start_offset=start, high_watermark=mark, end_offset=30, now_ms=NOW)


def bases(result: Expiry) -> list[int]:
    return [each.base_offset for each in result.doomed]


def test_without_limits_nothing_goes():
    assert expiry(three()) == Expiry(log_start_offset=0)


def test_segments_whose_newest_record_is_too_old_go():
    result = expiry(three(), retention_ms=199)
    assert bases(result) == [0, 10]
    assert result.log_start_offset == 20
    assert not result.roll_first
    assert result.doomed[0].reason == "its newest record is 300 ms old, retention.ms is 199"


def test_exactly_the_retention_time_is_not_too_old():
    assert bases(expiry(three(), retention_ms=300)) == []


def test_an_old_segment_behind_a_young_one_stays():
    assert bases(expiry(three(ages=(100, 900, 900)), retention_ms=500)) == []


def test_a_log_that_is_all_too_old_is_rolled_and_emptied():
    result = expiry(three(), retention_ms=50)
    assert bases(result) == [0, 10, 20]
    assert result.roll_first
    assert result.log_start_offset == 30


def test_an_empty_active_segment_is_not_rolled_again():
    result = expiry(three(sizes=(100, 100, 0)), retention_ms=50)
    assert bases(result) == [0, 10]
    assert not result.roll_first


def test_what_stays_is_never_less_than_the_retention_size():
    assert bases(expiry(three(), retention_bytes=200)) == [0]
    assert bases(expiry(three(), retention_bytes=201)) == []
    assert bases(expiry(three(), retention_bytes=100)) == [0, 10]


def test_a_retention_size_of_zero_empties_the_log():
    assert bases(expiry(three(), retention_bytes=0)) == [0, 10, 20]


def test_segments_before_the_log_start_go_but_never_the_active_one():
    assert bases(expiry(three(), log_start_offset=19)) == [0]
    assert bases(expiry(three(), log_start_offset=20)) == [0, 10]
    assert bases(expiry(three(), log_start_offset=30)) == [0, 10]


def test_the_log_start_never_goes_back():
    assert expiry(three(), log_start_offset=25).log_start_offset == 25


def test_a_topic_that_is_only_compacted_knows_no_age_and_no_size():
    given: dict[str, Any] = {"compact": True, "delete": False, "retention_ms": 0, "retention_bytes": 0}
    assert bases(expiry(three(), **given)) == []
    assert bases(expiry(three(), **given, log_start_offset=10)) == [0]


def test_a_topic_with_both_policies_forgets_by_age():
    assert bases(expiry(three(), compact=True, delete=True, retention_ms=250)) == [0]


def test_nothing_above_the_high_watermark_goes():
    assert bases(expiry(three(), retention_ms=0, high_watermark=19)) == [0]
    assert bases(expiry(three(), retention_ms=0, high_watermark=29)) == [0, 10]


def test_the_size_counts_without_what_lies_before_the_log_start():
    assert bases(expiry(three(), log_start_offset=10, retention_bytes=150)) == [0]
