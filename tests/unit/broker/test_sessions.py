"""Incremental fetch sessions as KIP-227 has them."""

import itertools

import pytest

from ottla import errors
from ottla.broker.sessions import FetchSessions
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData


def sessions(slots=10, eviction_ms=120_000):
    ids = itertools.count(1)
    return FetchSessions(slots, eviction_ms, lambda: next(ids))


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


def data(turn, **changed):
    """What was found: nothing new, but for these partitions."""
    return {
        (w.topic, w.partition): changed.get(f"p{w.partition}")
        or PartitionData(partition_index=w.partition, high_watermark=5, log_start_offset=0, records=b"")
        for w in turn.wanted
    }


def open_session(cache, now_ms=0, partitions=((0, 0), (1, 0))):
    turn = cache.turn(request(0, 0, partitions), by_id=False, now_ms=now_ms)
    turn.tell(data(turn))
    return turn.session_id


def test_a_fetch_without_a_session_is_told_everything_and_remembered_nowhere():
    cache = sessions()
    turn = cache.turn(request(0, -1, [(0, 0)]), by_id=False, now_ms=0)
    assert turn.session_id == 0
    assert len(turn.tell(data(turn))) == 1
    assert len(cache) == 0


def test_a_new_session_is_told_everything_once_and_then_only_news():
    cache = sessions()
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1), by_id=False, now_ms=1)
    assert [w.partition for w in turn.wanted] == [0, 1]
    news = PartitionData(partition_index=1, high_watermark=6, log_start_offset=0, records=b"x")
    assert list(turn.tell(data(turn, p1=news))) == [("t", 1)]


def test_a_partition_that_had_records_goes_to_the_end_of_the_queue():
    cache = sessions()
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1), by_id=False, now_ms=1)
    turn.tell(data(turn, p0=PartitionData(partition_index=0, high_watermark=5, records=b"x")))
    turn = cache.turn(request(session_id, 2), by_id=False, now_ms=2)
    assert [w.partition for w in turn.wanted] == [1, 0]


def test_an_error_is_told_again_and_so_is_its_end():
    cache = sessions()
    session_id = open_session(cache)
    for epoch in (1, 2):
        turn = cache.turn(request(session_id, epoch), by_id=False, now_ms=1)
        failed = PartitionData(partition_index=0, error_code=3, high_watermark=-1, log_start_offset=-1)
        assert ("t", 0) in turn.tell(data(turn, p0=failed))
    turn = cache.turn(request(session_id, 3), by_id=False, now_ms=1)
    assert ("t", 0) in turn.tell(data(turn))


def test_partitions_are_updated_added_and_forgotten():
    cache = sessions()
    session_id = open_session(cache)
    turn = cache.turn(request(session_id, 1, [(1, 9), (2, 3)], forgotten=[0]), by_id=False, now_ms=1)
    assert [(w.partition, w.fetch_offset) for w in turn.wanted] == [(1, 9), (2, 3)]


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [(99, 1, errors.FetchSessionIdNotFound), (1, 2, errors.InvalidFetchSessionEpoch)],
)
def test_unknown_sessions_and_wrong_epochs_are_refused(session_id, epoch, error):
    cache = sessions()
    open_session(cache)
    with pytest.raises(error):
        cache.turn(request(session_id, epoch), by_id=False, now_ms=1)


def test_names_and_ids_do_not_mix_in_a_session():
    cache = sessions()
    session_id = open_session(cache)
    with pytest.raises(errors.FetchSessionTopicIdError):
        cache.turn(request(session_id, 1), by_id=True, now_ms=1)


def test_a_final_epoch_closes_the_session():
    cache = sessions()
    session_id = open_session(cache)
    cache.turn(request(session_id, -1), by_id=False, now_ms=1)
    assert len(cache) == 0


def test_a_full_cache_gives_no_session_until_an_old_one_has_been_quiet():
    cache = sessions(slots=1, eviction_ms=100)
    first = open_session(cache, now_ms=0)
    assert open_session(cache, now_ms=50) == 0
    second = open_session(cache, now_ms=100)
    assert second not in (0, first)
    assert len(cache) == 1
