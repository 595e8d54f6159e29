"""From what a member has to what it should have: one step of KIP-848's reconciliation. A pure function."""

from collections.abc import Container
from dataclasses import replace

from ottla.coordination.groups.consumer_group import ConsumerMember, MemberState
from ottla.coordination.groups.records import Partitions, TopicPartition


def reconcile(
    member: ConsumerMember,
    target: Partitions,
    target_epoch: int,
    owned: Partitions | None,
    taken: Container[TopicPartition],
) -> ConsumerMember:
    """The member after this heartbeat.

    `owned` is what it says it still has (None: nothing new), `taken` what others have or still give up.
    A member first gives up, then moves to the target's epoch, then gets what is free.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_has(owned, member.revoking_partitions):
        return member
    current = dict(member.assigned)
    kept = {partition: epoch for partition, epoch in current.items() if partition in target}
    revoking = {partition: epoch for partition, epoch in current.items() if partition not in target}
    if revoking and _still_has(owned, frozenset(revoking)):
        return replace(
            member,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=tuple(sorted(kept.items())),
            revoking=tuple(sorted(revoking.items())),
        )
    missing = target - kept.keys()
    free = {partition for partition in missing if partition not in taken}
    if (
        not free
        and missing
        and member.state is MemberState.UNRELEASED_PARTITIONS
        and member.epoch == target_epoch
    ):
        return member  # still waiting for the same
    assigned = kept | dict.fromkeys(free, target_epoch)
    return replace(
        member,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        state=MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS,
        assigned=tuple(sorted(assigned.items())),
        revoking=(),
    )


def _still_has(owned: Partitions | None, partitions: Partitions) -> bool:
    """Without word from the member nothing is given up."""
    return owned is None or not owned.isdisjoint(partitions)
