"""Quotas: whose bytes are counted together, and that the rate holds."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ThrottlingQuotaExceeded
from ottla.metadata.records import QuotaEntity
from ottla.security.quotas import (
    CONNECTIONS,
    FETCH,
    MUTATIONS,
    PRODUCE,
    REQUEST,
    THROTTLE_MS_MAX,
    Meter,
    Quotas,
    Windows,
)


def entity(**names):
    kinds = {"user": "user", "client_id": "client-id", "ip": "ip"}
    parts = [QuotaEntity(kinds[kind], name) for kind, name in names.items()]
    return tuple(sorted(parts, key=lambda part: part.kind))


LEVELS = [
    entity(user="alice", client_id="app"),
    entity(user="alice", client_id=None),
    entity(user="alice"),
    entity(user=None, client_id="app"),
    entity(user=None, client_id=None),
    entity(user=None),
    entity(client_id="app"),
    entity(client_id=None),
]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_of_eight_levels_counts(first):
    """Each level alone, with all below it."""
    rules = {
        level: {PRODUCE: str(1000 * (number + 1))} for number, level in enumerate(LEVELS) if number >= first
    }
    _, rate = Quotas(rules)._look_up(PRODUCE, "alice", "app")
    assert rate == 1000 * (first + 1)
    assert Quotas(rules)._look_up(FETCH, "alice", "app") is None


def test_clients_that_share_a_quota_are_counted_together():
    quotas = Quotas({entity(user="alice"): {PRODUCE: "1000"}})
    assert quotas.throttle_ms(PRODUCE, "User:alice", "one", 8000, 0) == 0
    assert quotas.throttle_ms(PRODUCE, "User:alice", "two", 8000, 0) > 0
    assert quotas.throttle_ms(PRODUCE, "User:bob", "one", 99_000, 0) == 0


def test_a_quota_for_each_client_is_counted_for_each():
    quotas = Quotas({entity(client_id=None): {FETCH: "1000"}})
    assert quotas.throttle_ms(FETCH, "User:a", "one", 8000, 0) == 0
    assert quotas.throttle_ms(FETCH, "User:b", "two", 8000, 0) == 0
    assert quotas.throttle_ms(FETCH, "User:c", "two", 8000, 0) > 0


def test_a_changed_quota_counts_at_once():
    rules = {entity(user="a"): {PRODUCE: "1000"}}
    quotas = Quotas(rules)
    assert quotas.throttle_ms(PRODUCE, "User:a", "", 50_000, 0) == 40_000
    rules[entity(user="a")] = {PRODUCE: "1000000"}
    quotas.on_changed()
    assert quotas.throttle_ms(PRODUCE, "User:a", "", 1, 0) == 40


def test_the_count_of_very_many_clients_is_bounded(monkeypatch):
    from ottla.security import quotas as module

    monkeypatch.setattr(module, "METERS_MAX", 10)
    quotas = Quotas({entity(client_id=None): {PRODUCE: "1"}})
    for number in range(100):
        quotas.throttle_ms(PRODUCE, "User:a", str(number), 1, 0)
    assert len(quotas._meters) <= 10 and len(quotas._limits_known) <= 10


def test_very_long_client_ids_have_their_quotas_and_are_not_kept():
    long_id = "x" * 20_000
    quotas = Quotas({entity(client_id=None): {PRODUCE: "1000"}, entity(client_id=long_id): {PRODUCE: "1"}})
    tracemalloc.start()
    try:
        for number in range(500):
            assert quotas.throttle_ms(PRODUCE, "User:a", f"{long_id}{number}", 8000, 0) == 0
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 4 << 20
    assert quotas.throttle_ms(PRODUCE, "User:b", f"{long_id}7", 8000, 0) == 6000  # counted with those before
    assert quotas.throttle_ms(PRODUCE, "User:a", long_id, 30, 0) == 20_000


@given(
    quota=st.integers(1_000, 1_000_000),
    sizes=st.lists(st.integers(1, 200_000), min_size=20, max_size=60),
    pause_ms=st.integers(0, 300),
)
def test_a_client_that_waits_as_told_stays_at_its_rate(quota, sizes, pause_ms):
    """After the burst that ten quiet seconds allow: at most the quota, and one request more than it."""
    meter, now_ms, sent = Meter(), 0, 0
    for size in sizes:
        sent += size
        now_ms += meter.throttle_ms(size, quota, 10, now_ms) + pause_ms
    rounding = len(sizes) * quota / 1000
    assert sent <= quota * 10 + max(sizes) + quota * now_ms / 1000 + rounding


def test_a_busy_client_gets_its_rate_within_a_tenth():
    meter, now_ms, sent = Meter(), 0, 0
    quota, size = 1_000_000, 100_000
    while now_ms < 120_000:
        sent += size
        now_ms += max(1, meter.throttle_ms(size, quota, 10, now_ms))
    assert 0.9 < (sent - 10 * quota) / (quota * now_ms / 1000) < 1.1


def test_time_is_paid_for_with_a_second_at_most_and_not_for_ever():
    quotas = Quotas({entity(user="a"): {REQUEST: "10"}})  # a tenth of the loop: a second of it at once
    assert quotas.request_throttle_ms("User:a", "", 1000, 0) == 0
    assert quotas.request_throttle_ms("User:a", "", 50, 0) == 500
    assert quotas.request_throttle_ms("User:a", "", 60_000, 0) == 1000
    assert quotas.request_throttle_ms("User:a", "", 0, 9_000) == 1000
    assert (
        quotas.request_throttle_ms("User:a", "", 0, 10_000) == 0
    )  # what is older than the window is forgotten
    assert quotas.request_throttle_ms("User:b", "", 60_000, 0) == 0


def test_changes_of_partitions_begin_within_the_quota_and_may_end_beyond_it():
    quotas = Quotas({entity(client_id="m"): {MUTATIONS: "1"}})
    strict = quotas.mutations("User:a", "m", 0, is_strict=True)
    strict.charge(5)
    strict.charge(10)  # six were left
    assert strict.throttle_ms == 0
    with pytest.raises(ThrottlingQuotaExceeded):
        strict.charge(1)
    assert strict.throttle_ms == 4000
    quotas.mutations("User:a", "m", 4000, is_strict=True).charge(1)
    assert quotas.mutations("User:a", "another", 0, is_strict=True) is None


def test_clients_that_do_not_know_the_error_are_throttled_for_their_changes():
    quotas = Quotas(
        {entity(client_id="m"): {MUTATIONS: "1"}}, Windows(mutation_samples=2, mutation_seconds=5)
    )
    lenient = quotas.mutations("User:a", "m", 0, is_strict=False)
    lenient.charge(30)
    assert lenient.throttle_ms == 20_000


def test_an_address_has_its_own_rate_or_the_default_and_what_is_refused_is_not_counted():
    rules = {entity(ip="10.0.0.1"): {CONNECTIONS: "1"}, entity(ip=None): {CONNECTIONS: "2"}}
    quotas = Quotas(rules)
    assert [quotas.connection_throttle_ms("10.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1000, 1000]
    assert [quotas.connection_throttle_ms("::ffff:10.0.0.1", 1000) for _ in range(2)] == [0, 1000]
    assert [quotas.connection_throttle_ms("::1", 0) for _ in range(21)] == [0] * 20 + [500]
    assert Quotas({entity(user="a"): {PRODUCE: "1"}}).connection_throttle_ms("10.0.0.1", 0) == 0


def test_an_infinite_quota_is_none():
    quotas = Quotas({entity(user="a"): {REQUEST: "inf"}, entity(user=None): {REQUEST: "1"}})
    assert quotas.request_throttle_ms("User:a", "", 1e9, 0) == 0
    assert quotas.request_throttle_ms("User:b", "", 1e9, 0) == 1000


def test_a_throttle_is_never_longer_than_an_answer_can_tell():
    quotas = Quotas({entity(user="a"): {PRODUCE: "1"}, entity(client_id="m"): {MUTATIONS: "5e-324"}})
    assert quotas.throttle_ms(PRODUCE, "User:a", "", 3_000_000, 0) == THROTTLE_MS_MAX
    lenient = quotas.mutations("User:b", "m", 0, is_strict=False)
    lenient.charge(30)
    assert lenient.throttle_ms == THROTTLE_MS_MAX
    strict = quotas.mutations("User:b", "m", 0, is_strict=True)
    with pytest.raises(ThrottlingQuotaExceeded):
        strict.charge(1)
    assert strict.throttle_ms == THROTTLE_MS_MAX


def test_the_largest_quota_is_as_good_as_none():
    quotas = Quotas({entity(user="a"): {REQUEST: "1.7976931348623157e308"}})
    assert [quotas.request_throttle_ms("User:a", "", 1e9, now_ms) for now_ms in (0, 5, 5)] == [0, 0, 0]
