"""Debezium's envelope: the schemas and records of change events, whatever database they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any

from ottla.connect.schema import INT64, STRING, Schema, array, string, struct
from ottla.connect.spi import Header, SourceRecord

CREATED, UPDATED, DELETED, READ, TRUNCATED = "c", "u", "d", "r", "t"
_SNAPSHOT_WORDS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
SNAPSHOT = Schema(
    STRING,
    optional=True,
    name="io.debezium.data.Enum",
    version=1,
    parameters={"allowed": _SNAPSHOT_WORDS},
    default="false",
    has_default=True,
)
_LONG, _OPTIONAL_LONG = Schema(INT64), Schema(INT64, optional=True)
_BLOCK = struct(
    "event.block",
    {"id": string(), "total_order": _LONG, "data_collection_order": _LONG},
    optional=True,
    version=1,
)
_COLLECTION = struct(
    "event.collection", {"data_collection": string(), "event_count": _LONG}, optional=True, version=1
)
_TRANSACTION_KEY = struct("io.debezium.connector.common.TransactionMetadataKey", {"id": string()}, version=1)
_TRANSACTION_VALUE = struct(
    "io.debezium.connector.common.TransactionMetadataValue",
    {
        "status": string(),
        "id": string(),
        "event_count": _OPTIONAL_LONG,
        "data_collections": array(_COLLECTION, optional=True),
        "ts_ms": _LONG,
    },
    version=1,
)
_HEARTBEAT_KEY = struct("io.debezium.connector.common.ServerNameKey", {"serverName": string()}, version=1)
_HEARTBEAT_VALUE = struct("io.debezium.connector.common.Heartbeat", {"ts_ms": _LONG}, version=1)
_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9._-]")


def check_skipped(operations: Iterable[str]) -> dict[str, str]:
    """What is wrong with `skipped.operations`, by the setting's name."""
    unknown = set(operations) - {CREATED, UPDATED, DELETED, TRUNCATED, "none"}
    if not unknown:
        return {}
    return {
        "skipped.operations": f"skipped.operations knows c, u, d, t and none, not {', '.join(sorted(unknown))}"
    }


def source_schema(name: str, more: Mapping[str, Schema]) -> Schema:
    """The block `source`: what every connector has, then its own fields."""
    common = {
        "version": string(),
        "connector": string(),
        "name": string(),
        "ts_ms": _LONG,
        "snapshot": SNAPSHOT,
        "db": string(),
        "sequence": string(optional=True),
        "ts_us": _OPTIONAL_LONG,
        "ts_ns": _OPTIONAL_LONG,
    }
    return struct(name, {**common, **more}, version=1)


def envelope_schema(topic: str, row: Schema, source: Schema) -> Schema:
    fields = {
        "before": row,
        "after": row,
        "source": source,
        "transaction": _BLOCK,
        "op": string(),
        "ts_ms": _OPTIONAL_LONG,
        "ts_us": _OPTIONAL_LONG,
        "ts_ns": _OPTIONAL_LONG,
    }
    return struct(f"{topic}.Envelope", fields, version=2)


def topic_name(prefix: str, table: str) -> str:
    """PREFIX.TABLE; what Kafka does not allow in a topic's name becomes an underscore."""
    return _NOT_IN_TOPICS.sub("_", f"{prefix}.{table}")


@dataclass(frozen=True, slots=True)
class Events:
    """Makes the events of one table: `topic`, and the schemas of key, row and envelope."""

    topic: str
    key: Schema
    row: Schema
    envelope: Schema

    def change(
        self,
        op: str,
        key: dict[str, Any] | None,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        source: dict[str, Any],
        transaction: dict[str, Any] | None = None,
        headers: tuple[Header, ...] = (),
    ) -> SourceRecord:
        now = time_ns()
        value = {
            "before": before,
            "after": after,
            "source": source,
            "transaction": transaction,
            "op": op,
            "ts_ms": now // 1_000_000,
            "ts_us": now // 1000,
            "ts_ns": now,
        }
        key_schema = None if key is None else self.key
        return SourceRecord(self.topic, value, self.envelope, key, key_schema, headers)

    def tombstone(self, key: dict[str, Any], headers: tuple[Header, ...] = ()) -> SourceRecord:
        return SourceRecord(self.topic, None, None, key, self.key, headers)

    def moved(self, name: str, key: dict[str, Any]) -> tuple[Header, ...]:
        """The header of the two events for a row whose key has changed: `oldkey` or `newkey`."""
        return (Header(f"__debezium.{name}", key, self.key),)


def transaction_event(
    prefix: str, status: str, identity: str, time_ms: int, counts: Mapping[str, int] | None
) -> SourceRecord:
    value = {
        "status": status,
        "id": identity,
        "event_count": None if counts is None else sum(counts.values()),
        "data_collections": None
        if counts is None
        else [{"data_collection": name, "event_count": count} for name, count in counts.items()],
        "ts_ms": time_ms,
    }
    return SourceRecord(
        f"{prefix}.transaction", value, _TRANSACTION_VALUE, {"id": identity}, _TRANSACTION_KEY
    )


def heartbeat(topics_prefix: str, prefix: str) -> SourceRecord:
    value = {"ts_ms": time_ns() // 1_000_000}
    return SourceRecord(
        f"{topics_prefix}.{prefix}", value, _HEARTBEAT_VALUE, {"serverName": prefix}, _HEARTBEAT_KEY
    )
