"""`range`: of each topic a contiguous run, in the order of the members; equal topics are co-partitioned."""

from collections.abc import Mapping

from ottla.coordination.groups.assignors import Subscriber
from ottla.coordination.groups.records import Partitions, TopicPartition


def assign(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Partitions]:
    owned: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    for topic, count in partitions.items():
        subscribers = [member_id for member_id in order if topic in members[member_id].topics]
        if not subscribers:
            continue
        share, larger = divmod(count, len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + share + (1 if position < larger else 0)
            owned[member_id].update((topic, number) for number in range(start, end))
            start = end
    return {member_id: frozenset(mine) for member_id, mine in owned.items()}


def _rank(member_id: str, member: Subscriber) -> tuple[bool, str]:
    """Static members first, by instance: they find their ranges again under a new member id."""
    return (member.instance_id is None, member.instance_id or member_id)
