"""What a decision comes to: records for the log, and the answer once they are in it."""

from typing import Generic, TypeVar

from ottla.frozen import frozen
from ottla.metadata.records import Record

Answer = TypeVar("Answer", covariant=True)


@frozen
class Decision(Generic[Answer]):
    records: tuple[Record, ...]
    answer: Answer
