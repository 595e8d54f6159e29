"""Elections, ISR and eligible leaders, on a partition of three replicas with min.insync.replicas=2."""

import pytest

from ottla import errors
from ottla.metadata import brokers, partitions
from ottla.metadata.partitions import IsrProposal
from ottla.metadata.records import RECOVERED, RECOVERING

from .cluster import Cluster, topic


@pytest.fixture
def cluster():
    made = Cluster(1, 2, 3)
    made.create(topic(assignments=[(0, [1, 2, 3])], min_insync_replicas="2"))
    return made


def state(cluster):
    found = cluster.partition()
    return found.leader, found.isr, found.elr


def propose(cluster, isr, by=1, **changes):
    found = cluster.partition()
    values = {
        "topic_id": found.topic_id,
        "partition": 0,
        "leader_epoch": found.leader_epoch,
        "partition_epoch": found.partition_epoch,
        "isr": [(each, -1) if isinstance(each, int) else each for each in isr],
    }
    proposal = IsrProposal(**(values | changes))
    epoch = cluster.image.brokers[by].epoch
    decision = partitions.alter_partitions(by, epoch, [proposal], cluster.image, cluster.config)
    (result,) = cluster.carry_out(decision)
    return result


def test_the_next_replica_in_sync_leads_when_the_leader_is_lost(cluster):
    before = cluster.partition()
    cluster.lose(1)
    after = cluster.partition()
    assert (after.leader, after.isr, after.elr) == (2, (2, 3), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_a_lost_follower_leaves_the_isr_and_the_leader_epoch_stays(cluster):
    before = cluster.partition()
    cluster.lose(3)
    assert state(cluster) == (1, (1, 2), ())
    assert cluster.partition().leader_epoch == before.leader_epoch


def test_below_the_minimum_those_that_leave_stay_eligible(cluster):
    cluster.lose(1)
    cluster.lose(2)
    assert state(cluster) == (3, (3,), (2,))
    cluster.lose(3)
    assert state(cluster) == (-1, (), (2, 3))


def test_all_that_leave_at_once_are_eligible_since_nothing_was_committed_without_them(cluster):
    propose(cluster, [1])
    assert state(cluster) == (1, (1,), (2, 3))
    cluster.lose(2)
    cluster.lose(1)
    assert state(cluster) == (3, (3,), (1, 2))


def test_an_eligible_replica_that_comes_back_cleanly_leads(cluster):
    for broker in (1, 2, 3):
        cluster.lose(broker)
    cluster.restart(1)
    cluster.unfence(1)
    assert state(cluster)[0] == -1, "it left while two others were in sync: they may have gone on without it"
    cluster.restart(2)
    cluster.unfence(2)
    assert state(cluster) == (2, (2,), (3,))
    assert cluster.partition().recovery_state == RECOVERED


def test_a_broker_that_stopped_uncleanly_is_no_longer_eligible(cluster):
    for broker in (1, 2, 3):
        cluster.lose(broker)
    cluster.restart(2, clean=False)
    cluster.unfence(2)
    assert state(cluster) == (-1, (), (3,))


def test_when_all_stopped_uncleanly_the_last_leader_leads_and_recovers(cluster):
    for broker in (1, 2, 3):
        cluster.lose(broker)
    cluster.restart(2, clean=False)
    cluster.unfence(2)
    cluster.restart(3, clean=False)
    assert state(cluster) == (-1, (), ())
    cluster.unfence(3)
    assert state(cluster) == (3, (3,), ())
    assert cluster.partition().recovery_state == RECOVERING


def test_unclean_election_takes_any_living_replica_when_the_topic_allows_it():
    cluster = Cluster(1, 2)
    cluster.create(topic(assignments=[(0, [1, 2])], unclean_leader_election_enable="true"))
    propose(cluster, [1])
    cluster.lose(1)
    assert state(cluster)[:2] == (2, (2,))
    assert cluster.partition().recovery_state == RECOVERING


def test_without_it_a_replica_that_is_behind_does_not_lead():
    cluster = Cluster(1, 2)
    cluster.create(topic(assignments=[(0, [1, 2])]))
    propose(cluster, [1])
    cluster.lose(1)
    assert state(cluster) == (-1, (), (1,))


def test_min_isr_beyond_the_replicas_asks_for_all_of_them():
    cluster = Cluster(1)
    cluster.create(topic(assignments=[(0, [1])], min_insync_replicas="3"))
    cluster.lose(1)
    assert state(cluster) == (-1, (), (1,))


@pytest.mark.parametrize("clean", [True, False])
def test_an_only_broker_leads_again_after_any_stop_under_a_new_epoch(clean):
    cluster = Cluster(1)
    cluster.create(topic(partitions=3))
    cluster.restart(1, clean=clean, ready=True)
    assert state(cluster) == (1, (1,), ())
    assert [each.leader_epoch for each in cluster.image.partitions()] == [1, 1, 1]
    assert cluster.partition().recovery_state == RECOVERED


def test_a_restart_in_two_steps_comes_to_the_same():
    cluster = Cluster(1)
    cluster.create(topic())
    cluster.restart(1, clean=False)
    assert state(cluster) == (-1, (), (1,))
    cluster.unfence(1)
    assert state(cluster) == (1, (1,), ())


def test_a_clean_stop_moves_leaders_first(cluster):
    assert cluster.stop(1) is True
    assert state(cluster) == (2, (2, 3), ())
    assert not cluster.image.may_lead(1)


def test_a_clean_stop_waits_for_a_living_replica_to_catch_up(cluster):
    propose(cluster, [1])
    assert cluster.stop(1) is False
    assert state(cluster)[0] == 1
    propose(cluster, [1, 2])
    assert cluster.stop(1) is True
    assert state(cluster)[0] == 2


def test_the_last_living_broker_may_stop():
    cluster = Cluster(1)
    cluster.create(topic())
    assert cluster.stop(1) is True
    cluster.lose(1)
    assert state(cluster) == (-1, (), (1,))


def test_a_leader_shrinks_and_expands_the_isr(cluster):
    assert propose(cluster, [1, 2]).error is None
    assert state(cluster) == (1, (1, 2), ())
    propose(cluster, [1])
    assert state(cluster) == (1, (1,), (2,))
    result = propose(cluster, [1, (3, 3)])
    assert result.partition == cluster.partition()
    assert state(cluster) == (1, (1, 3), ())


@pytest.mark.parametrize(
    ("isr", "by", "changes", "error"),
    [
        ([1, 2], 1, {"topic_id": b"x" * 16}, errors.UnknownTopicId),
        ([1, 2], 1, {"partition": 9}, errors.UnknownTopicOrPartition),
        ([1, 2], 1, {"leader_epoch": -1}, errors.FencedLeaderEpoch),
        ([1, 2], 1, {"leader_epoch": 9}, errors.NotController),
        ([1, 2], 1, {"partition_epoch": -1}, errors.InvalidUpdateVersion),
        ([1, 2], 1, {"partition_epoch": 9}, errors.NotController),
        ([1, 2], 2, {}, errors.InvalidRequest),
        ([2, 3], 1, {}, errors.InvalidRequest),
        ([1, 7], 1, {}, errors.InvalidRequest),
        ([1, 2, 2], 1, {}, errors.InvalidRequest),
        ([1, (2, 99)], 1, {}, errors.IneligibleReplica),
        ([1, 2], 1, {"recovery_state": RECOVERING}, errors.InvalidRequest),
    ],
)
def test_a_proposal_that_breaks_a_rule_is_refused(cluster, isr, by, changes, error):
    before = cluster.partition()
    assert isinstance(propose(cluster, isr, by, **changes).error, error)
    assert cluster.partition() == before


def test_a_fenced_or_stopping_broker_does_not_come_into_the_isr(cluster):
    cluster.lose(3)
    assert isinstance(propose(cluster, [1, 2, 3]).error, errors.IneligibleReplica)
    cluster.restart(3)
    cluster.unfence(3)
    assert propose(cluster, [1, 2, 3]).error is None
    cluster.stop(2)
    assert isinstance(propose(cluster, [1, 2, 3]).error, errors.IneligibleReplica)


def test_a_broker_of_an_older_epoch_proposes_nothing(cluster):
    with pytest.raises(errors.StaleBrokerEpoch):
        partitions.alter_partitions(1, 77, [], cluster.image, cluster.config)


def elect(cluster, kind, wanted):
    return cluster.carry_out(partitions.elect_leaders(kind, wanted, cluster.image))


def test_the_preferred_leader_gets_its_partition_back(cluster):
    cluster.lose(1)
    cluster.restart(1)
    cluster.unfence(1)
    (refused,) = elect(cluster, 0, [("t", 0)])
    assert isinstance(refused.error, errors.PreferredLeaderNotAvailable), "it is not in sync yet"
    propose(cluster, [1, 2, 3], by=2)
    (done,) = elect(cluster, 0, [("t", 0)])
    assert done.error is None
    assert state(cluster)[0] == 1


def test_elections_that_are_not_needed_say_so_and_are_left_out_when_all_were_asked_for(cluster):
    (refused,) = elect(cluster, 0, [("t", 0)])
    assert refused.error.message == "Leader election not needed for topic partition."
    assert elect(cluster, 0, None) == []
    unknown = elect(cluster, 0, [("zz", 0), ("t", 77)])
    assert [each.error.message for each in unknown] == ["No such topic as zz", "No such partition as t-77"]
    with pytest.raises(errors.InvalidRequest, match="Unknown election type 9"):
        elect(cluster, 9, None)


def test_an_unclean_election_on_demand_takes_who_lives(cluster):
    propose(cluster, [1, 2])
    propose(cluster, [1])
    cluster.lose(2)
    cluster.lose(1)
    assert state(cluster)[0] == -1
    (done,) = elect(cluster, 1, [("t", 0)])
    assert done.error is None
    assert state(cluster)[:2] == (3, (3,))


def test_rebalancing_moves_leaders_back_up_to_a_limit(cluster):
    cluster.create(topic("u", assignments=[(0, [1, 2]), (1, [1, 2])]))
    cluster.lose(1)
    cluster.restart(1)
    cluster.unfence(1)
    for index in (0, 1):
        found = cluster.partition("u", index)
        propose(
            cluster,
            [1, 2],
            by=2,
            topic_id=found.topic_id,
            partition=index,
            leader_epoch=found.leader_epoch,
            partition_epoch=found.partition_epoch,
        )
    assert cluster.carry_out(partitions.rebalance_leaders(cluster.image, at_most=1)) == 1
    assert cluster.carry_out(partitions.rebalance_leaders(cluster.image, at_most=9)) == 1
    assert cluster.carry_out(partitions.rebalance_leaders(cluster.image, at_most=9)) == 0


def test_a_registration_seen_before_changes_nothing(cluster):
    broker = cluster.image.brokers[1]
    again = brokers.register(
        1, broker.incarnation, broker.endpoints, None, cluster.image, cluster.config, clean=True
    )
    assert (again.records, again.answer) == ((), broker.epoch)


def test_a_broker_that_will_not_come_back_leaves_everything(cluster):
    cluster.lose(3)
    cluster.carry_out(brokers.unregister(3, cluster.image, cluster.config))
    assert 3 not in cluster.image.brokers
    assert 3 not in cluster.partition().isr
    with pytest.raises(errors.BrokerIdNotRegistered):
        brokers.unregister(3, cluster.image, cluster.config)


def test_producer_ids_come_in_blocks_that_never_overlap(cluster):
    first = cluster.carry_out(brokers.allocate_producer_ids(1, 1, cluster.image))
    second = cluster.carry_out(brokers.allocate_producer_ids(2, 2, cluster.image))
    assert (first, second) == (range(1000), range(1000, 2000))
    with pytest.raises(errors.StaleBrokerEpoch):
        brokers.allocate_producer_ids(2, 1, cluster.image)
