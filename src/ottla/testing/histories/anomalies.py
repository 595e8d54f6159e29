"""What may be wrong with a history, and the report of it."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from ottla.frozen import frozen

SHOWN_MAX = 10


class Kind(StrEnum):
    LOST_WRITE = "lost write"
    """Acknowledged (and committed), consumers have read past it, and none has seen it."""
    DUPLICATE = "duplicate"
    """One value is there twice."""
    ABORTED_READ = "aborted read"
    """A read_committed consumer saw what was aborted, or refused."""
    TORN_TRANSACTION = "torn transaction"
    """Some of a transaction is there, and some is not."""
    PRECOMMITTED_READ = "precommitted read"
    """A read_committed consumer saw it before anybody asked for the commit."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """Two values at one offset."""
    NONMONOTONIC_POLL = "non-monotonic poll"
    """A consumer went back, from one poll to the next."""
    INTERNAL_NONMONOTONIC_POLL = "internal non-monotonic poll"
    """It went back within a poll."""
    SKIPPED_POLL = "skipped poll"
    """A consumer passed over a record that others have seen, from one poll to the next."""
    INTERNAL_SKIPPED_POLL = "internal skipped poll"
    """It passed over one within a poll."""
    NONMONOTONIC_SEND = "non-monotonic send"
    """A producer's later record came before its earlier one."""
    INTERNAL_NONMONOTONIC_SEND = "internal non-monotonic send"
    """The same, within one transaction."""
    PHANTOM = "phantom"
    """Nobody has sent this."""
    UNSEEN = "unseen"
    """Acknowledged, and no consumer got that far although all was to be read."""


@frozen
class Anomaly:
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Report:
    """The anomalies found, and how much was looked at."""

    def __init__(self, anomalies: Iterable[Anomaly], sends: int, reads: int) -> None:
        self.anomalies = tuple(anomalies)
        self.sends = sends
        self.reads = reads

    @property
    def kinds(self) -> Counter[Kind]:
        return Counter(anomaly.kind for anomaly in self.anomalies)

    def __str__(self) -> str:
        lines = [f"{self.sends} records sent, {self.reads} read, {len(self.anomalies)} anomalies"]
        for kind, count in self.kinds.items():
            lines.append(f"{kind}: {count}")
            texts = [anomaly.text for anomaly in self.anomalies if anomaly.kind is kind]
            lines += [f"  {text}" for text in texts[:SHOWN_MAX]]
        return "\n".join(lines)

    def raise_if_any(self) -> None:
        """Also a history in which nothing was sent or read proves nothing."""
        if self.anomalies or not (self.sends and self.reads):
            raise AssertionError(str(self))
