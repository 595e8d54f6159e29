"""What can go wrong between Spark and a topic. Each text says what to do about it."""

from ottla.client.exactly_once import MarkerError as MarkerError
from ottla.errors import OttlaError


class SparkError(OttlaError):
    """Raised by the connector itself."""


class OptionError(SparkError):
    """An option has an unknown name or a value that cannot be."""


class ContinuousTrigger(SparkError):
    """A query with `trigger(continuous=...)`, of which Spark hands no row to a sink in Python."""


class SchemaError(SparkError):
    """The columns are not those of a record."""


class BadValue(SparkError):
    """A record's value is not what `valueSchema` says."""


class OtherQuery(MarkerError):
    """The marker is of another query."""


class MarkerMissing(MarkerError):
    """No marker where one must be: it has expired, or the query has not written exactly once before."""


class TasksChanged(MarkerError):
    """The micro-batch was committed in part, by another number of tasks."""


class CheckpointBehind(MarkerError):
    """The topic holds later micro-batches than the checkpoint knows, or earlier ones are missing."""


class TransactionTimedOut(SparkError):
    """The micro-batch took longer than its transactions may last."""
