"""The leader's side: what is committed, who is in sync, what is proposed."""

import pytest

from ottla import errors
from ottla.config.log import LogConfig
from ottla.metadata.image import Partition as State
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.storage.files import FileCache
from ottla.storage.log import Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.wire import batch as batches
from ottla.wire.records import Record


def a_state(leader=1, epoch=0, isr=(1, 2, 3), partition_epoch=0, replicas=(1, 2, 3)):
    return State("t", b"t" * 16, 0, replicas, isr, leader, epoch, partition_epoch)


def a_log(min_isr=2):
    config = LogConfig(min_insync_replicas=min_isr)
    return Log.create(Location(MemoryDisk(), "t-0", FileCache()), config, now_ms=0, topic_id=b"t" * 16)


def a_partition(min_isr=2, **state):
    partition = Partition(1, a_state(**state), a_log(min_isr))
    partition.wanted = []  # type: ignore[attr-defined]
    return partition


def shrink(partition, now_ms, lag_ms_max):
    isr = partition.shrunk_isr(now_ms, lag_ms_max)
    partition.wanted += [] if isr is None else [isr]


def a_batch(count=1):
    return batches.build([Record(at, 0, None, b"v") for at in range(count)])


def append(partition, count=1):
    return partition.append(a_batch(count), acks=ACKS_ALL, now_ms=0)


def fetch(partition, replica, offset, *, epoch=5, now_ms=0):
    isr = partition.on_follower_fetch(replica, offset, 0, epoch, now_ms)
    partition.wanted += [] if isr is None else [isr]


def test_a_record_is_committed_when_every_member_of_the_isr_has_it():
    partition = a_partition()
    append(partition, 3)
    fetch(partition, 2, 3)
    assert partition.log.high_watermark == 0
    fetch(partition, 3, 2)
    assert partition.log.high_watermark == 2
    fetch(partition, 3, 3)
    assert partition.log.high_watermark == 3


def test_whoever_is_not_in_sync_is_not_waited_for():
    partition = a_partition(isr=(1, 2))
    append(partition)
    fetch(partition, 2, 1)
    assert partition.log.high_watermark == 1


def test_below_min_isr_nothing_is_committed():
    partition = a_partition(isr=(1,))
    partition.append(a_batch(), acks=1, now_ms=0)
    assert partition.log.high_watermark == 0
    with pytest.raises(errors.NotEnoughReplicas):
        append(partition)


def test_a_partition_with_one_replica_commits_at_once_whatever_min_isr():
    partition = a_partition(min_isr=2, replicas=(1,), isr=(1,))
    append(partition)
    assert partition.log.high_watermark == 1


def test_a_follower_that_has_caught_up_is_proposed():
    partition = a_partition(isr=(1, 2))
    append(partition, 2)
    fetch(partition, 2, 2)
    fetch(partition, 3, 1)
    assert partition.wanted == []
    fetch(partition, 3, 2)
    assert partition.wanted == [{1, 2, 3}]


def test_a_follower_is_not_in_sync_before_it_has_the_leaders_epoch():
    """A new leader's high watermark may be old: to have it is not enough."""
    partition = a_partition(isr=(1, 2))
    append(partition, 4)
    partition.on_state(a_state(epoch=1, isr=(1, 2), partition_epoch=1))
    fetch(partition, 3, 2)
    assert partition.log.high_watermark == 0
    assert partition.wanted == []
    fetch(partition, 3, 4)
    assert partition.wanted == [{1, 2, 3}]


def test_while_an_isr_is_proposed_the_old_and_the_new_one_count():
    partition = a_partition(isr=(1, 2))
    partition.propose(frozenset({1, 2, 3}))
    append(partition)
    fetch(partition, 2, 1)
    assert partition.log.high_watermark == 0, "3 may be in the ISR already"
    partition.on_proposal_refused()
    assert partition.log.high_watermark == 1


def test_a_newer_state_settles_what_was_proposed():
    partition = a_partition(isr=(1, 2, 3))
    partition.propose(frozenset({1, 2}))
    append(partition)
    fetch(partition, 2, 1)
    assert partition.log.high_watermark == 0
    partition.on_state(a_state(isr=(1, 2), partition_epoch=1))
    assert (partition.log.high_watermark, partition.proposed_isr) == (1, None)


def test_who_lags_for_too_long_is_left_out():
    partition = a_partition()
    fetch(partition, 2, 0, now_ms=0)
    fetch(partition, 3, 0, now_ms=0)
    append(partition)
    fetch(partition, 2, 1, now_ms=900)
    shrink(partition, 1000, 1000)
    assert partition.wanted == []
    shrink(partition, 1001, 1000)
    assert partition.wanted == [{1, 2}]


def test_a_follower_that_keeps_up_with_a_busy_leader_is_in_sync():
    """It never has all, but always what there was at its last fetch."""
    partition = a_partition()
    for step in range(1, 30):
        append(partition)
        fetch(partition, 2, step - 1, now_ms=step * 100)
        fetch(partition, 3, step, now_ms=step * 100)
        shrink(partition, step * 100, 250)
    assert partition.wanted == []


def test_a_follower_of_an_idle_partition_is_caught_up_as_of_its_last_fetch():
    partition = a_partition()
    append(partition)
    for replica in (2, 3):
        fetch(partition, replica, 1, now_ms=0)
        fetch(partition, replica, 1, now_ms=900)
    append(partition)
    shrink(partition, 1000, lag_ms_max=500)
    assert partition.wanted == []
    shrink(partition, 1500, lag_ms_max=500)
    assert partition.wanted == [{1}]


def test_a_follower_outside_of_the_isr_is_proposed_again_though_it_tells_the_same():
    partition = a_partition(isr=(1, 2))
    append(partition)
    fetch(partition, 2, 1)
    fetch(partition, 3, 1)
    fetch(partition, 3, 1)
    assert partition.wanted == [{1, 2, 3}, {1, 2, 3}]


def test_an_earlier_life_of_a_follower_is_not_heard():
    partition = a_partition()
    fetch(partition, 2, 0, epoch=9)
    with pytest.raises(errors.StaleBrokerEpoch):
        fetch(partition, 2, 0, epoch=8)


def test_strangers_do_not_follow():
    partition = a_partition()
    with pytest.raises(errors.UnknownLeaderEpoch):
        fetch(partition, 7, 0)


def test_whoever_waits_hears_when_the_lead_is_lost():
    partition = a_partition()
    appended = append(partition)
    woken = []
    partition.committed.add(appended.next_offset, lambda: woken.append("committed"))
    partition.written.add(5, lambda: woken.append("written"))
    partition.on_state(a_state(leader=2, epoch=1, partition_epoch=1))
    assert woken == ["committed", "written"]


def test_a_new_leader_knows_its_end_when_its_followers_have_come():
    partition = a_partition()
    append(partition, 2)
    partition.on_state(a_state(epoch=1, partition_epoch=1))
    assert not partition.knows_its_end
    fetch(partition, 2, 2)
    fetch(partition, 3, 2)
    assert partition.knows_its_end


def test_what_was_appended_is_waited_for_while_the_leader_leads_on_under_a_new_epoch():
    """A move that ends bumps the epoch; the log of a leader that stays is not cut."""
    partition = a_partition()
    append(partition)
    tenure = partition.tenure
    partition.on_state(a_state(epoch=1, isr=(1, 2), replicas=(1, 2), partition_epoch=1))
    assert not partition.is_committed(1, tenure)
    fetch(partition, 2, 1)
    assert partition.is_committed(1, tenure)


def test_what_was_appended_before_another_led_is_not_known_to_be_there():
    """The high watermark may have passed it with other records below."""
    partition = a_partition()
    append(partition)
    tenure = partition.tenure
    partition.on_state(a_state(leader=2, epoch=1, partition_epoch=1))
    with pytest.raises(errors.NotLeaderOrFollower):
        partition.is_committed(1, tenure)
    partition.on_state(a_state(leader=1, epoch=2, partition_epoch=2))
    fetch(partition, 2, 1)
    fetch(partition, 3, 1)
    assert partition.log.high_watermark == 1
    with pytest.raises(errors.NotLeaderOrFollower):
        partition.is_committed(1, tenure)


def test_a_partition_that_is_gone_has_committed_nothing():
    partition = a_partition()
    append(partition)
    tenure = partition.tenure
    partition.close()
    with pytest.raises(errors.NotLeaderOrFollower):
        partition.is_committed(1, tenure)
