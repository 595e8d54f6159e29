"""What a request holds in memory while it waits, and who keeps count of it."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ottla.wire.schema import Message

ELEMENT_BYTES = 128  # about what an array element takes as an object
LARGE_BYTES = 64 << 10  # requests that take less may always wait: each connection has but a few
PRODUCE = 0


class Memory(Protocol):
    """Over all connections of a broker."""

    def takes(self, size: int) -> bool:
        """Whether a request of this size may wait for something."""
        ...

    def park(self, size: int) -> Callable[[], None]:
        """It waits now; the function is to be called when it is answered or given up."""
        ...

    def answer_bytes_max(self) -> int:
        """How many bytes of records an answer may have."""
        ...


class Plenty:
    """For simulations, and for brokers that ask themselves."""

    def takes(self, size: int) -> bool:
        return True

    def park(self, size: int) -> Callable[[], None]:
        return _nothing

    def answer_bytes_max(self) -> int:
        return 1 << 62


PLENTY = Plenty()


def parsed_bytes(request: Message, message_bytes: int, elements: int) -> int:
    """An estimate of what a request takes as objects, without the records, which are views of its frame."""
    size = message_bytes + elements * ELEMENT_BYTES
    return (
        size if size <= LARGE_BYTES else size - sum(len(data.records or b"") for data in _produced(request))
    )


def forget_records(request: Message) -> None:
    """They are appended: without them nothing refers to the frame."""
    for data in _produced(request):
        data.records = None


def _produced(request: Message) -> Iterator[Any]:
    if request.API_KEY == PRODUCE:
        for topic in request.topic_data:  # type: ignore[attr-defined]
            yield from topic.partition_data


def _nothing() -> None:
    pass
