"""What is wrong with bytes that claim to be a record batch, said by both kernels."""

from ottla import errors


class CorruptBatch(errors.CorruptMessage):
    """The batch is not whole, not plausible, or its CRC does not match."""


class WrongMagic(CorruptBatch):
    """Not a batch of magic 2: corruption to recovery, but a producer is answered INVALID_RECORD, as by Kafka."""

    code = errors.InvalidRecord.code
    retriable = False


class BadRecord(errors.InvalidRecord):
    """A record inside a batch breaks the format. `index` -1: the records as a whole."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(
            f"Record {index} of the batch: {reason}" if index >= 0 else f"Records of the batch: {reason}"
        )
        self.index = index
        self.reason = reason

    def __reduce__(self) -> tuple[type["BadRecord"], tuple[int, str]]:
        return type(self), (self.index, self.reason)
