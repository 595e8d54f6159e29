"""Who leads a partition and who is in sync: elections, and the rules of KIP-966 for the last replicas.

A replica that leaves the ISR while it falls below `min.insync.replicas` stays an eligible leader (ELR):
the high watermark cannot have moved on without it. `last_known_elr` is who led last, when nobody is left.
"""

from collections.abc import Callable, Iterable, Iterator

from ottla.config.settings import Config
from ottla.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, Image, Partition, changed
from ottla.metadata.records import NO_LEADER, RECOVERED, RECOVERING, ConfigSet, Ints, PartitionChanged

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"

MayLead = Callable[[int], bool]


def min_isr(partition: Partition, image: Image, config: Config) -> int:
    """A partition with fewer replicas than min.insync.replicas asks for all that it has."""
    own = image.settings(TOPIC_RESOURCE, partition.topic).get(MIN_ISR)
    wanted = config.log_defaults.min_insync_replicas if own is None else int(own)
    return min(wanted, len(partition.replicas))


def unclean_allowed(partition: Partition, image: Image, config: Config) -> bool:
    own = image.settings(TOPIC_RESOURCE, partition.topic).get(UNCLEAN_ELECTION)
    if own is None:
        return config.log_defaults.unclean_leader_election_enable
    return own.strip().lower() == "true"


def unclean_elections(image: Image, config: Config) -> Iterator[PartitionChanged]:
    """Leaders for partitions that have none although a living replica may lead uncleanly."""
    for before in image.partitions():
        if before.leader == NO_LEADER and unclean_allowed(before, image, config):
            final = with_epochs(before, elected(before, image.may_lead, unclean=True))
            if final is not None:
                yield changed(final)


def without_eligible(image: Image, settings: Iterable[ConfigSet]) -> Iterator[PartitionChanged]:
    """Partitions lose their ELR when these settings change their min.insync.replicas, as in Apache Kafka.

    The ELR has every committed record because nothing is committed below the minimum. Under a lower minimum
    the leader commits without the ELR, and an election from the ELR would lose acknowledged records.
    """
    altered = [setting for setting in settings if setting.name == MIN_ISR]
    if not altered:
        return
    topics = {setting.resource_name for setting in altered if setting.resource_type == TOPIC_RESOURCE}
    # That of one broker has no effect: brokers ignore it.
    is_default_altered = any(
        setting.resource_type == BROKER_RESOURCE and not setting.resource_name for setting in altered
    )
    for before in image.partitions():
        inherits = MIN_ISR not in image.settings(TOPIC_RESOURCE, before.topic)
        if before.topic not in topics and not (is_default_altered and inherits):
            continue
        if len(before.replicas) == 1:
            continue  # Its minimum is 1 whatever the setting is; without its ELR it would never lead again.
        final = with_epochs(before, before._replace(elr=(), last_known_elr=()))
        if final is not None:
            yield changed(final)


def with_isr(
    partition: Partition, isr: Iterable[int], min_isr: int, *, lost: Iterable[int] = ()
) -> Partition:
    """The partition with this ISR; `lost` are replicas whose data may be gone (an unclean stop)."""
    new = _in_order(partition.replicas, isr)
    gone = frozenset(lost)
    if len(new) >= min_isr:
        return partition._replace(isr=new, elr=(), last_known_elr=())
    eligible = {*partition.isr, *partition.elr} - {*new} - gone
    elr = _in_order(partition.replicas, eligible)
    last = partition.last_known_elr
    if not new and not elr:
        last = last or _last_known(partition)
    return partition._replace(isr=new, elr=elr, last_known_elr=last)


def elected(partition: Partition, may_lead: MayLead, *, unclean: bool = False) -> Partition:
    """Keep the leader if it may lead; else the first replica in sync, else an eligible one, else the last
    leader when nobody else is known to be better, else nobody.

    `unclean` takes any live replica rather than none: records may be lost.
    """
    if partition.leader in partition.isr and may_lead(partition.leader):
        return partition
    in_sync = [replica for replica in partition.replicas if replica in partition.isr and may_lead(replica)]
    if in_sync:
        return partition._replace(leader=in_sync[0])
    eligible = [replica for replica in partition.replicas if replica in partition.elr and may_lead(replica)]
    if eligible:
        return _led_by_eligible(partition, eligible[0])
    if (
        not partition.isr
        and not partition.elr
        and any(may_lead(replica) for replica in partition.last_known_elr)
    ):
        # No living replica is known to have every committed record; the last leader has most of them.
        return _led_uncleanly(partition, partition.last_known_elr[0])
    if unclean:
        living = [replica for replica in partition.replicas if may_lead(replica)]
        if living:
            return _led_uncleanly(partition, living[0])
    return partition._replace(leader=NO_LEADER)


def preferred(partition: Partition, may_lead: MayLead) -> Partition:
    """Led by its first replica, if that is in sync and may lead."""
    first = partition.replicas[0]
    if partition.leader == first or first not in partition.isr or not may_lead(first):
        return partition
    return partition._replace(leader=first)


def with_epochs(before: Partition, after: Partition, *, new_term: bool = False) -> Partition | None:
    """The new state under its epochs; None when nothing changed.

    The leader epoch moves with the leader, and when the set of replicas shrinks: the leader must notice
    that somebody it may be waiting for is gone. `new_term` moves it for a leader that was away.
    """
    if before == after and not new_term:
        return None
    new_epoch = new_term or after.leader != before.leader or bool(set(before.replicas) - set(after.replicas))
    return after._replace(
        leader_epoch=before.leader_epoch + new_epoch,
        partition_epoch=before.partition_epoch + 1,
    )


def _led_by_eligible(partition: Partition, leader: int) -> Partition:
    """It has everything that was committed, so it is in sync by definition."""
    isr = _in_order(partition.replicas, {*partition.isr, leader})
    elr = tuple(replica for replica in partition.elr if replica != leader)
    return partition._replace(leader=leader, isr=isr, elr=elr, recovery_state=RECOVERED)


def _led_uncleanly(partition: Partition, leader: int) -> Partition:
    return partition._replace(
        leader=leader,
        isr=(leader,),
        elr=(),
        last_known_elr=(),
        recovery_state=RECOVERING,
    )


def _last_known(partition: Partition) -> Ints:
    if partition.leader != NO_LEADER:
        return (partition.leader,)
    return partition.isr[:1] or partition.elr[:1]


def _in_order(replicas: Ints, members: Iterable[int]) -> Ints:
    wanted = frozenset(members)
    return tuple(replica for replica in replicas if replica in wanted)
