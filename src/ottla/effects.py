"""What a state machine wants to happen: it decides, a `Shard` carries it out."""

from collections.abc import Hashable
from typing import Generic, Never, TypeVar

from ottla.frozen import frozen

R = TypeVar("R")
# What a machine writes to its log, what its timers are called, and what it sends to others.
Entry_co = TypeVar("Entry_co", covariant=True)
TimerName_co = TypeVar("TimerName_co", bound=Hashable, covariant=True)
Message_co = TypeVar("Message_co", covariant=True)
Entry = TypeVar("Entry")
TimerName = TypeVar("TimerName", bound=Hashable)
Message = TypeVar("Message")


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
class Timer(Generic[TimerName_co]):
    """Arms or restarts the timer of this name; `delay_ms=None` disarms it."""

    name: TimerName_co
    delay_ms: int | None


@frozen
class Effects(Generic[Entry_co, TimerName_co, Message_co]):
    """Records to append as one atomic batch; replies and sends that leave once they are committed;
    timers to arm.

    `sends` are messages to others (transaction markers). `producer` is (producer id, epoch) when the records
    belong to a transaction of that producer. If the log refuses the records, all of this does not happen: the request
    and those behind `replies` are answered with an error, and the timers of `if_refused` are armed instead. Each
    machine has an alias with its own types: `GroupEffects`, say.
    """

    records: tuple[Entry_co, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer[TimerName_co], ...] = ()
    sends: tuple[Message_co, ...] = ()
    producer: tuple[int, int] | None = None
    if_refused: tuple[Timer[TimerName_co], ...] = ()

    def __add__(
        self, other: "Effects[Entry, TimerName, Message]"
    ) -> "Effects[Entry_co | Entry, TimerName_co | TimerName, Message_co | Message]":
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


OnlyAnswers = Effects[Never, Never, Never]  # of whatever machine
NOTHING: OnlyAnswers = Effects()


def answer_to(token: Token[R], answer: R) -> OnlyAnswers:
    """Nothing but the answer."""
    return Effects(replies=(reply_to(token, answer),))
