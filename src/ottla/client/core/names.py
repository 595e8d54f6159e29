"""Topics by name: which names there can be, and what is said of one that cannot be used."""

import re
from collections.abc import Iterable

from ottla.errors import NAMES, InvalidTopicException, ProtocolError, UnknownTopicOrPartition, error_for

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")


def missing_topic(name: str) -> UnknownTopicOrPartition:
    """One wording, wherever a topic is missing."""
    return UnknownTopicOrPartition(f"topic {name} does not exist; check its name, or create it first")


def topic_error(name: str, code: int) -> ProtocolError:
    """What a broker answered for a topic, as a sentence."""
    if code == UnknownTopicOrPartition.code:
        return missing_topic(name)
    if code == InvalidTopicException.code:
        return InvalidTopicException(_not_a_name(name))
    return error_for(code, f"topic {name}: {NAMES.get(code)}")


def checked_topics(topics: Iterable[str] | str | None) -> frozenset[str]:
    """The names as a set; a name that no topic can have is an error, as it is most likely a pattern. A subscription to
    it would wait for ever, without a word."""
    names = frozenset([topics] if isinstance(topics, str) else topics or ())
    for name in sorted(names):
        if not _LEGAL.fullmatch(name) or name in (".", ".."):
            raise InvalidTopicException(
                f"{_not_a_name(name)}; for all topics that match, write subscribe(pattern={name!r})"
            )
    return names


def _not_a_name(name: str) -> str:
    return f"no topic can be named {name!r} (letters, digits, '.', '_', '-'; at most 249)"
