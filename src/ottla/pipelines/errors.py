"""What stops a pipeline, each with a sentence that says what to do."""

from ottla.errors import OttlaError


class PipelineError(OttlaError):
    """A pipeline cannot go on."""


class BadTopology(PipelineError):
    """The stages do not fit together, or not with what is stored."""


class StateLost(PipelineError):
    """The state that the committed positions belong to cannot be rebuilt."""


class TakenOver(PipelineError):
    """Another driver runs this pipeline now."""


class SessionEnded(PipelineError):
    """The group has not heard of this driver for too long. Nobody has taken over: a new start may go on."""
