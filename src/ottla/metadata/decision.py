"""What a decision comes to: records for the log, and the answer once they are in it."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.metadata.records import Record

Answer = TypeVar("Answer", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    records: tuple[Record, ...]
    answer: Answer
