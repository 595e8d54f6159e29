"""What a state machine wants to happen: it decides, a `Shard` carries it out."""

from collections.abc import Hashable
from typing import Any

from ottla.frozen import frozen


@frozen
class Reply:
    """The answer to the request behind `token`: a value, or an exception to answer with."""

    token: Hashable
    answer: Any


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
    belong to a transaction of that producer.
    """

    records: tuple[Any, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer, ...] = ()
    sends: tuple[Any, ...] = ()
    producer: tuple[int, int] | None = None

    def __add__(self, other: "Effects") -> "Effects":
        if self.producer != other.producer and self.records and other.records:
            raise ValueError("records of two producers are two batches")
        return Effects(
            self.records + other.records,
            self.replies + other.replies,
            self.timers + other.timers,
            self.sends + other.sends,
            self.producer if self.records else other.producer,
        )


NOTHING = Effects()
