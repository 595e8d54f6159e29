import pytest

from ottla import errors
from ottla.metadata import partitions
from ottla.metadata.partitions import IsrProposal
from ottla.metadata.reassignment import Move, alter_reassignments, reassignments

from .cluster import Cluster, topic


@pytest.fixture
def cluster():
    made = Cluster(1, 2, 3, 4)
    made.create(topic(assignments=[(0, [1, 2])]))
    return made


def move(cluster, replicas, index=0, name="t", **options):
    wanted = [Move(name, index, replicas)]
    ((_, error),) = cluster.carry_out(alter_reassignments(wanted, cluster.image, cluster.config, **options))
    return error


def in_sync(cluster, *isr):
    found = cluster.partition()
    proposal = IsrProposal(
        found.topic_id, 0, found.leader_epoch, found.partition_epoch, [(each, -1) for each in isr]
    )
    epoch = cluster.image.brokers[found.leader].epoch
    decision = partitions.alter_partitions(found.leader, epoch, [proposal], cluster.image, cluster.config)
    (result,) = cluster.carry_out(decision)
    return result.error


def test_old_and_new_replicas_live_side_by_side_until_the_new_ones_are_in_sync(cluster):
    assert move(cluster, [3, 4]) is None
    found = cluster.partition()
    assert (found.replicas, found.adding, found.removing, found.leader) == ((3, 4, 1, 2), (3, 4), (1, 2), 1)
    assert reassignments(cluster.image) == [found]
    assert in_sync(cluster, 1, 2, 3) is None
    assert cluster.partition().is_reassigning
    assert isinstance(in_sync(cluster, 1, 2, 3, 4), errors.NewLeaderElected)
    done = cluster.partition()
    assert (done.replicas, done.isr, done.leader, done.is_reassigning) == ((3, 4), (3, 4), 3, False)
    assert done.leader_epoch == found.leader_epoch + 1
    assert reassignments(cluster.image) == []


def test_a_move_that_only_removes_is_done_at_once(cluster):
    assert move(cluster, [2]) is None
    done = cluster.partition()
    assert (done.replicas, done.isr, done.leader, done.is_reassigning) == ((2,), (2,), 2, False)


def test_a_move_does_not_end_while_nobody_that_stays_is_in_sync(cluster):
    in_sync(cluster, 1)
    assert move(cluster, [2]) is None
    found = cluster.partition()
    assert (found.leader, found.isr, found.removing) == (1, (1,), (1,))
    in_sync(cluster, 1, 2)
    assert (cluster.partition().leader, cluster.partition().replicas) == (2, (2,))


def test_the_leader_hears_of_a_removed_replica_by_its_epoch(cluster):
    before = cluster.partition()
    assert move(cluster, [1]) is None
    after = cluster.partition()
    assert (after.replicas, after.leader, after.leader_epoch) == ((1,), 1, before.leader_epoch + 1)


def test_the_same_replicas_in_another_order_change_only_the_preference(cluster):
    before = cluster.partition()
    assert move(cluster, [2, 1]) is None
    after = cluster.partition()
    assert (after.replicas, after.leader, after.leader_epoch) == ((2, 1), 1, before.leader_epoch)


def test_the_same_replicas_change_nothing(cluster):
    before = cluster.partition()
    assert move(cluster, [1, 2]) is None
    assert cluster.partition() == before


def test_a_move_is_given_up_and_the_former_replicas_are_back(cluster):
    before = cluster.partition()
    move(cluster, [3, 4])
    in_sync(cluster, 1, 2, 3)
    assert move(cluster, None) is None
    after = cluster.partition()
    assert (after.replicas, after.isr, after.leader) == (before.replicas, (1, 2), 1)
    assert isinstance(move(cluster, None), errors.NoReassignmentInProgress)


def test_a_new_goal_replaces_the_one_before(cluster):
    move(cluster, [3, 4])
    assert move(cluster, [1, 3]) is None
    found = cluster.partition()
    assert (set(found.replicas), found.adding, set(found.removing)) == ({1, 2, 3, 4}, (3,), {2, 4})
    in_sync(cluster, 1, 2, 3)
    assert cluster.partition().replicas == (1, 3)


def test_the_old_leader_is_lost_in_the_middle_of_a_move(cluster):
    move(cluster, [3, 4])
    in_sync(cluster, 1, 3)
    cluster.lose(1)
    assert (cluster.partition().leader, cluster.partition().isr) == (3, (3,))
    in_sync(cluster, 3, 4)
    assert cluster.partition().replicas == (3, 4)


@pytest.mark.parametrize(
    ("replicas", "index", "name", "code", "message"),
    [
        ([1], 0, "zz", 3, "Unable to find a topic named zz."),
        ([1], 99, "t", 3, "Unable to find partition t:99."),
        ([], 0, "t", 39, "The manual partition assignment includes an empty replica list."),
        ([1, 1], 0, "t", 39, "The manual partition assignment includes the broker 1 more than once."),
        (
            [-1],
            0,
            "t",
            39,
            "The manual partition assignment includes broker -1, but no such broker is registered.",
        ),
    ],
)
def test_a_move_that_cannot_be_is_refused(cluster, replicas, index, name, code, message):
    error = move(cluster, replicas, index, name)
    assert (error.code, error.message) == (code, message)


def test_a_change_of_the_replication_factor_can_be_ruled_out(cluster):
    refused = move(cluster, [1, 2, 3], allow_factor_change=False)
    assert isinstance(refused, errors.InvalidReplicationFactor)
    assert move(cluster, [1, 3], allow_factor_change=False) is None
