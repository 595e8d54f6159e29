"""Dead letters of all who write them: share groups (KIP-1191), connectors, and streams (KIP-1034).

Each says in headers where a record came from and why it was given up; only the names of the headers differ.
"""

from collections.abc import Mapping

from ottla.client.values import ConsumerRecord
from ottla.frozen import frozen

SHARE, CONNECT, STREAMS = "__dlq.errors.", "__connect.errors.", "__streams.errors."
_PREFIXES = (SHARE, CONNECT, STREAMS)


@frozen
class Origin:
    """Where a dead letter came from."""

    topic: str
    partition: int
    offset: int
    by: str  # the share group or the connector that gave it up
    delivery_count: int | None
    reason: str


def origin_of(record: ConsumerRecord) -> Origin | None:
    """None: the record is no dead letter."""
    for prefix in _PREFIXES:
        headers = {
            name.removeprefix(prefix): (value or b"").decode("utf-8", "replace")
            for name, value in record.headers
            if name.startswith(prefix)
        }
        if headers:
            return _origin(headers)
    return None


def _origin(headers: Mapping[str, str]) -> Origin:
    reason = headers.get("message") or headers.get("exception.message") or headers.get("exception") or ""
    count = headers.get("delivery.count", "")
    return Origin(
        headers.get("topic", ""),
        _number(headers.get("partition", "")),
        _number(headers.get("offset", "")),
        headers.get("group") or headers.get("connector.name") or "",
        int(count) if count.isdecimal() else None,
        reason,
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1


def own_headers(record: ConsumerRecord) -> list[tuple[str, bytes | None]]:
    """Without those that make it a dead letter."""
    return [(name, value) for name, value in record.headers if not name.startswith(_PREFIXES)]


def has_copy(record: ConsumerRecord) -> bool:
    """Whether it holds the record itself, or only says where that is."""
    return record.key is not None or record.value is not None or bool(own_headers(record))
