"""Keys and values of the topic `_schemas`: Confluent's JSON, its fields in Confluent's order.

The order of a key's fields matters: the bytes of the key decide what compaction takes for the same key.
"""

import json
from dataclasses import field
from typing import Any

from ottla.frozen import frozen

NUMBER_MAX = 2**31 - 1  # of ids and versions: clients and GUIDs have four bytes for them
SCHEMA, CONFIG, MODE, NOOP = "SCHEMA", "CONFIG", "MODE", "NOOP"
DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT = "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT"
HIGHEST_ID_HEADER = "ottla.highest.id"  # {context: id}, on the record of the global CONFIG


@frozen
class Key:
    """`subject` is None for the global CONFIG and MODE; CONTEXT has its context there."""

    keytype: str
    subject: str | None = None
    version: int | None = None

    def to_bytes(self) -> bytes:
        match self.keytype:
            case "SCHEMA":
                fields: dict[str, Any] = {"subject": self.subject, "version": self.version, "magic": 1}
            case "NOOP":
                fields = {"magic": 0}
            case "CONTEXT":
                fields = {"tenant": "default", "context": self.subject, "magic": 0}
            case _:
                fields = {"subject": self.subject, "magic": 0}
        return to_json({"keytype": self.keytype, **fields}).encode()


@frozen
class Record:
    """`value` None is a tombstone. `raw_key` are the bytes under which another implementation wrote the key."""

    key: Key
    value: dict[str, Any] | None
    raw_key: bytes | None = None
    highest_ids: dict[str, int] = field(default_factory=dict)

    def key_bytes(self) -> bytes:
        return self.raw_key or self.key.to_bytes()

    def value_bytes(self) -> bytes | None:
        return None if self.value is None else to_json(self.value).encode()

    def headers(self) -> list[tuple[str, bytes]]:
        return [(HIGHEST_ID_HEADER, to_json(self.highest_ids).encode())] if self.highest_ids else []


def read(key: bytes, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> Record | None:
    """None for what is not a record of a registry: such a record is left alone. Raises ValueError, TypeError and the
    like for one whose parts cannot be read."""
    try:
        fields = json.loads(key)
        keytype = fields["keytype"]
        subject = fields.get("context") if keytype == CONTEXT else fields.get("subject")
        version = fields.get("version")
        content = None if value is None else json.loads(value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not (
        isinstance(keytype, str)
        and isinstance(subject, str | None)
        and isinstance(version, int | None)
        and isinstance(content, dict | None)
    ):
        return None
    parsed = Key(keytype, subject, version)
    raw = key if key != parsed.to_bytes() else None
    return Record(parsed, content, raw, _highest_ids(headers))


def _highest_ids(headers: list[tuple[str, bytes | None]]) -> dict[str, int]:
    for name, value in headers:
        if name == HIGHEST_ID_HEADER and value:
            return {context: number_in(highest, 0) for context, highest in json.loads(value).items()}
    return {}


def number_in(value: Any, lowest: int) -> int:
    """The id or version. Raises ValueError, TypeError or (JSON's parser reads 1e999 as infinity) OverflowError."""
    number = int(value)
    if not lowest <= number <= NUMBER_MAX:
        raise ValueError(f"{value} is not between {lowest} and {NUMBER_MAX}")
    return number


def to_json(value: Any) -> str:
    """Compact and in UTF-8, as Jackson writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
