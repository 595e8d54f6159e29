"""What goes wrong in connectors, each error with a sentence that says what to do."""

from ottla.errors import OttlaError


class ConnectError(OttlaError):
    """A connector cannot go on. It is started again after a pause."""


class ConfigError(ConnectError):
    """A setting is missing, wrong or not known. No new start can mend it."""


class DataError(ConnectError):
    """A record cannot be converted, transformed or written. `errors.tolerance=all` passes over it."""


class RetriableError(ConnectError):
    """The other side is away for now: the same call may work later (`errors.retry.timeout`)."""


class TimeOutOfRange(DataError):
    """Java's dates reach further than Python's."""
