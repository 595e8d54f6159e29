"""What a client did: the operations of a history."""

from enum import StrEnum
from typing import NamedTuple

from ottla.frozen import frozen

Value = str | int


class Outcome(StrEnum):
    OK = "ok"
    FAIL = "fail"
    """It certainly has not happened and never will."""
    UNKNOWN = "unknown"


class What(StrEnum):
    SEND = "send"
    POLL = "poll"
    COMMIT = "commit"
    ABORT = "abort"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    SEEK = "seek"


class Record(NamedTuple):
    """A record that was sent (partition and offset as far as they are known), or read."""

    topic: str
    partition: int | None
    offset: int | None
    value: Value | None
    key: str | None = None


@frozen
class Op:
    """One operation of one process, from `start_ns` to `end_ns`.

    A send has its records; a poll those that it returned; assign and seek have one for each partition, with
    the position as its offset (None: wherever the broker says), and subscribe one for each topic.
    """

    what: What
    process: str
    start_ns: int
    end_ns: int
    outcome: Outcome = Outcome.OK
    records: tuple[Record, ...] = ()
    transaction: str | None = None
    committed_only: bool = True
    """A poll with isolation level read_committed."""
