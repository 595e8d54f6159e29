"""`uniform`: as even as subscriptions allow, and sticky: what need not move does not."""

from collections.abc import Mapping

from ottla.coordination.groups.assignors import Subscriber
from ottla.coordination.groups.records import Partitions, TopicPartition


def assign(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Partitions]:
    """`partitions` is the count of each topic. Every partition with a subscriber gets one owner."""
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) <= 1:
        return _homogeneous(members, partitions)
    return _heterogeneous(members, partitions)


def _homogeneous(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Partitions]:
    if not members:
        return {}
    topics = next(iter(members.values())).topics
    every = {(topic, partition) for topic in topics for partition in range(partitions.get(topic, 0))}
    quota, larger = divmod(len(every), len(members))
    kept: dict[str, set[TopicPartition]] = {}
    taken: set[TopicPartition] = set()
    # Who has most comes first, so that the larger shares stay where they are.
    for member_id in sorted(
        members, key=lambda member_id: (-len(members[member_id].target & every), member_id)
    ):
        valid = sorted((members[member_id].target & every) - taken)
        share = quota + (1 if larger > 0 and len(valid) > quota else 0)
        larger -= share - quota
        kept[member_id] = set(valid[:share])
        taken |= kept[member_id]
    free = iter(sorted(every - taken))
    for member_id in sorted(members):
        mine = kept[member_id]
        share = quota
        if len(mine) > quota:
            share = len(mine)
        elif larger > 0:
            larger -= 1
            share = quota + 1
        while len(mine) < share:
            mine.add(next(free))
    return {member_id: frozenset(kept[member_id]) for member_id in members}


def _heterogeneous(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]
) -> dict[str, Partitions]:
    subscribers: dict[bytes, list[str]] = {}
    for member_id in sorted(members):
        for topic in members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    owned = _kept(members, partitions)
    taken = {partition for mine in owned.values() for partition in mine}
    # Topics with few subscribers first: they have the least choice.
    order = sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic))
    for topic in order:
        for number in range(partitions.get(topic, 0)):
            if (topic, number) not in taken:
                least = min(subscribers[topic], key=lambda member_id: (len(owned[member_id]), member_id))
                owned[least].add((topic, number))
    _balance(owned, subscribers, order)
    return {member_id: frozenset(mine) for member_id, mine in owned.items()}


def _kept(
    members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]
) -> dict[str, set[TopicPartition]]:
    taken: set[TopicPartition] = set()
    owned: dict[str, set[TopicPartition]] = {}
    for member_id in sorted(members):
        member = members[member_id]
        valid = {
            (topic, number)
            for topic, number in member.target
            if topic in member.topics and number < partitions.get(topic, 0)
        }
        owned[member_id] = valid - taken
        taken |= owned[member_id]
    return owned


def _balance(
    owned: dict[str, set[TopicPartition]], subscribers: Mapping[bytes, list[str]], order: list[bytes]
) -> None:
    """Moves partitions from full to empty members while a move makes things more even. Each move lowers
    the sum of squares of the shares, so this ends."""
    moved = True
    while moved:
        moved = False
        for topic in order:
            while (move := _best_move(owned, subscribers[topic], topic)) is not None:
                giver, taker, partition = move
                owned[giver].discard(partition)
                owned[taker].add(partition)
                moved = True


def _best_move(
    owned: dict[str, set[TopicPartition]], candidates: list[str], topic: bytes
) -> tuple[str, str, TopicPartition] | None:
    taker = min(candidates, key=lambda member_id: (len(owned[member_id]), member_id))
    for giver in sorted(candidates, key=lambda member_id: (-len(owned[member_id]), member_id)):
        if len(owned[giver]) - len(owned[taker]) < 2:
            return None
        mine = [partition for partition in owned[giver] if partition[0] == topic]
        if mine:
            return giver, taker, max(mine)
    return None
