"""A decision in the making: what ends up in one `Effects`; and the timers of groups."""

import enum
from collections.abc import Iterable
from typing import Never, TypeVar

from ottla.coordination.groups.records import GroupRecord
from ottla.effects import Effects, Reply, Timer, Token, reply_to
from ottla.frozen import frozen

R = TypeVar("R")

RETRY_MS = 1_000  # after the log refused what a timer wanted to write


class TimerKind(enum.Enum):
    SESSION = "session"  # a member's
    JOIN = "join"  # the members of a rebalance join
    SYNC = "sync"  # they ask for their assignment
    HOLD = "hold"  # answers to SyncGroup are held back no longer
    REBALANCE = "rebalance"  # at once, after a group went back to the classic protocol
    REVOCATION = "revocation"  # a member of a consumer group gives up partitions in time, or is out
    REJOIN = "rejoin"  # a classic member inside a consumer group joins again (or syncs) in time, or is out
    FIRST_ASSIGNMENT = "first assignment"  # a new streams group has waited for more members
    EXPIRY = "expiry"  # of offsets and of empty groups
    DELETED_TOPICS = "deleted topics"  # share groups forget that they have states of them


@frozen
class GroupTimer:
    """The name of a timer. The shard runs at most one of each name."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


GroupEffects = Effects[GroupRecord, GroupTimer, Never]


class Decision:
    __slots__ = ("records", "replies", "retries", "timers")

    def __init__(self) -> None:
        self.records: list[GroupRecord] = []
        self.replies: list[Reply] = []
        self.timers: dict[GroupTimer, int | None] = {}  # the last word on a timer counts
        self.retries: list[Timer[GroupTimer]] = []

    def record(self, *records: GroupRecord) -> None:
        self.records.extend(records)

    def reply(self, token: Token[R], answer: R) -> None:
        self.replies.append(reply_to(token, answer))

    def arm(self, name: GroupTimer, delay_ms: int) -> None:
        self.timers[name] = delay_ms

    def disarm(self, *names: GroupTimer) -> None:
        for name in names:
            self.timers[name] = None

    def disarm_all(self, names: Iterable[GroupTimer]) -> None:
        self.disarm(*names)

    def retry(self, name: GroupTimer) -> None:
        """If the log refuses the records: this timer decides again, a little later."""
        self.retries.append(Timer(name, RETRY_MS))

    def effects(self) -> GroupEffects:
        timers = tuple(Timer(name, delay) for name, delay in self.timers.items())
        return Effects(tuple(self.records), tuple(self.replies), timers, if_refused=tuple(self.retries))


def session(group_id: str, member_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.SESSION, group_id, member_id)


def join(group_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.JOIN, group_id)


def sync(group_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.SYNC, group_id)


def hold(group_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.HOLD, group_id)


def rebalance(group_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.REBALANCE, group_id)


def revocation(group_id: str, member_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.REVOCATION, group_id, member_id)


def rejoin(group_id: str, member_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.REJOIN, group_id, member_id)


def first_assignment(group_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.FIRST_ASSIGNMENT, group_id)


EXPIRY = GroupTimer(TimerKind.EXPIRY)
DELETED_TOPICS = GroupTimer(TimerKind.DELETED_TOPICS)
