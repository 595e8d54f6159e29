"""What share groups keep of a topic goes with the topic: states at the share coordinator, notes at the group's."""

from random import Random

import pytest

from ottla.testing.world.process import Process
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.unit.broker.handlers.served import Served

PRUNE_MS = 300_000  # share.coordinator.state.topic.prune.interval.ms
PARTITIONS = 120  # so that deleting all states of a group takes several turns


@pytest.fixture
def served():
    """Two groups with states of two topics."""
    served = Served(
        share_coordinator_state_topic_replication_factor="1",
        share_coordinator_state_topic_num_partitions="2",
    )
    for name in ("kept", "gone"):
        served.create(name, PARTITIONS)
    for group_id in ("g", "h"):
        served.answer(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]))
        begin(served, group_id)
    assert states(served) == {"kept": 2 * PARTITIONS, "gone": 2 * PARTITIONS}
    return served


def begin(served, group_id):
    parts = [AlterShareGroupOffsetsRequestPartition(partition_index=at) for at in range(PARTITIONS)]
    topics = [
        AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts) for name in ("kept", "gone")
    ]
    answer = served.answer(AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics))
    assert not any(part.error_code for topic in answer.responses for part in topic.partitions)


def delete_topic(served, name="gone"):
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
    assert [topic.error_code for topic in served.answer(request).responses] == [0]


def states(served):
    """By topic, how many states there are; topics without a name are deleted."""
    topics = served.broker.image.topics_by_id
    counts: dict[str, int] = {}
    for shard in served.broker.share_states.shards.values():
        for key in shard.machine._held:
            name = topics[key.topic_id].name if key.topic_id in topics else "deleted"
            counts[name] = counts.get(name, 0) + 1
    return counts


def noted(served):
    """The topics that each group notes to have states of."""
    return {
        group_id: sorted(name for name, _ in group.initialized.values())
        for group_id, group in groups(served).items()
    }


def groups(served):
    (shard,) = served.broker.groups.shards.values()
    return shard.machine.state.share_groups


def restart(served):
    """Killed before anything but the deletion itself happened."""
    served.process.kill()
    served.process = Process(served.broker.config, served.process.folder.disk, served.time, Random(2))
    served.broker = served.process.broker


def test_states_of_a_deleted_topic_are_deleted_and_no_group_notes_it(served):
    delete_topic(served)
    served.time.advance(1_000)
    assert states(served) == {"kept": 2 * PARTITIONS}
    assert noted(served) == {"g": ["kept"], "h": ["kept"]}


def test_states_of_a_topic_that_was_deleted_before_a_crash_are_deleted_after_it(served):
    delete_topic(served)
    restart(served)
    served.time.advance(PRUNE_MS + 1_000)
    assert states(served) == {"kept": 2 * PARTITIONS}
    assert noted(served) == {"g": ["kept"], "h": ["kept"]}


def test_what_was_deleted_stays_deleted(served):
    delete_topic(served)
    served.time.advance(1_000)
    restart(served)
    assert states(served) == {"kept": 2 * PARTITIONS}
    assert noted(served) == {"g": ["kept"], "h": ["kept"]}


def test_a_group_is_deleted_while_one_of_its_topics_is(served):
    first, last = (name for name, _ in groups(served)["g"].initialized.values())
    deleting = served.call(DeleteGroupsRequest(groups_names=["g"]))
    delete_topic(served, last)
    assert not deleting.is_over
    served.time.advance(1_000)
    assert deleting.error is None and [result.error_code for result in deleting.response.results] == [0]
    assert states(served) == {first: PARTITIONS}
    assert noted(served) == {"h": [first]}


def test_a_log_that_refuses_the_notes_only_puts_them_off(served):
    (shard,) = served.broker.groups.shards.values()
    alone = shard.partition.state
    shard.partition.on_state(alone._replace(isr=()))  # fewer than min.insync.replicas
    delete_topic(served)
    served.time.advance(5_000)
    assert noted(served) == {"g": ["gone", "kept"], "h": ["gone", "kept"]}
    shard.partition.on_state(alone)
    served.time.advance(5_000)
    assert noted(served) == {"g": ["kept"], "h": ["kept"]}
