"""Offsets: committing, reading, transactions, deleting, expiring."""

import pytest

from ottla import errors as e
from ottla.coordination.groups.settings import GroupSettings
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.coordination.groups.coordinator import GroupCoordinator

DAY_MS = 24 * 3_600_000
UNKNOWN_ID = b"?" * 16


def test_an_offset_comes_back_as_it_was_committed():
    coordinator = GroupCoordinator(t=2)
    assert coordinator.commit(42, metadata="päck") == 0
    partition = coordinator.fetch(topics={"t": [0, 1]}).topics[0].partitions
    assert (partition[0].committed_offset, partition[0].metadata) == (42, "päck")
    assert partition[0].committed_leader_epoch == 3
    assert (partition[1].committed_offset, partition[1].metadata, partition[1].error_code) == (-1, "", 0)


def test_all_offsets_of_a_group_are_listed_when_no_topic_is_named():
    coordinator = GroupCoordinator(t=2, u=1)
    coordinator.commit(1, partition=1)
    coordinator.commit(2, topic="u")
    found = {
        (each.name, partition.partition_index): partition.committed_offset
        for each in coordinator.fetch().topics
        for partition in each.partitions
    }
    assert found == {("t", 1): 1, ("u", 0): 2}


def test_a_group_nobody_knows_has_no_offsets_and_no_error():
    coordinator = GroupCoordinator(t=1)
    answer = coordinator.fetch(topics={"t": [0]})
    assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (0, -1)
    assert coordinator.fetch().topics == []


def test_topics_are_named_by_id_as_well():
    coordinator = GroupCoordinator(t=1)
    topic_id = coordinator.topics.topic_id("t")
    assert coordinator.commit(7, topic="", topic_id=topic_id, version=10) == 0
    answer = coordinator.fetch(topics={"": [0]}, topic_id=topic_id)
    assert (answer.topics[0].topic_id, answer.topics[0].partitions[0].committed_offset) == (topic_id, 7)
    assert coordinator.commit(7, topic="", topic_id=UNKNOWN_ID, version=10) == e.UnknownTopicId.code
    assert (
        coordinator.fetch(topics={"": [0]}, topic_id=UNKNOWN_ID).topics[0].partitions[0].error_code
        == e.UnknownTopicId.code
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"partition": 1}, e.UnknownTopicOrPartition),
        ({"topic": "nope"}, e.UnknownTopicOrPartition),
        ({"metadata": "x" * 4097}, e.OffsetMetadataTooLarge),
        ({"generation": 1, "member_id": "m"}, e.GroupIdNotFound),
        ({"generation": 1, "member_id": "m", "version": 8}, e.IllegalGeneration),
    ],
)
def test_a_commit_is_refused(options, error):
    coordinator = GroupCoordinator(t=1)
    assert coordinator.commit(1, **options) == error.code
    assert not coordinator.log.batches


def test_metadata_of_the_full_length_is_kept():
    coordinator = GroupCoordinator(t=1)
    assert coordinator.commit(1, metadata="x" * 4096) == 0


def test_members_commit_under_their_generation():
    coordinator = GroupCoordinator(t=1)
    (member,) = coordinator.stable_group(1)
    assert coordinator.commit(5, member_id=member, generation=1) == 0
    assert coordinator.commit(6, member_id=member, generation=0) == e.IllegalGeneration.code
    assert coordinator.commit(6, member_id="nobody", generation=1) == e.UnknownMemberId.code
    assert coordinator.commit(6) == e.UnknownMemberId.code  # from outside, while there are members
    assert coordinator.committed() == 5


def test_outsiders_may_commit_while_a_group_is_empty():
    coordinator = GroupCoordinator(t=1)
    (member,) = coordinator.stable_group(1)
    coordinator.leave(member)
    assert coordinator.commit(6) == 0
    assert coordinator.commit(7, member_id=member, generation=1) == e.UnknownMemberId.code


def test_nobody_commits_between_join_and_sync():
    coordinator = GroupCoordinator(t=1)
    member, _ = coordinator.enter()
    assert coordinator.commit(5, member_id=member, generation=1) == e.RebalanceInProgress.code


def test_a_commit_while_others_join_still_counts():
    coordinator = GroupCoordinator(t=1)
    (member,) = coordinator.stable_group(1)
    coordinator.enter()
    assert coordinator.commit(5, member_id=member, generation=1) == 0


def test_a_static_member_commits_for_its_instance_only():
    coordinator = GroupCoordinator(t=1)
    member = coordinator.join(instance="i").answer.member_id
    coordinator.sync(member, 1, {}, instance="i")
    assert coordinator.commit(5, member_id=member, generation=1, instance="i") == 0
    assert coordinator.commit(5, member_id="other", generation=1, instance="i") == e.FencedInstanceId.code


def test_a_commit_keeps_the_session_alive():
    coordinator = GroupCoordinator(t=1)
    (member,) = coordinator.stable_group(1)
    coordinator.clock.advance(9_000)
    coordinator.commit(1, member_id=member, generation=1)
    coordinator.clock.advance(9_000)
    assert coordinator.heartbeat(member, 1) == 0


def test_acknowledged_commits_survive_a_restart():
    coordinator = GroupCoordinator(t=3)
    for offset in range(20):
        assert coordinator.commit(offset, partition=offset % 3) == 0
    coordinator.restart()
    assert [coordinator.committed(partition=each) for each in range(3)] == [18, 19, 17]


# Transactions


def test_offsets_of_a_transaction_count_when_it_commits():
    coordinator = GroupCoordinator(t=1)
    coordinator.commit(1)
    assert coordinator.commit_in_transaction(5, 9) == 0
    assert coordinator.committed() == 1
    coordinator.end_transaction(9, committed=True)
    assert coordinator.committed() == 5
    coordinator.restart()
    assert coordinator.committed() == 5


def test_offsets_of_an_aborted_transaction_never_were():
    coordinator = GroupCoordinator(t=1)
    coordinator.commit(1)
    coordinator.commit_in_transaction(5, 9)
    coordinator.end_transaction(9, committed=False)
    assert coordinator.committed() == 1
    coordinator.restart()
    assert coordinator.committed() == 1


def test_who_asks_for_stable_offsets_is_told_of_open_transactions():
    coordinator = GroupCoordinator(t=1)
    coordinator.commit_in_transaction(5, 9)
    coordinator.restart()
    partition = coordinator.fetch(topics={"t": [0]}, stable=True).topics[0].partitions[0]
    assert (partition.error_code, partition.committed_offset) == (e.UnstableOffsetCommit.code, -1)
    assert coordinator.fetch(topics={"t": [0]}).topics[0].partitions[0].error_code == 0
    coordinator.end_transaction(9, committed=True)
    assert coordinator.fetch(topics={"t": [0]}, stable=True).topics[0].partitions[0].committed_offset == 5


def test_a_later_commit_is_not_undone_by_an_older_transaction():
    coordinator = GroupCoordinator(t=1)
    coordinator.commit_in_transaction(5, 9)
    coordinator.commit(6)
    coordinator.end_transaction(9, committed=True)
    assert coordinator.committed() == 6


def test_transactions_of_members_are_checked():
    coordinator = GroupCoordinator(t=1)
    (member,) = coordinator.stable_group(1)
    assert coordinator.commit_in_transaction(5, 9, member_id=member, generation=1) == 0
    assert coordinator.commit_in_transaction(5, 9, member_id=member, generation=0) == e.IllegalGeneration.code
    assert coordinator.commit_in_transaction(5, 9, member_id="x", generation=1) == e.UnknownMemberId.code
    assert coordinator.commit_in_transaction(5, 9) == 0  # old producers say nothing about the member


# Topics that go


def test_offsets_go_with_their_topic():
    coordinator = GroupCoordinator(t=1, u=1)
    coordinator.commit(1)
    coordinator.commit(2, topic="u")
    coordinator.commit_in_transaction(5, 9)
    coordinator.topics.delete("t")
    coordinator.shard.carry_out(coordinator.table.on_topic_deleted("t", coordinator.clock.now_ms()))
    assert coordinator.committed() == -1
    assert coordinator.committed(topic="u") == 2
    coordinator.end_transaction(9, committed=True)
    coordinator.restart()
    assert coordinator.committed() == -1


def test_a_topic_made_anew_starts_anew():
    coordinator = GroupCoordinator(t=1)
    coordinator.commit(9)
    coordinator.topics.create("t", 1)  # another id, and nobody told us
    assert coordinator.committed() == -1


# Deleting


def delete_offsets(coordinator: GroupCoordinator, *topics: str, group: str = "g"):
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=each, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for each in topics
        ],
    )
    return coordinator.ask(lambda token, now: coordinator.table.on_offset_delete(request, token, now))


def test_offsets_are_deleted_unless_somebody_subscribes_to_the_topic():
    coordinator = GroupCoordinator(t=1, u=1)
    coordinator.commit(1)
    coordinator.commit(2, topic="u")
    (member,) = coordinator.stable_group(1, topics=("t",))
    answer = delete_offsets(coordinator, "t", "u")
    codes = [each.partitions[0].error_code for each in answer.topics]
    assert codes == [e.GroupSubscribedToTopic.code, 0]
    assert (coordinator.committed(), coordinator.committed(topic="u")) == (1, -1)
    coordinator.leave(member)
    assert delete_offsets(coordinator, "t").topics[0].partitions[0].error_code == 0
    assert coordinator.committed() == -1


def test_a_subscription_nobody_can_read_may_be_to_any_topic():
    coordinator = GroupCoordinator(t=1)
    coordinator.commit(1)
    coordinator.stable_group(1, protocols={"range": b""})
    code = delete_offsets(coordinator, "t").topics[0].partitions[0].error_code
    assert code == e.GroupSubscribedToTopic.code


def test_offsets_of_topics_that_are_not_there_cannot_be_deleted():
    coordinator = GroupCoordinator(t=1)
    coordinator.commit(1)
    code = delete_offsets(coordinator, "nope").topics[0].partitions[0].error_code
    assert code == e.UnknownTopicOrPartition.code


def test_offsets_of_unknown_groups_and_of_other_kinds_of_groups_stay():
    coordinator = GroupCoordinator(t=1)
    assert delete_offsets(coordinator, "t").error_code == e.GroupIdNotFound.code
    coordinator.commit(1)
    coordinator.stable_group(1, protocol_type="connect", protocols={"default": b""})
    assert delete_offsets(coordinator, "t").error_code == e.NonEmptyGroup.code


def delete_groups(coordinator: GroupCoordinator, *groups: str) -> list[int]:
    results = coordinator.ask(lambda token, now: coordinator.table.on_delete_groups(list(groups), token, now))
    return [each.error_code for each in results]


def test_groups_are_deleted_when_nobody_is_in():
    coordinator = GroupCoordinator(t=1)
    (member,) = coordinator.stable_group(1)
    coordinator.commit(1, member_id=member, generation=1)
    assert delete_groups(coordinator, "g", "none") == [e.NonEmptyGroup.code, e.GroupIdNotFound.code]
    coordinator.leave(member)
    assert delete_groups(coordinator, "g") == [0]
    assert "g" not in coordinator.groups
    assert coordinator.committed() == -1
    assert "g" not in coordinator.replica().state.groups


# Expiring


def expiring(**topics: int) -> GroupCoordinator:
    return GroupCoordinator(GroupSettings(offsets_retention_ms=DAY_MS), **topics)  # type: ignore[arg-type]


def test_offsets_of_a_consumer_that_only_commits_expire_by_their_own_age():
    coordinator = expiring(t=2)
    coordinator.commit(1)
    coordinator.clock.advance(DAY_MS // 2)
    coordinator.commit(2, partition=1)
    coordinator.clock.advance(DAY_MS // 2 + 600_000)
    assert (coordinator.committed(), coordinator.committed(partition=1)) == (-1, 2)
    coordinator.clock.advance(DAY_MS)
    assert "g" not in coordinator.groups


def test_offsets_of_a_group_expire_a_while_after_it_became_empty():
    coordinator = expiring(t=1)
    (member,) = coordinator.stable_group(1)
    coordinator.commit(1, member_id=member, generation=1)
    for _ in range(2 * DAY_MS // 9_000):
        coordinator.clock.advance(9_000)
        assert coordinator.heartbeat(member, 1) == 0
    assert coordinator.committed() == 1
    coordinator.leave(member)
    coordinator.restart()
    coordinator.clock.advance(DAY_MS - 600_000)
    assert coordinator.committed() == 1
    coordinator.clock.advance(2 * 600_000)
    assert coordinator.committed() == -1
    assert "g" not in coordinator.groups


def test_offsets_of_topics_nobody_subscribes_to_expire_in_a_live_group():
    coordinator = expiring(t=1, u=1)
    coordinator.commit(1)
    coordinator.commit(2, topic="u")
    (member,) = coordinator.stable_group(1, topics=("t",), session_ms=1_800_000)
    for _ in range(DAY_MS // 1_700_000 + 2):
        coordinator.clock.advance(1_700_000)
        coordinator.heartbeat(member, 1)
    assert (coordinator.committed(), coordinator.committed(topic="u")) == (1, -1)


def test_offsets_of_an_open_transaction_do_not_expire():
    coordinator = expiring(t=1)
    coordinator.commit(1)
    coordinator.commit_in_transaction(2, 9)
    coordinator.clock.advance(3 * DAY_MS)
    coordinator.end_transaction(9, committed=False)
    assert coordinator.committed() == 1


def test_a_retention_time_given_with_the_commit_counts():
    coordinator = expiring(t=1)
    assert coordinator.commit(1, version=4, retention_ms=3_600_000) == 0
    coordinator.restart()
    coordinator.clock.advance(3_600_000 + 600_000)
    assert coordinator.committed() == -1


def test_offsets_expire_later_when_the_log_refuses_it_at_first():
    coordinator = expiring(t=1)
    coordinator.commit(1)
    coordinator.clock.advance(DAY_MS - 60_000)
    coordinator.log.broken = True
    coordinator.clock.advance(660_000)
    assert coordinator.committed() == 1
    coordinator.log.broken = False
    coordinator.clock.advance(1_000)
    assert coordinator.committed() == -1
