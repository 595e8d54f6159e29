"""From records to what a table is to become: rows to write and keys to delete, the last word for each key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ottla.connect import schema as schemas
from ottla.connect.errors import DataError
from ottla.connect.schema import Field, Schema
from ottla.connect.spi import SinkRecord
from ottla.connect.sql.columns import INTEGER, LONG, TEXT, Column, column

KAFKA_FIELDS = ("__connect_topic", "__connect_partition", "__connect_offset")
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """`pk.mode` and `pk.fields`, and which of the value's fields are written."""

    mode: str = "none"
    fields: tuple[str, ...] = ()
    value_fields: frozenset[str] = frozenset()  # fields.whitelist; all if empty
    delete: bool = False


@dataclass(slots=True)
class Group:
    """Rows of the same columns. `deleted` keys are removed before `rows` are written; upsert and update have the last
    row of each key, insert has every row, under a number."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    deleted: dict[Key, None] = field(default_factory=dict)
    is_emptied: bool = False  # the table loses all its rows before these


def grouped(records: Iterable[SinkRecord], rule: KeyRule, insert_mode: str) -> list[Group]:
    """In order; a new group begins where columns change, the table is emptied, or the order of a delete and a row
    matters: an upsert after a delete makes the delete needless, an insert or an update does not."""
    keep_all = insert_mode == "insert"  # rows replace no others
    groups: list[Group] = []
    plans: dict[
        tuple[int, int, str], _Plan
    ] = {}  # by identity: hashing a schema costs more than writing a row
    number = 0
    for record in records:
        row = _unwrapped(record, rule)
        if row is _EMPTIED:
            groups.append(Group((), (), is_emptied=True))
            continue
        if row is None:
            _delete(groups, record, rule, keep_all=keep_all)
            continue
        known = (id(row[0]), id(record.key_schema), record.topic)
        plan = plans.get(known)
        if plan is None:
            plan = plans[known] = _plan(row[0], record.key_schema, rule, record.topic)
        is_after_delete = bool(groups and groups[-1].deleted) and insert_mode != "upsert"
        if not groups or groups[-1].columns is not plan.columns or is_after_delete:
            groups.append(Group(plan.columns, plan.key))
        values = plan.values(record, row[1])
        key: Any = tuple(values[place] for place in plan.key_places)
        if keep_all or not key:
            number += 1
            key = number
        else:
            groups[-1].deleted.pop(key, None)
            groups[-1].rows.pop(key, None)  # rows keep the order of the last change
        groups[-1].rows[key] = values
    return groups


_EMPTIED: Any = object()


def _unwrapped(record: SinkRecord, rule: KeyRule) -> Any:
    """(schema, value) of the row to write; None to delete; _EMPTIED. Debezium's envelope is opened."""
    schema, value = record.value_schema, record.value
    if value is None:
        return None
    if schema is not None and (schema.name or "").endswith(".Envelope") and schema.field("op") is not None:
        if value["op"] == "t":
            return _EMPTIED
        if value["op"] == "d":
            return None
        after = schema.field("after")
        return (after.schema if after else None), value["after"]
    if schema is None and isinstance(value, dict) and {"op", "before", "after", "source"} <= value.keys():
        return {"t": _EMPTIED, "d": None}.get(value["op"], (None, value["after"]))
    if not isinstance(value, dict):
        raise DataError(
            f"{record.topic}-{record.partition}@{record.offset}: a row needs a value with fields, not"
            f" {type(value).__name__}; wrap it with the transform HoistField$Value"
        )
    return schema, value


def _delete(groups: list[Group], record: SinkRecord, rule: KeyRule, *, keep_all: bool) -> None:
    if not rule.delete:
        if record.value is None:
            raise DataError(
                f"{record.topic}-{record.partition}@{record.offset} has a null value, and delete.enabled is false;"
                " set it, with pk.mode=record_key"
            )
        return
    if record.key is None:
        raise DataError(f"{record.topic}-{record.partition}@{record.offset}: a delete without a key")
    schema = record.key_schema
    names = _key_names(rule, schema, record.key, record.topic)
    if schema is None or schema.type != schemas.STRUCT:
        columns: tuple[Column, ...] = (column(names[0], schema or _guessed(record.key)),)
        values: Key = (record.key,)
    else:
        columns = tuple(column(name, _field(schema, name, record.topic).schema) for name in names)
        values = tuple(record.key[name] for name in names)
    try:
        key = tuple(
            column.convert(value) if column.convert and value is not None else value
            for column, value in zip(columns, values, strict=True)
        )
    except (ValueError, ArithmeticError) as error:
        raise _unfit(record, error) from error
    # Rows that are all kept have no keys to remove them by: the delete must run after their inserts.
    is_after_insert = keep_all and bool(groups and groups[-1].rows)
    if not groups or groups[-1].key != names or is_after_insert:
        groups.append(Group(columns, names))
    groups[-1].rows.pop(key, None)
    groups[-1].deleted[key] = None


def _unfit(record: SinkRecord, error: Exception) -> DataError:
    """An infinite time, a day before the year 1: the record is wrong for a table, not the sink."""
    return DataError(
        f"{record.topic}-{record.partition}@{record.offset} has a value that does not fit into a column: {error}"
    )


def _key_names(rule: KeyRule, schema: Schema | None, key: Any, topic: str) -> tuple[str, ...]:
    if schema is not None and schema.type == schemas.STRUCT:
        return rule.fields or tuple(field.name for field in schema.fields)
    if schema is None and isinstance(key, dict):
        return rule.fields or tuple(key)
    if len(rule.fields) != 1:
        raise DataError(
            f"keys of {topic} are plain values: pk.fields must name the one column that takes them"
        )
    return rule.fields


def _field(schema: Schema, name: str, topic: str) -> Field:
    field = schema.field(name)
    if field is None:
        raise DataError(f"pk.fields names {name}, which keys or values of {topic} do not have")
    return field


class _Plan:
    """How a record becomes a row: key columns first, then the value's."""

    def __init__(
        self, columns: Sequence[Column], key: tuple[str, ...], taken: Sequence[tuple[str, str]]
    ) -> None:
        self.columns = tuple(columns)
        self.key = key
        self.key_places = tuple(i for i, column in enumerate(self.columns) if column.name in key)
        self._taken = tuple(
            (kind, name, column.convert) for (kind, name), column in zip(taken, columns, strict=True)
        )

    def values(self, record: SinkRecord, value: dict[str, Any]) -> tuple[Any, ...]:
        try:
            return self._values(record, value)
        except (ValueError, ArithmeticError) as error:
            raise _unfit(record, error) from error

    def _values(self, record: SinkRecord, value: dict[str, Any]) -> tuple[Any, ...]:
        row = []
        for kind, name, convert in self._taken:
            match kind:
                case "value":
                    item = value.get(name)
                case "key":
                    item = record.key[name]
                case "whole":
                    item = record.key
                case _:
                    item = getattr(record, name)
            if isinstance(item, list | dict) and convert is None:
                raise DataError(f"{record.topic}: field {name} has a structure, and the record has no schema")
            row.append(item if convert is None or item is None else convert(item))
        return tuple(row)


def _plan(value: Schema | None, key: Schema | None, rule: KeyRule, topic: str) -> _Plan:
    if value is None:
        raise DataError(
            f"records of {topic} have no schema, so their columns have no types; use JsonConverter with"
            " schemas.enable=true or another converter with schemas"
        )
    return _cached_plan(value, key, rule, topic)


@lru_cache(256)
def _cached_plan(value: Schema, key: Schema | None, rule: KeyRule, topic: str) -> _Plan:
    columns: list[Column] = []
    taken: list[tuple[str, str]] = []
    names: tuple[str, ...] = ()
    match rule.mode:
        case "kafka":
            names = rule.fields or KAFKA_FIELDS
            kinds = zip(names, ("topic", "partition", "offset"), (TEXT, INTEGER, LONG), strict=True)
            for name, attribute, kind in kinds:
                columns.append(Column(name, kind, True, None, None))
                taken.append(("record", attribute))
        case "record_key":
            if key is None:
                raise DataError(f"pk.mode=record_key, and keys of {topic} are null or have no schema")
            names = _key_names(rule, key, None, topic)
            is_struct = key.type == schemas.STRUCT
            for name in names:
                schema = _field(key, name, topic).schema if is_struct else key
                columns.append(column(name, schema))
                taken.append(("key", name) if is_struct else ("whole", name))
        case "record_value":
            names = rule.fields or tuple(field.name for field in value.fields)
            for name in names:
                columns.append(column(name, _field(value, name, topic).schema))
                taken.append(("value", name))
    for own in value.fields:
        if own.name not in names and (not rule.value_fields or own.name in rule.value_fields):
            columns.append(column(own.name, own.schema))
            taken.append(("value", own.name))
    return _Plan(columns, names, taken)


def _guessed(value: Any) -> Schema:
    schema = schemas.guess(value)
    if schema is None:
        raise DataError("a key with a structure and without a schema cannot be a column")
    return schema
