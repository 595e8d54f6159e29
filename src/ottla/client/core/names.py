"""Which names a topic can have. A subscription to any other would wait for ever, without a word."""

import re
from collections.abc import Iterable

from ottla.errors import InvalidTopicException, UnknownTopicOrPartition

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")


def missing_topic(name: str) -> UnknownTopicOrPartition:
    """One wording, wherever a topic is missing."""
    return UnknownTopicOrPartition(f"topic {name} does not exist; check its name, or create it first")


def checked_topics(topics: Iterable[str] | str | None) -> frozenset[str]:
    """The names as a set; a name that no topic can have is an error, as it is most likely a pattern."""
    names = frozenset([topics] if isinstance(topics, str) else topics or ())
    for name in sorted(names):
        if not _LEGAL.fullmatch(name) or name in (".", ".."):
            raise InvalidTopicException(
                f"no topic can be named {name!r} (letters, digits, '.', '_', '-'; at most 249); "
                f"for all topics that match, write subscribe(pattern={name!r})"
            )
    return names
