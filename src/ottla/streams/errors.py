"""What is wrong with a topology or a record, each with a sentence that says what to do."""

from ottla.errors import OttlaError


class BadTopology(OttlaError):
    """The program does not hold together; told before anything runs."""


class BadValue(OttlaError):
    """A key or value does not fit its serde."""
