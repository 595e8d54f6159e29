"""Incremental fetch sessions as KIP-227 has them."""

import itertools

import pytest

from ottla import errors
from ottla.broker.fetching.sessions import FetchSessions
from ottla.broker.fetching.wanted import wanted_of
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData

OWNER = object()


class Sessions(FetchSessions):
    """As a consumer on one connection asks, unless a test says otherwise."""

    def turn(self, request, **options):  # type: ignore[override]
        asked = {
            (each.topic, partition.partition): wanted_of(each.topic, partition)
            for each in request.topics
            for partition in each.partitions
        }
        usual = {"by_id": False, "is_follower": False, "owner": OWNER, "now_ms": 1, "partitions_max": 10_000}
        return super().turn(request, asked, **usual | options)  # type: ignore[arg-type]


def sessions(slots=10, partitions_max=1000, eviction_ms=120_000):
    ids = itertools.count(1)
    return Sessions(slots, partitions_max, eviction_ms, lambda: next(ids))


def request(session_id, epoch, partitions=(), forgotten=()):
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic="t", partitions=[FetchPartition(partition=p, fetch_offset=o) for p, o in partitions]
            )
        ]
        if partitions
        else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forgotten))] if forgotten else [],
    )


def told(turn, found):
    """What goes into the response."""
    return {key: each for key, each in found.items() if turn.tells(key, each)}


def data(turn, **changed):
    """What was found: nothing new, but for these partitions."""
    return {
        (w.topic, w.partition): changed.get(f"p{w.partition}")
        or PartitionData(partition_index=w.partition, high_watermark=5, log_start_offset=0, records=b"")
        for w in turn.wanted
    }


def open_session(cache, now_ms=0, partitions=((0, 0), (1, 0)), **options):
    turn = cache.turn(request(0, 0, partitions), now_ms=now_ms, **options)
    told(turn, data(turn))
    return turn.session_id


def test_a_fetch_without_a_session_is_told_everything_and_remembered_nowhere():
    cache = sessions()
    turn = cache.turn(request(0, -1, [(0, 0)]))
    assert turn.session_id == 0
    assert len(told(turn, data(turn))) == 1
    assert len(cache) == 0


def test_a_new_session_is_told_everything_once_and_then_only_news():
    cache = sessions()
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1))
    assert [w.partition for w in turn.wanted] == [0, 1]
    news = PartitionData(partition_index=1, high_watermark=6, log_start_offset=0, records=b"x")
    assert list(told(turn, data(turn, p1=news))) == [("t", 1)]


def test_a_partition_that_had_records_goes_to_the_end_of_the_queue():
    cache = sessions()
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1))
    told(turn, data(turn, p0=PartitionData(partition_index=0, high_watermark=5, records=b"x")))
    turn = cache.turn(request(session_id, 2))
    assert [w.partition for w in turn.wanted] == [1, 0]


def test_an_error_is_told_again_and_so_is_its_end():
    cache = sessions()
    session_id = open_session(cache)
    for epoch in (1, 2):
        turn = cache.turn(request(session_id, epoch))
        failed = PartitionData(partition_index=0, error_code=3, high_watermark=-1, log_start_offset=-1)
        assert ("t", 0) in told(turn, data(turn, p0=failed))
    turn = cache.turn(request(session_id, 3))
    assert ("t", 0) in told(turn, data(turn))


def test_partitions_are_updated_added_and_forgotten():
    cache = sessions()
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1, [(1, 9), (2, 3)], forgotten=[0]))
    assert [(w.partition, w.fetch_offset) for w in turn.wanted] == [(1, 9), (2, 3)]


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [(99, 1, errors.FetchSessionIdNotFound), (1, 2, errors.InvalidFetchSessionEpoch)],
)
def test_unknown_sessions_and_wrong_epochs_are_refused(session_id, epoch, error):
    cache = sessions()
    open_session(cache)
    with pytest.raises(error):
        cache.turn(request(session_id, epoch))


def test_names_and_ids_do_not_mix_in_a_session():
    cache = sessions()
    session_id = open_session(cache)
    with pytest.raises(errors.FetchSessionTopicIdError):
        cache.turn(request(session_id, 1), by_id=True)


def test_a_final_epoch_closes_the_session():
    cache = sessions()
    session_id = open_session(cache)
    cache.turn(request(session_id, -1))
    assert len(cache) == 0


def test_a_full_cache_gives_no_session_until_an_old_one_has_been_quiet():
    cache = sessions(slots=1, eviction_ms=100)
    first = open_session(cache, now_ms=0)
    assert open_session(cache, now_ms=50, owner=object()) == 0
    second = open_session(cache, now_ms=100, owner=object())
    assert second not in (0, first)
    assert len(cache) == 1


def test_a_session_without_partitions_is_closed_and_the_client_told():
    cache = sessions()
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1, forgotten=[0, 1]))
    assert (turn.session_id, turn.wanted, len(cache), cache.partition_count) == (0, [], 0, 0)


def test_a_partition_that_is_named_twice_is_asked_for_once_and_the_last_one_counts():
    cache = sessions()
    turn = cache.turn(request(0, 0, [(0, 5), (1, 1), (0, 7)] + [(0, 9)] * 1000))
    assert [(w.partition, w.fetch_offset) for w in turn.wanted] == [(0, 9), (1, 1)]
    assert cache.partition_count == 2


def test_sessions_go_with_the_connection_that_used_them_last():
    cache = sessions()
    old, new = object(), object()
    stays = open_session(cache, owner=old)
    open_session(cache, owner=old)
    cache.turn(request(stays, 1), owner=new)
    cache.on_disconnected(old)
    assert (len(cache), cache.partition_count) == (1, 2)
    cache.turn(request(stays, 2), owner=new)
    cache.on_disconnected(new)
    assert (len(cache), cache.partition_count, cache._by_owner) == (0, 0, {})


def test_all_sessions_together_hold_a_bounded_number_of_partitions():
    cache = sessions(partitions_max=10)
    many = [(index, 0) for index in range(6)]
    assert open_session(cache, partitions=many, owner=1) != 0
    assert open_session(cache, partitions=many, owner=2) == 0
    assert open_session(cache, partitions=[(index, 0) for index in range(11)], owner=1) == 0
    assert open_session(cache, partitions=many[:4], owner=2) != 0
    assert cache.partition_count == 10


def test_a_session_that_outgrows_the_bound_is_closed_but_answered():
    cache = sessions(partitions_max=10)
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1, [(index, 0) for index in range(11)]))
    assert (turn.session_id, len(turn.wanted)) == (0, 11)
    assert (len(cache), cache.partition_count) == (0, 0)


def test_a_session_of_more_partitions_than_it_may_have_is_not_kept():
    cache = sessions()
    assert open_session(cache, partitions=[(0, 0), (1, 0), (2, 0)], partitions_max=2) == 0
    session_id = open_session(cache, partitions_max=2)
    turn = cache.turn(request(session_id, 1, [(2, 0)]), partitions_max=2)
    assert (turn.session_id, len(turn.wanted), len(cache), cache.partition_count) == (0, 3, 0, 0)


def test_a_connection_that_opens_one_session_after_the_other_pushes_out_its_own():
    cache = sessions(slots=2)
    other = open_session(cache, owner=1)
    for _ in range(5):
        assert open_session(cache, owner=2) != 0
    assert len(cache) == 2
    assert cache.turn(request(other, 1), owner=1).session_id == other


def test_a_follower_gets_the_place_of_a_consumer_but_not_of_another_follower():
    cache = sessions(slots=2)
    leading = open_session(cache, owner=1, is_follower=True)
    consumer = open_session(cache, owner=2)
    assert open_session(cache, owner=3, is_follower=True) != 0
    assert open_session(cache, owner=4, is_follower=True) == 0
    assert cache.partitions(leading)
    assert not cache.partitions(consumer)
