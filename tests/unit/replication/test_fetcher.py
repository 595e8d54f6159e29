"""The follower's side, against a leader of the same code: requests in, answers out, no network."""

from typing import Any

from ottla import errors
from ottla.config.log import LogConfig
from ottla.replication.fetcher import LOOK_MS, Fetcher, Limits, truncate
from ottla.replication.partition import Partition, key_of
from ottla.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from tests.unit.replication.test_partition import a_batch, a_log, a_state


def a_follower(epoch=0):
    return Partition(2, a_state(epoch=epoch), a_log())


def a_fetcher(partition):
    reports = []
    fetcher = Fetcher(2, 1, Limits(), reports.append)
    fetcher.reports = reports  # type: ignore[attr-defined]
    fetcher.follow(partition)
    return fetcher


def leaders_bytes(count, epoch=0):
    leader = Partition(1, a_state(epoch=epoch), a_log())
    for _ in range(count):
        leader.append(a_batch(), acks=1, now_ms=0)
    return bytes(leader.log.read(0, max_bytes=1 << 20, up_to=count).data)


def answer(session=7, **data):
    partition = PartitionData(partition_index=0, **dict[str, Any](records=b"", log_start_offset=0) | data)
    topic = FetchableTopicResponse(topic_id=b"t" * 16, partitions=[partition])
    return FetchResponse(session_id=session, responses=[topic])


def asked(fetcher, now_ms=0):
    request = fetcher.request(3, now_ms)
    return (
        None
        if request is None
        else [(p.fetch_offset, p.last_fetched_epoch) for t in request.topics for p in t.partitions]
    )


def test_it_asks_from_its_end_and_takes_what_comes():
    partition = a_follower()
    fetcher = a_fetcher(partition)
    assert asked(fetcher) == [(0, -1)]
    fetcher.on_response(answer(records=leaders_bytes(3), high_watermark=2), 0)
    assert (partition.log.end_offset, partition.log.high_watermark) == (3, 2)
    assert asked(fetcher) == [(3, 0)]


def test_in_a_session_only_news_travel():
    partition = a_follower()
    fetcher = a_fetcher(partition)
    asked(fetcher)
    fetcher.on_response(answer(high_watermark=0), 0)
    request = fetcher.request(3, 0)
    assert (request.session_id, request.session_epoch, request.topics) == (7, 1, [])


def test_a_lost_session_begins_anew_with_everything():
    fetcher = a_fetcher(a_follower())
    asked(fetcher)
    fetcher.on_response(answer(high_watermark=0), 0)
    fetcher.request(3, 0)
    fetcher.on_response(FetchResponse(error_code=errors.FetchSessionIdNotFound.code), 0)
    request = fetcher.request(3, 0)
    assert (request.session_id, request.session_epoch, len(request.topics)) == (0, 0, 1)


def test_it_cuts_where_its_leaders_history_differs():
    partition = a_follower(epoch=2)
    partition.log.append_replicated(leaders_bytes(5, epoch=0), now_ms=0)
    fetcher = a_fetcher(partition)
    assert asked(fetcher) == [(5, 0)]
    fetcher.on_response(answer(diverging_epoch=EpochEndOffset(epoch=0, end_offset=3)), 0)
    assert partition.log.end_offset == 3
    assert asked(fetcher) == [(3, 0)]


def test_an_epoch_without_a_record_is_given_up_too():
    """It led for a moment and wrote nothing: the next leader has never heard of that epoch."""
    partition = a_follower(epoch=0)
    partition.log.append_replicated(leaders_bytes(2, epoch=0), now_ms=0)
    partition.log.begin_epoch(1)
    truncate(partition.log, 0, 4)
    assert (partition.log.end_offset, partition.log.epochs.latest) == (2, 0)


def test_an_answer_from_before_an_election_is_not_taken():
    partition = a_follower(epoch=0)
    fetcher = a_fetcher(partition)
    asked(fetcher)
    partition.on_state(a_state(epoch=1, partition_epoch=1))
    fetcher.on_response(answer(records=leaders_bytes(3), high_watermark=3), 0)
    assert partition.log.end_offset == 0


def test_below_the_leaders_start_it_starts_anew():
    partition = a_follower()
    partition.log.append_replicated(leaders_bytes(2), now_ms=0)
    fetcher = a_fetcher(partition)
    asked(fetcher)
    gone = answer(error_code=errors.OffsetOutOfRange.code, log_start_offset=10, high_watermark=20)
    fetcher.on_response(gone, 0)
    assert (partition.log.log_start_offset, partition.log.end_offset) == (10, 10)
    assert asked(fetcher) == [(10, -1)]


def test_after_an_error_it_waits_a_little_longer_each_time():
    partition = a_follower()
    fetcher = a_fetcher(partition)
    now_ms, pauses = 0, []
    for _ in range(4):
        assert asked(fetcher, now_ms) is not None
        fetcher.on_response(answer(error_code=errors.UnknownLeaderEpoch.code), now_ms)
        assert asked(fetcher, now_ms) is None
        pauses.append(fetcher.resumes_in_ms(now_ms))
        now_ms += pauses[-1]
    assert pauses == [20, 40, 80, 160]
    assert fetcher.reports == [], "that is how elections look"


def test_with_flush_messages_1_it_tells_only_what_is_on_its_disk():
    from dataclasses import replace

    partition = a_follower()
    partition.log.reconfigure(replace(partition.log.config, flush_messages=1))
    fetcher = a_fetcher(partition)
    asked(fetcher)
    fetcher.on_response(answer(records=leaders_bytes(1), high_watermark=0), 0)
    assert asked(fetcher) is None
    flush = partition.log.begin_flush()
    flush.run()
    partition.log.on_flushed(flush)
    assert asked(fetcher) == [(1, 0)]


def test_a_partition_that_is_left_is_forgotten_by_the_session():
    partition = a_follower()
    fetcher = a_fetcher(partition)
    other = Partition(2, a_state()._replace(topic="u", topic_id=b"u" * 16), a_log())
    fetcher.follow(other)
    fetcher.request(3, 0)
    fetcher.on_response(answer(high_watermark=0), 0)
    fetcher.leave(key_of(partition))
    request = fetcher.request(3, 0)
    assert [each.topic_id for each in request.forgotten_topics_data] == [b"t" * 16]


def test_the_new_start_of_a_log_is_told_in_the_next_look_at_all_partitions():
    partition = a_follower()
    fetcher = a_fetcher(partition)
    asked(fetcher)
    fetcher.on_response(answer(records=leaders_bytes(3), high_watermark=3), 0)
    asked(fetcher)
    partition.log.delete_records_before(2)  # as retention does
    assert asked(fetcher) == []
    assert asked(fetcher, now_ms=LOOK_MS) == [(3, 0)]


def test_a_partition_that_waits_for_its_disk_is_asked_for_as_soon_as_it_is_there():
    partition = a_follower()
    other = Partition(2, a_state()._replace(index=1), a_log())
    fetcher = a_fetcher(partition)
    fetcher.follow(other)
    asked(fetcher)
    partition.log.reconfigure(LogConfig(flush_messages=1))
    fetcher.on_response(answer(records=leaders_bytes(3), high_watermark=3), 0)
    assert asked(fetcher) == []
    flush = partition.log.begin_flush()
    flush.run()
    partition.log.on_flushed(flush)
    assert asked(fetcher) == [(3, 0)]
