"""What a state machine wants to happen: it decides, a `Shard` carries it out."""

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from ottla.frozen import frozen

R = TypeVar("R")


class AnyToken:
    """A request that waits for its answer."""

    __slots__ = ()


class Token(AnyToken, Generic[R]):
    """A request that waits for an answer of the type R. A machine keeps it until it answers: `reply_to`."""

    __slots__ = ()


@frozen
class Reply:
    """The answer to the request behind `token`; made by `reply_to`, which knows the answer's type."""

    token: AnyToken
    answer: object


def reply_to(token: Token[R], answer: R) -> Reply:
    return Reply(token, answer)


@frozen
class Timer:
    """Arm the timer of this name anew (one of a name runs at a time); `delay_ms=None` disarms it."""

    name: Hashable
    delay_ms: int | None


@frozen
class Effects:
    """Records to append as one atomic batch; replies and sends that leave once they are committed;
    timers to arm.

    `sends` are messages to others (transaction markers). `producer` is (producer id, epoch) when the records
    belong to a transaction of that producer. If the log refuses the records, all of this does not happen, and the
    timers of `if_refused` are armed instead.
    """

    records: tuple[Any, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer, ...] = ()
    sends: tuple[Any, ...] = ()
    producer: tuple[int, int] | None = None
    if_refused: tuple[Timer, ...] = ()

    def __add__(self, other: "Effects") -> "Effects":
        if self.producer != other.producer and self.records and other.records:
            raise ValueError("records of two producers are two batches")
        return Effects(
            self.records + other.records,
            self.replies + other.replies,
            self.timers + other.timers,
            self.sends + other.sends,
            self.producer if self.records else other.producer,
            self.if_refused + other.if_refused,
        )


NOTHING = Effects()


def answer_to(token: Token[R], answer: R) -> Effects:
    """Nothing but the answer."""
    return Effects(replies=(reply_to(token, answer),))
