"""Cooperative rebalances of classic groups: which members are about to join again, and which answers wait for them.

A member that loses partitions in a cooperative rebalance gives them up and joins again at once, for a second rebalance
that hands them out. The others would learn of it from a heartbeat, three seconds later by default. So their answers
to SyncGroup are held back for a moment: if the second rebalance begins meanwhile they are told
REBALANCE_IN_PROGRESS, as if their SyncGroup had come a little later, and join it at once. They keep reading what they
own all the while.
"""

from collections.abc import Mapping

from ottla.coordination.groups.classic_group import ClassicGroup, ClassicMember
from ottla.coordination.groups.subscription import parse_assignment, parse_subscription
from ottla.errors import InvalidRequest

HOLD_MS_MAX = 1_500  # librdkafka joins once a second at most
SUBSCRIPTION_BYTES_MAX = 64 << 10  # of all members: reading more would take long, for a gain of seconds


def members_giving_up(group: ClassicGroup, assignments: Mapping[str, bytes]) -> set[str]:
    """Those that own partitions which they are not assigned. Members of an eager protocol own none when they join."""
    if not group.is_consumer:
        return set()
    subscriptions = {member.member_id: member.metadata(group.protocol) for member in group.members.values()}
    if sum(map(len, subscriptions.values())) > SUBSCRIPTION_BYTES_MAX:
        return set()
    return {
        member_id
        for member_id, subscription in subscriptions.items()
        if _gives_up(subscription, assignments.get(member_id, b""))
    }


def _gives_up(subscription: bytes, assignment: bytes) -> bool:
    try:
        owned = parse_subscription(subscription).owned_partitions
        if not owned:
            return False
        assigned = parse_assignment(assignment)
    except InvalidRequest:
        return False  # bytes of some other kind: nobody waits for it
    return any(not set(topic.partitions) <= set(assigned.get(topic.topic, ())) for topic in owned)


def is_held(group: ClassicGroup, member: ClassicMember) -> bool:
    """Whether a member's answer to SyncGroup waits for the members that give up partitions."""
    return bool(group.giving_up) and member.member_id not in group.giving_up


def hold_ms(group: ClassicGroup) -> int:
    """Well below every session, which does not run out meanwhile."""
    sessions_ms = (member.session_timeout_ms for member in group.members.values())
    return min(HOLD_MS_MAX, min(sessions_ms, default=0) // 4)
