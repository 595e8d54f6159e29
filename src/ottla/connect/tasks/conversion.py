"""Between the records of connectors and the columns of topics: transforms, converters, headers."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import TopicPartition
from ottla.connect import schema as s
from ottla.connect.arrow import records_of
from ottla.connect.converters import Converter, converter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.errors import DataError, RetriableError
from ottla.connect.settings import Config
from ottla.connect.spi import Batch, Header, SinkRecord, SourceRecord
from ottla.connect.tasks.handling import Failure, Handling, PassedOver
from ottla.connect.transforms import Transforms
from ottla.connect.transforms.columns import Column, record_of
from ottla.wire import columns

_SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
TIMESTAMP = columns.TIMESTAMP
HEADERS = columns.HEADERS


class Converters:
    def __init__(self, config: Config) -> None:
        self.names = {
            side: config.get(f"{side}.converter") or (_SIMPLE if side == "header" else _JSON)
            for side in ("key", "value", "header")
        }
        self.key = self._converter(config, "key")
        self.value = self._converter(config, "value")
        self.header = self._converter(config, "header")

    def _converter(self, config: Config, side: str) -> Converter:
        return converter(self.names[side], config.with_prefix(f"{side}.converter."), is_key=side == "key")


class SourceConversion:
    """A source's batch to rows for topics. Arrow batches stay Arrow where the converter and the transforms can."""

    def __init__(self, config: Config) -> None:
        self.handling = Handling(config)
        self._converters = Converters(config)
        self._transforms = Transforms(config)
        self._no_key = pa.nulls(0, pa.binary())

    def rows(self, batch: Batch) -> list[tuple[str, pa.RecordBatch]]:
        """By topic, each in order."""
        if batch.encoded:
            return [*batch.encoded, *self._from_records(batch.records)]
        if isinstance(batch.records, pa.RecordBatch):
            converted = None if self._transforms.is_set else self._columns(batch)
            converted = converted or self._transformed_columns(batch)
            if converted is not None:
                return [converted] if converted[1].num_rows else []
            return self._from_records(records_of(batch.records, batch.topic))
        return self._from_records(batch.records)

    def _columns(self, batch: Batch) -> tuple[str, pa.RecordBatch] | None:
        rows: Any = batch.records
        names = set(rows.schema.names)
        if batch.topic is None or not names <= {"key", "value", "timestamp", "partition"}:
            return None
        arrays: dict[str, Any] = {}
        for side, used in (("key", self._converters.key), ("value", self._converters.value)):
            if side in names:
                column = used.from_column(batch.topic, rows.column(side))
                if column is None:
                    return None
                arrays[side] = column
        for name in ("timestamp", "partition"):
            if name in names:
                arrays[name] = rows.column(name)
        return batch.topic, pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _transformed_columns(self, batch: Batch) -> tuple[str, pa.RecordBatch] | None:
        """Where transforms only move values, and the converters write whole columns; else None."""
        rows: Any = batch.records
        if batch.topic is None:
            return None
        try:
            record = self._transforms.columns(record_of(rows, batch.topic))
        except DataError:
            return None  # records alone tell which of them is wrong
        if record is None:
            return batch.topic, rows.slice(rows.num_rows)
        arrays: dict[str, Any] = {}
        sides = (("key", record.key_schema, record.key), ("value", record.value_schema, record.value))
        for side, schema, tree in sides:
            if tree is None:
                continue
            written = self._written(side, record.topic, schema, tree)
            if written is None:
                return None
            arrays[side] = written
        return record.topic, pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _written(self, side: str, topic: str, schema: s.Schema | None, tree: Any) -> Any:
        used = self._converters.key if side == "key" else self._converters.value
        if isinstance(used, JsonConverter) and schema is not None:
            return used.from_tree(schema, tree)
        return used.from_column(topic, tree.array) if isinstance(tree, Column) else None

    def _from_records(self, records: Iterable[SourceRecord]) -> list[tuple[str, pa.RecordBatch]]:
        """All at once; one by one if any of them fails, to know which."""
        all_records = list(records)
        try:
            return self._all(all_records)
        except (DataError, RetriableError):
            return self._one_by_one(all_records)

    def _all(self, records: Sequence[SourceRecord]) -> list[tuple[str, pa.RecordBatch]]:
        used, header = self._converters, self._converters.header.from_value
        key, value = used.key.from_value, used.value.from_value
        by_topic: dict[str, tuple[list[Any], ...]] = {}
        for record in self._transforms.all(records):
            topic = record.topic
            if topic not in by_topic:
                by_topic[topic] = [], [], [], [], []
            keys, values, headers, stamps, partitions = by_topic[topic]
            keys.append(key(topic, record.key_schema, record.key))
            values.append(value(topic, record.value_schema, record.value))
            own = record.headers
            headers.append(
                [(entry.key, header(topic, entry.schema, entry.value)) for entry in own] if own else None
            )
            stamps.append(record.timestamp_ms)
            partitions.append(record.partition)
        return [(topic, _columns(*columns)) for topic, columns in by_topic.items()]

    def _one_by_one(self, records: Iterable[SourceRecord]) -> list[tuple[str, pa.RecordBatch]]:
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            try:
                converted = self._one(record)
            except PassedOver as passed:
                self.handling.report(passed.failure, f"for topic {record.topic}: {record!r}")
                continue
            if converted is not None:
                by_topic.setdefault(converted[0], []).append(converted[1])
        return [(topic, to_rows(rows)) for topic, rows in by_topic.items()]

    def _one(self, source: SourceRecord) -> tuple[str, dict[str, Any]] | None:
        record = self._transforms.apply(source, self.handling)
        if record is None:
            return None
        attempt, used, topic = self.handling.attempt, self._converters, record.topic
        key = used.key.from_value, topic, record.key_schema, record.key
        value = used.value.from_value, topic, record.value_schema, record.value
        return topic, {
            "headers": attempt("HEADER_CONVERTER", used.names["header"], self._headers, record),
            "key": attempt("KEY_CONVERTER", used.names["key"], *key),
            "value": attempt("VALUE_CONVERTER", used.names["value"], *value),
            "timestamp": record.timestamp_ms,
            "partition": record.partition,
        }

    def _headers(self, record: SourceRecord) -> list[tuple[str, bytes | None]]:
        convert = self._converters.header.from_value
        return [(header.key, convert(record.topic, header.schema, header.value)) for header in record.headers]


def to_rows(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Columns as producers take them; those that no row has are left out."""
    names = ("key", "value", "headers", "timestamp", "partition")
    return _columns(*([row.get(name) for row in rows] for name in names))


def _columns(
    keys: list[Any], values: list[Any], headers: list[Any], stamps: list[Any], partitions: list[Any]
) -> pa.RecordBatch:
    arrays = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    if any(headers):
        header_rows = [[{"key": key, "value": value} for key, value in header or ()] for header in headers]
        arrays["headers"] = pa.array(header_rows, HEADERS)
    if any(stamp is not None for stamp in stamps):
        microseconds = [None if stamp is None else stamp * 1000 for stamp in stamps]
        arrays["timestamp"] = pa.array(microseconds, pa.int64()).cast(TIMESTAMP)
    if any(partition is not None for partition in partitions):
        arrays["partition"] = pa.array(partitions, pa.int32())
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


class SinkConversion:
    """Rows of a topic to a sink's records."""

    def __init__(self, config: Config) -> None:
        self.handling = Handling(config)
        self._converters = Converters(config)
        self._transforms = Transforms(config)

    def records(
        self, where: TopicPartition, rows: pa.RecordBatch
    ) -> tuple[list[SinkRecord], list[tuple[dict[str, Any], Failure]]]:
        """And those that failed: each raw, with what went wrong."""
        try:
            return self._all(where, rows), []
        except (DataError, RetriableError):
            return self._one_by_one(where, rows)

    def _all(self, where: TopicPartition, rows: pa.RecordBatch) -> list[SinkRecord]:
        used, (topic, partition) = self._converters, where
        key, value = used.key.to_value, used.value.to_value
        names = ("offset", "key", "value", "timestamp", "timestampType", "headers")
        columns = [_plain_column(rows, name) for name in names]
        converted = []
        for offset, raw_key, raw_value, stamp, kind, headers in zip(*columns, strict=True):
            key_schema, made_key = key(topic, raw_key)
            value_schema, made_value = value(topic, raw_value)
            converted.append(
                SinkRecord(
                    topic, partition, offset, made_value, value_schema, made_key, key_schema,
                    self._headers(topic, headers) if headers else (), stamp, kind or 0, where,
                )
            )  # fmt: skip
        return self._transforms.all(converted)

    def _one_by_one(
        self, where: TopicPartition, rows: pa.RecordBatch
    ) -> tuple[list[SinkRecord], list[tuple[dict[str, Any], Failure]]]:
        records: list[SinkRecord] = []
        failed: list[tuple[dict[str, Any], Failure]] = []
        for row in rows.to_pylist():
            try:
                record = self._one(where, row)
            except PassedOver as passed:
                self.handling.report(passed.failure, f"{where} offset {row['offset']}")
                failed.append((row, passed.failure))
                continue
            if record is not None:
                records.append(record)
        return records, failed

    def columns(self, where: TopicPartition, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """With key and value converted as columns; None where that is not possible."""
        if self._transforms.is_set:
            return None
        key = self._converters.key.to_column(where.topic, rows.column("key"))
        value = self._converters.value.to_column(where.topic, rows.column("value"))
        if value is None or (key is None and rows.column("key").null_count < rows.num_rows):
            return None
        if key is None:
            key = pa.nulls(rows.num_rows)
        arrays = [rows.column("offset"), rows.column("timestamp"), key, value]
        return pa.RecordBatch.from_arrays(arrays, names=["offset", "timestamp", "key", "value"])

    def _one(self, where: TopicPartition, row: dict[str, Any]) -> SinkRecord | None:
        attempt, used = self.handling.attempt, self._converters
        topic = where.topic
        key_schema, key = attempt("KEY_CONVERTER", used.names["key"], used.key.to_value, topic, row["key"])
        value_schema, value = attempt(
            "VALUE_CONVERTER", used.names["value"], used.value.to_value, topic, row["value"]
        )
        headers = attempt("HEADER_CONVERTER", used.names["header"], self._headers, topic, row.get("headers"))
        stamp = row["timestamp"]
        record = SinkRecord(
            topic, where.partition, row["offset"], value, value_schema, key, key_schema, headers,
            None if stamp is None else _millis(stamp), row.get("timestampType") or 0, where,
        )  # fmt: skip
        return self._transforms.apply(record, self.handling)

    def _headers(self, topic: str, rows: Any) -> tuple[Header, ...]:
        headers = []
        for row in rows or ():
            schema, value = self._converters.header.to_value(topic, row["value"])
            headers.append(Header(row["key"], value, schema))
        return tuple(headers)


def _plain_column(rows: pa.RecordBatch, name: str) -> list[Any]:
    if name not in rows.schema.names:
        return [None] * rows.num_rows
    column = rows.column(name)
    if name != "timestamp":
        plain: list[Any] = column.to_pylist()
        return plain
    return [None if item is None else item // 1000 for item in column.cast(pa.int64()).to_pylist()]


def _millis(stamp: Any) -> int:
    return s.millis(stamp)
