"""A decision in the making: what ends up in one `Effects`."""

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

from ottla.effects import Effects, Reply, Timer, Token, reply_to

R = TypeVar("R")

RETRY_MS = 1_000  # after the log refused what a timer wanted to write


class Decision:
    __slots__ = ("records", "replies", "retries", "timers")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.replies: list[Reply] = []
        self.timers: dict[Hashable, int | None] = {}  # the last word on a timer counts
        self.retries: list[Timer] = []

    def record(self, *records: Any) -> None:
        self.records.extend(records)

    def reply(self, token: Token[R], answer: R) -> None:
        self.replies.append(reply_to(token, answer))

    def arm(self, name: Hashable, delay_ms: int) -> None:
        self.timers[name] = delay_ms

    def disarm(self, *names: Hashable) -> None:
        for name in names:
            self.timers[name] = None

    def disarm_all(self, names: Iterable[Hashable]) -> None:
        self.disarm(*names)

    def retry(self, name: Hashable) -> None:
        """If the log refuses the records: this timer decides again, a little later."""
        self.retries.append(Timer(name, RETRY_MS))

    def effects(self) -> Effects:
        timers = tuple(Timer(name, delay) for name, delay in self.timers.items())
        return Effects(tuple(self.records), tuple(self.replies), timers, if_refused=tuple(self.retries))


def session(group_id: str, member_id: str) -> Hashable:
    return ("session", group_id, member_id)


def join(group_id: str) -> Hashable:
    return ("join", group_id)


def sync(group_id: str) -> Hashable:
    return ("sync", group_id)


def hold(group_id: str) -> Hashable:
    """Answers to SyncGroup are held back no longer."""
    return ("hold", group_id)


def revocation(group_id: str, member_id: str) -> Hashable:
    """A member of a consumer group gives up partitions in time, or is out."""
    return ("revocation", group_id, member_id)


def rejoin(group_id: str, member_id: str) -> Hashable:
    """A classic member inside a consumer group joins again (or syncs) in time, or is out."""
    return ("rejoin", group_id, member_id)


def first_assignment(group_id: str) -> Hashable:
    """A new streams group has waited for more members."""
    return ("first-assignment", group_id)


EXPIRY: Hashable = ("expiry",)
