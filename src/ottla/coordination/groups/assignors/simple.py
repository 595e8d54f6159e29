"""`simple`, for share groups: several members may have one partition, and every partition has as many as the others.

Members that want the same topics share all partitions as one pool; otherwise each topic is a pool of its own. Who had
a partition keeps it as far as that is even. The steps and their order are Kafka's, so that the same group gets
the same partitions from both.
"""

from collections.abc import Iterable, Mapping
from math import ceil

from ottla.coordination.groups.assignors import Subscriber
from ottla.coordination.groups.records import Partitions, TopicPartition


def assign(members: Mapping[str, Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Partitions]:
    assigned: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    wanted = {member.topics.intersection(partitions) for member in members.values()}
    every = sorted(frozenset[bytes]().union(*wanted))
    for topics in [every] if len(wanted) == 1 else [[topic] for topic in every]:
        sharers = [member_id for member_id in sorted(members) if members[member_id].topics.issuperset(topics)]
        pool = _Pool(
            {member_id: members[member_id].target for member_id in sharers},
            [(topic, number) for topic in topics for number in range(partitions[topic])],
        )
        for member_id, mine in pool.shared().items():
            assigned[member_id] |= mine
    return {member_id: frozenset(mine) for member_id, mine in assigned.items()}


class _Pool:
    def __init__(self, targets: Mapping[str, Partitions], partitions: list[TopicPartition]) -> None:
        self._held = {
            member_id: [partition for partition in partitions if partition in target]
            for member_id, target in targets.items()
        }
        self._holders = {
            partition: [member_id for member_id, target in targets.items() if partition in target]
            for partition in partitions
        }
        self._sharing = -(-len(targets) // len(partitions)) if partitions else 0
        self._quotas = dict(zip(targets, _quotas(self._sharing * len(partitions), len(targets)), strict=True))

    def shared(self) -> dict[str, set[TopicPartition]]:
        for member_id, held in self._held.items():
            for partition in held[: max(0, len(held) - self._quotas[member_id])]:
                self._take(partition, member_id)
        for partition, holders in self._holders.items():
            for member_id in holders[: max(0, len(holders) - self._sharing)]:
                self._take(partition, member_id)
        self._hand_out()
        return {member_id: set(held) for member_id, held in self._held.items()}

    def _take(self, partition: TopicPartition, member_id: str) -> None:
        self._held[member_id].remove(partition)
        self._holders[partition].remove(member_id)

    def _hand_out(self) -> None:
        """Members below their quota take turns; a partition that all of them have already has fewer than the others."""
        unfilled = [needy_id for needy_id, held in self._held.items() if len(held) < self._quotas[needy_id]]
        turn = 0
        for partition, holders in self._holders.items():
            passed_over = 0
            while unfilled and len(holders) < self._sharing and passed_over < len(unfilled):
                turn %= len(unfilled)
                member_id = unfilled[turn]
                if member_id in holders:
                    turn, passed_over = turn + 1, passed_over + 1
                    continue
                holders.append(member_id)
                self._held[member_id].append(partition)
                passed_over = 0
                if len(self._held[member_id]) < self._quotas[member_id]:
                    turn += 1
                else:
                    del unfilled[turn]


def _quotas(total: int, members: int) -> Iterable[int]:
    """In floating point: where that rounds, it rounds as Kafka's."""
    per_member = total / members if members else 0.0
    return [ceil(per_member * (index + 1)) - ceil(per_member * index) for index in range(members)]
