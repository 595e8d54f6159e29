"""The future of one record, for callers that wait on a thread of their own."""

import threading
from collections.abc import Callable

from ottla.client.core.deliveries import Batch
from ottla.client.errors import TimedOut
from ottla.client.values import RecordMetadata
from ottla.wire import kernel


def wait(batch: Batch, timeout: float | None) -> bool:
    """Whether the batch is settled, waiting for it up to `timeout` seconds."""
    if batch.settled:
        return True
    event = threading.Event()
    batch.wake_when_settled(event.set)
    return event.wait(timeout)


class Delivery(kernel.Receipt[Batch]):
    """The future of one record."""

    __slots__ = ()

    def done(self) -> bool:
        return self.batch.settled

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is, or the error that kept it from getting there."""
        if not self._wait(timeout):
            raise TimedOut(f"the record was not acknowledged within {timeout} s")
        error = self.batch.error_of(self.index)
        if error is not None:
            raise error
        return self.batch.metadata(self.index)

    def exception(self, timeout: float | None = None) -> Exception | None:
        if not self._wait(timeout):
            raise TimedOut(f"the record was not acknowledged within {timeout} s")
        return self.batch.error_of(self.index)

    def add_done_callback(self, callback: Callable[..., object]) -> None:
        """`callback(metadata, error)`, on the producer's thread for callbacks, in order; it may send."""
        self.batch.on_settled(self.index, callback)

    def _wait(self, timeout: float | None) -> bool:
        return wait(self.batch, timeout)
