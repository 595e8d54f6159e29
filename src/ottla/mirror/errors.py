"""What stops a mirror, each with a sentence that says what to do."""

from ottla.errors import OttlaError


class MirrorError(OttlaError):
    """A mirror cannot go on."""


class BadLink(MirrorError):
    """The settings of a link contradict each other or promise what is not kept."""


class PositionLost(MirrorError):
    """The target has records, but up to which offset the source was copied is unknown."""


class SourceChanged(MirrorError):
    """The source topic is not the one that was copied: re-created, cut, or expired before it was copied."""


class TakenOver(MirrorError):
    """Another driver runs this mirror now."""


class SessionEnded(MirrorError):
    """The mirror's group has forgotten it, and nobody else is in charge: it joins again."""


class TargetMoved(MirrorError):
    """The target's log ends before what it had acknowledged; the next step begins at its end."""


# What no new start can mend.
FINAL = (BadLink, PositionLost, SourceChanged, TakenOver)
