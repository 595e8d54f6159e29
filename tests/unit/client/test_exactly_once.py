"""One process leaves a transaction open, another ends it; the next owner of the id fences the previous one."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla import errors
from ottla.client.exactly_once import (
    FENCED,
    Marker,
    MarkerError,
    OpenTransaction,
    TransactionEnder,
    ensure_marker_topic,
)
from ottla.client.exactly_once.owner import TransactionOwner
from ottla.client.settings import ProducerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.testing import Broker

ROWS = pa.record_batch({"value": [b"a", b"b"]})
MARK = TopicPartition("t", 0)
READ = TopicPartition("read", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t", 1)
        running.create_topic("read", 1)
        yield running


@pytest.fixture
def ender(broker: Broker) -> Iterator[TransactionEnder]:
    ending = TransactionEnder(ProducerSettings.parse({"bootstrap.servers": broker.bootstrap}))
    yield ending
    ending.close()


def written(broker: Broker, name: str) -> OpenTransaction:
    owner = TransactionOwner(bootstrap_servers=broker.bootstrap, transactional_id=name)
    left = owner.take_over(ended_elsewhere=True)
    owner.write(ROWS, "t")
    owner.flush()
    owner.abandon()
    owner._engine.run(owner._stop())  # dies: its transaction stays open
    owner._engine.close()
    return left


def test_many_are_committed_with_their_offsets(broker: Broker, ender: TransactionEnder) -> None:
    left = [written(broker, f"task-{number}") for number in range(3)]
    assert broker.records("t") == []
    ender.commit(left, {MARK: OffsetAndMetadata(7, "batch")})
    assert len(broker.records("t")) == 6
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        for number in range(3):
            assert admin.group_offsets(f"task-{number}")[MARK].offset == 7


def test_an_abort_leaves_nothing_and_may_be_repeated(broker: Broker, ender: TransactionEnder) -> None:
    left = written(broker, "task")
    ender.abort([left])
    ender.abort([left])
    assert broker.records("t") == []
    assert [each.state for each in _transactions(broker)] == ["CompleteAbort"]


def test_who_was_fenced_cannot_commit(broker: Broker, ender: TransactionEnder) -> None:
    left = written(broker, "task")
    with TransactionOwner(bootstrap_servers=broker.bootstrap, transactional_id="task") as successor:
        successor.take_over()
        with pytest.raises(FENCED):
            ender.commit([left])
        successor.abort()
    assert broker.records("t") == []


def owner_of(broker: Broker, name: str) -> TransactionOwner:
    return TransactionOwner(bootstrap_servers=broker.bootstrap, transactional_id=name)


@pytest.mark.parametrize("ended_elsewhere", [False, True], ids=["second generation", "first generation"])
def test_the_next_owner_finds_records_positions_and_their_metadata(
    broker: Broker, ended_elsewhere: bool
) -> None:
    with owner_of(broker, "app") as first:
        first.take_over(ended_elsewhere=ended_elsewhere)
        for step in (1, 2):
            first.write(ROWS, "t")
            first.commit({READ: OffsetAndMetadata(step, f"token {step}")}, "app")
    with owner_of(broker, "app") as second:
        second.take_over()
        assert second.committed("app") == {READ: OffsetAndMetadata(2, "token 2")}
        assert second.committed("app", [MARK]) == {}
    assert len(broker.records("t")) == 4


def test_a_previous_owner_loses_its_open_transaction_and_can_write_no_more(broker: Broker) -> None:
    with owner_of(broker, "app") as previous, owner_of(broker, "app") as current:
        previous.take_over()
        previous.write(ROWS, "t")
        previous.flush()
        current.take_over()
        assert current.committed("app") == {}
        with pytest.raises(FENCED):
            previous.commit({READ: 2}, "app")
        current.commit({READ: 1}, "app")
        assert current.committed("app") == {READ: OffsetAndMetadata(1)}
        previous.close(0)
    assert broker.records("t") == []


def test_a_member_that_lost_its_partitions_commits_neither_positions_nor_records(broker: Broker) -> None:
    """KIP-447: the group's generation fences, whatever the transactional id."""
    with ottla.Consumer(bootstrap_servers=broker.bootstrap, group_id="app") as member:
        member.subscribe(["read"])
        while not member.assignment():
            member.poll(0.1)
        now = member.group_metadata()
        stale = GroupMetadata(now.group_id, now.generation_id - 1, now.member_id, now.group_instance_id)
        unknown = GroupMetadata(now.group_id, now.generation_id, "somebody else")
        for number, metadata in enumerate((stale, unknown)):
            with owner_of(broker, f"app-{number}") as owner:
                owner.take_over()
                owner.write(ROWS, "t")
                with pytest.raises(
                    (errors.IllegalGeneration, errors.StaleMemberEpoch, errors.UnknownMemberId)
                ):
                    owner.commit({READ: 1}, metadata)
                owner.abort()
        with owner_of(broker, "app-2") as owner:
            owner.take_over()
            owner.commit({READ: 1}, now)
            assert owner.committed("app") == {READ: OffsetAndMetadata(1)}
    assert broker.records("t") == []


def test_an_owner_that_failed_takes_over_again(broker: Broker) -> None:
    with owner_of(broker, "app") as owner:
        owner.take_over()
        owner.write(pa.record_batch({"value": [b"a"], "partition": pa.array([7], pa.int32())}), "t")
        with pytest.raises(Exception, match="partition"):
            owner.commit({READ: 1}, "app")
        owner.take_over()
        owner.write(ROWS, "t")
        owner.commit({READ: 2}, "app")
        assert owner.committed("app") == {READ: OffsetAndMetadata(2)}
    assert len(broker.records("t")) == 2


def test_a_marker_is_found_by_the_next_owner_and_is_no_lag(broker: Broker, ender: TransactionEnder) -> None:
    marker = Marker(8, "query")
    ender.run(ensure_marker_topic(ender.cluster, "markers"))
    with owner_of(broker, "app") as owner:
        owner.take_over()
        assert owner.marker("app", "markers") is None
        owner.commit(marker.offsets("markers"), "app")
    with owner_of(broker, "app") as owner:
        owner.take_over()
        ender.run(ensure_marker_topic(ender.cluster, "markers"))  # again: it is empty still
        assert owner.marker("app", "markers") == marker
        assert [position.offset for position in owner.committed("app").values()] == [0]
        assert broker.records("markers") == []


def test_a_topic_with_records_is_no_place_for_markers(broker: Broker, ender: TransactionEnder) -> None:
    broker.send("t", "record")
    with pytest.raises(MarkerError, match="Choose a topic that stays empty"):
        ender.run(ensure_marker_topic(ender.cluster, "t"))


def _transactions(broker: Broker) -> list[Any]:
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        return list(admin.list_transactions())


def test_without_the_first_none_is_committed(broker: Broker, ender: TransactionEnder) -> None:
    left = [written(broker, f"task-{number}") for number in range(3)]
    with broker.fail("EndTxn", errors.InvalidProducerEpoch, times=1), pytest.raises(FENCED):
        ender.commit(left, {MARK: OffsetAndMetadata(7, "batch")})
    assert len(broker.requests("EndTxn")) == 1
    assert broker.records("t") == []


def test_who_takes_over_aborts_and_fences(broker: Broker, ender: TransactionEnder) -> None:
    left = written(broker, "task")
    ender.take_over(["task", "never seen"])
    broker.send("t", b"next")
    assert [record.value for record in broker.records("t")] == [b"next"]  # nothing open holds it back
    with pytest.raises(FENCED):
        ender.commit([left])
