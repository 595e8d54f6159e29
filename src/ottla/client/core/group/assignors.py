"""How a classic group's leader shares out partitions: as Java's assignors of the same names. No I/O."""

from collections.abc import Callable, Mapping

from ottla.client.core.subscriptions import Subscription
from ottla.client.errors import SettingError
from ottla.client.values import TopicPartition

Assignment = dict[str, list[TopicPartition]]
Assignor = Callable[[Mapping[str, Subscription], Mapping[str, int]], Assignment]


def range_(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> Assignment:
    """Topic by topic, each member a run of neighbours; the first members get one more."""
    assignment: Assignment = {member: [] for member in members}
    for topic in sorted({topic for subscription in members.values() for topic in subscription.topics}):
        interested = sorted(
            member for member, subscription in members.items() if topic in subscription.topics
        )
        share, more = divmod(partitions.get(topic, 0), len(interested))
        start = 0
        for i, member in enumerate(interested):
            end = start + share + (i < more)
            assignment[member] += [TopicPartition(topic, p) for p in range(start, end)]
            start = end
    return assignment


def round_robin(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> Assignment:
    """All partitions in order, dealt out one at a time to those who want their topic."""
    assignment: Assignment = {member: [] for member in members}
    order = sorted(members)
    turn = 0
    for partition in _all(members, partitions):
        for _ in order:
            member = order[turn % len(order)]
            turn += 1
            if partition.topic in members[member].topics:
                assignment[member].append(partition)
                break
    return assignment


def sticky(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> Assignment:
    """Balanced first; then everybody keeps what they own, as far as balance allows."""
    there = set(_all(members, partitions))
    assignment = _kept(members, there)
    taken = {partition for owned in assignment.values() for partition in owned}
    for partition in sorted(there - taken):
        wanting = [
            member for member, subscription in members.items() if partition.topic in subscription.topics
        ]
        least = min(wanting, key=lambda member: (len(assignment[member]), member))
        assignment[least].append(partition)
    while _move_one(members, assignment):
        pass
    return assignment


def cooperative_sticky(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> Assignment:
    """As sticky, but what somebody else still owns is given out only after they have let it go."""
    assignment = sticky(members, partitions)
    kept = _kept(members, set(_all(members, partitions)))
    owner = {partition: member for member, owned in kept.items() for partition in owned}
    return {
        member: [p for p in assigned if owner.get(p, member) == member]
        for member, assigned in assignment.items()
    }


ASSIGNORS: dict[str, Assignor] = {
    "range": range_,
    "roundrobin": round_robin,
    "sticky": sticky,
    "cooperative-sticky": cooperative_sticky,
}
_JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def names_of(setting: str) -> list[str]:
    """`partition.assignment.strategy`: our names, or Java's class names."""
    names = [name.strip() for name in setting.split(",") if name.strip()]
    names = [_JAVA_NAMES.get(name.rsplit(".", 1)[-1], name) for name in names]
    for name in names:
        if name not in ASSIGNORS:
            raise SettingError(f"unknown assignor {name}; there are {', '.join(ASSIGNORS)}")
    return names


def _all(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> list[TopicPartition]:
    topics = sorted({topic for subscription in members.values() for topic in subscription.topics})
    return [TopicPartition(topic, p) for topic in topics for p in range(partitions.get(topic, 0))]


def _kept(members: Mapping[str, Subscription], there: set[TopicPartition]) -> Assignment:
    """What each member owns by the newest generation that claims it."""
    owner: dict[TopicPartition, tuple[int, str]] = {}
    for member, subscription in sorted(members.items()):
        for partition in subscription.owned:
            if partition not in there or partition.topic not in subscription.topics:
                continue
            if partition not in owner or subscription.generation > owner[partition][0]:
                owner[partition] = (subscription.generation, member)
    kept: Assignment = {member: [] for member in members}
    for partition, (_, member) in sorted(owner.items()):
        kept[member].append(partition)
    return kept


def _move_one(members: Mapping[str, Subscription], assignment: Assignment) -> bool:
    """Takes one partition from a member with two or more above another that wants it."""
    for rich in sorted(assignment, key=lambda m: (-len(assignment[m]), m)):
        for poor in sorted(assignment, key=lambda m: (len(assignment[m]), m)):
            if len(assignment[rich]) - len(assignment[poor]) < 2:
                break
            movable = [p for p in assignment[rich] if p.topic in members[poor].topics]
            if movable:
                assignment[rich].remove(movable[-1])
                assignment[poor].append(movable[-1])
                return True
    return False
