"""What a request wants to do to which subject, and whether a user of the cluster may.

Rights are those of topics: a user that may write to `orders` may register schemas of `orders-value` and `orders-key`.
Rights to the registry's own topic count for all subjects.
"""

import threading
from collections.abc import Callable, Iterable
from urllib.parse import unquote

from ottla.frozen import frozen
from ottla.registry.subjects import context_of
from ottla.security.acls import Operation

READ, CHANGE = "read", "change"
_READING = ("GET", "HEAD", "OPTIONS")
_TOPICS_MAX = 1_000
_SUFFIXES = ("-key", "-value")


@frozen
class Wish:
    """`subject` is None where the request is about one schema, by its id or GUID, or about everything."""

    operation: Operation
    subject: str | None = None
    schema: str | None = None

    @property
    def needs(self) -> str:
        return READ if self.operation is Operation.DESCRIBE else CHANGE


READING = Wish(Operation.DESCRIBE)


def wish_of(method: str, path: str) -> Wish:
    """`path` as it came, still encoded."""
    segments = [unquote(segment) for segment in path.split("/") if segment]
    if segments[:1] == ["contexts"] and len(segments) > 2:
        segments = segments[2:]
    root, rest = (segments[0], segments[1:]) if segments else ("", [])
    if root == "compatibility":
        return Wish(Operation.DESCRIBE, rest[1] if len(rest) > 1 else None)
    if root == "schemas" and rest[:1] in (["ids"], ["guids"]) and len(rest) > 1:
        return Wish(Operation.DESCRIBE, None, rest[1])
    subject = rest[0] if rest and root in ("subjects", "config", "mode") else None
    return Wish(_operation(method, root, rest), subject)


def _operation(method: str, root: str, rest: list[str]) -> Operation:
    if method in _READING or (method == "POST" and root == "subjects" and len(rest) < 2):
        return Operation.DESCRIBE  # a POST may look a schema up
    if root == "subjects":
        return Operation.DELETE if method == "DELETE" else Operation.WRITE
    return Operation.ALTER_CONFIGS


def topic_of(subject: str) -> str:
    """The topic whose keys or values the subject describes; any other name is taken for that of a topic."""
    context = context_of(subject)
    name = subject.removeprefix(f":{context}:")
    suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)


class Rights:
    """Of one user: `everything` to all subjects, and what `ask` says of single topics, which may block."""

    def __init__(
        self, everything: str | None, ask: Callable[[str], frozenset[Operation]] | None = None
    ) -> None:
        self._everything, self._ask = everything, ask
        self._known: dict[str, frozenset[Operation]] = {}
        self._lock = threading.Lock()

    def allow_all(self, wish: Wish) -> bool:
        """Without a look at single topics."""
        return self._everything == CHANGE or self._everything == wish.needs

    def allow(self, wish: Wish, subjects: Iterable[str]) -> bool:
        """`subjects` are those that the wish is about; one that is allowed is enough. Blocks."""
        return self.allow_all(wish) or any(
            wish.operation in self._of_topic(topic) for topic in dict.fromkeys(map(topic_of, subjects))
        )

    def refused(self, wish: Wish, subjects: Iterable[str]) -> str | None:
        """A subject that the wish is not allowed for, where it has to be for all. Blocks."""
        return next((subject for subject in sorted(subjects) if not self.allow(wish, [subject])), None)

    def _of_topic(self, topic: str) -> frozenset[Operation]:
        if self._ask is None:
            return frozenset()
        with self._lock:
            known = self._known.get(topic)
        if known is None:
            known = self._ask(topic)
            with self._lock:
                if len(self._known) >= _TOPICS_MAX:
                    self._known.clear()
                self._known[topic] = known
        return known
