"""What can go wrong on the client's side of the wire. Each text says what to do about it."""

from ottla.client.values import TopicPartition
from ottla.errors import NetworkException, OffsetOutOfRange, OttlaError


class ClientError(OttlaError):
    """Raised by the client itself, not answered by a broker."""


class SettingError(ClientError):
    """A setting has an unknown name or a value that cannot be."""


class ConnectionLost(NetworkException):
    """The connection ended before the answer came. Whether the request was carried out is unknown."""


class WrongProtocol(ConnectionLost):
    """Somebody listens at the port, but not for what this client speaks. The text says what to set."""


class UntrustedBroker(ClientError):
    """A broker's certificate was refused. Trying again would find the same certificate."""


class BrokersUnreachable(NetworkException):
    """No broker could be reached."""


class TimedOut(ClientError):
    """The answer did not come in time."""


class BufferFull(ClientError):
    """`buffer.memory` stayed full for `max.block.ms`: the brokers are slower than the producer, or away."""


class NotSupported(ClientError):
    """The broker does not know the API, or not the version this needs."""


class IllegalState(ClientError):
    """The call does not fit what was called before it."""


class NoOffset(ClientError):
    """A partition has no position, and `auto.offset.reset` is `none`."""


class OutOfRange(OffsetOutOfRange):
    """A partition has no such offset, or not any more, and `auto.offset.reset` is `none`."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(f"{partition}: offset {offset} is out of range and auto.offset.reset is none")
        self.partition = partition
        self.offset = offset


class LogTruncated(ClientError):
    """Records that were read are gone: an unclean election cut the log below the position."""


class PollTooLate(ClientError):
    """`poll` was not called for `max.poll.interval.ms`, so this member has left its group."""


class AmbiguousTimeout(ClientError, ValueError):
    """A bare number that is seconds to some and milliseconds to others."""


class WakeUp(ClientError):
    """`wakeup` was called from another thread: the consumer's `poll` ends here."""
