"""Values with schemas as Arrow columns: what `poll_arrow` or Spark's source read, decoded by a registry's schemas.

`pyruhvro` decodes whole columns of Avro where it is installed, for schemas of the kinds that it knows; else values are
decoded one by one. Both give the same, and a value that the first cannot read is left to the second, which says why.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.serialization.arrow_types import arrow_type
from ottla.serialization.avro import AvroDeserializer
from ottla.serialization.columns import columns_of
from ottla.serialization.framing import PREFIX_BYTES, VALUE_HEADER, BadValue, guid_header
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient

try:
    import pyruhvro  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:
    pyruhvro = None

MODES = ("failfast", "permissive", "column")
_PREFIX = struct.Struct(">bi")
_PLAIN = ("string", "int", "long", "float", "double", "boolean")
_BYTES_MAX = 2**31 - 1
Reasons = list[str | None]
"""For each value why it is null though it was none; None where all is well."""


class ValueColumn(Protocol):
    def decode(self, values: Any, headers: Any = None) -> tuple[Any, Reasons]:
        """A column of bytes to one of structs. `headers` name the schemas of values without ids, see
        `schema_headers`."""


class ArrowDecoder:
    """`decode(consumer.poll_arrow(1.0))` has a struct in the column value, by the subject's latest schema: Avro, JSON
    Schema, or Protobuf, of which the values are the schema's first message.

    A value that cannot be decoded raises `BadValue` with its place. With `mode="permissive"` it is null; with
    `mode="column"` it also stands in the columns `valueError` (why) and `valueBytes` (what it was).
    """

    def __init__(self, registry: RegistryClient, subject: str, *, mode: str = "failfast") -> None:
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
        self._mode = mode
        columns = columns_of(registry, subject)
        registered, kind = columns.registered, arrow_type(columns.text)
        self._column = value_column(registry, registered.schema_type, columns.reader, kind, registered)

    def __call__(self, rows: Any) -> Any:
        data = rows.column("value")
        values, reasons = self._column.decode(data, schema_headers(rows))
        if self._mode == "failfast":
            for at, reason in enumerate(reasons):
                if reason is not None:
                    place = [rows.column(name)[at].as_py() for name in ("topic", "partition", "offset")]
                    raise BadValue(f"{place[0]}-{place[1]}, offset {place[2]}: {reason}")
        at = rows.schema.get_field_index("value")
        rows = rows.set_column(at, pa.field("value", values.type), values)
        if self._mode != "column":
            return rows
        errors = pa.array(reasons, pa.string())
        raw = pc.if_else(pc.is_valid(errors), data.cast(pa.binary()), pa.scalar(None, pa.binary()))
        return rows.append_column("valueError", errors).append_column("valueBytes", raw)


def schema_headers(rows: Any) -> Any:
    """Of each row the header that holds the GUID of its value's schema; None if no row has one."""
    at = rows.schema.get_field_index("headers")
    if at < 0 or not len(rows):
        return None
    headers = rows.column(at)
    pairs = headers.flatten()
    named = pc.and_(pc.equal(pairs.field("key"), VALUE_HEADER), pc.is_valid(pairs.field("value")))
    places = pc.list_parent_indices(headers).filter(named).to_pylist()
    if not places:
        return None
    schema_guids: list[bytes | None] = [None] * len(rows)
    for place, header in zip(places, pairs.field("value").filter(named).to_pylist(), strict=True):
        schema_guids[place] = schema_guids[place] or header or None
    return pa.array(schema_guids, pa.binary())


def value_column(
    registry: RegistryClient, schema_type: str, reader: str, kind: Any, own: RegisteredSchema | None
) -> ValueColumn:
    """`own` is the registered schema that `reader` is the text of: such values need no evolution."""
    if schema_type == "AVRO":
        column = AvroColumn(registry, reader, kind)
        if own is not None:
            column.knows(own)
        return column
    if schema_type == "PROTOBUF":
        from ottla.serialization.protobuf import ProtobufDeserializer
        from ottla.serialization.protobuf_columns import plain

        return _SingleValues(ProtobufDeserializer(registry, build=plain), kind)
    from ottla.serialization.json_schema import JsonSchemaDeserializer

    return _SingleValues(JsonSchemaDeserializer(registry, check=False), kind)


class _SingleValues:
    def __init__(self, decode: Callable[[bytes, Any], Any], kind: Any) -> None:
        self._decode, self._kind = decode, kind

    def decode(self, values: Any, headers: Any = None) -> tuple[Any, Reasons]:
        return one_by_one(self._decode, values, self._kind, headers)


class AvroColumn:
    """A column of values that name their schemas to one of structs, all read as `reader` says."""

    def __init__(self, registry: RegistryClient, reader: str, kind: Any) -> None:
        self._decode_one = AvroDeserializer(registry, reader)
        self._reader, self._kind = reader, kind
        self._own: RegisteredSchema | None = None  # the reader's, if its values can be decoded at once

    def knows(self, own: RegisteredSchema) -> None:
        """The reader's schema is registered as this one: values of it are what it says, without evolution."""
        if pyruhvro is not None and not own.references and is_known(json.loads(self._reader)):
            self._own = own

    def decode(self, values: Any, headers: Any = None) -> tuple[Any, Reasons]:
        values = values.cast(pa.binary())
        if self._own is None or not len(values):
            return one_by_one(self._decode_one, values, self._kind, headers)
        is_own, payloads = _payloads(self._own, values, headers)
        own = self._at_once(payloads.filter(is_own))
        if own is None:
            return one_by_one(self._decode_one, values, self._kind, headers)
        if len(own) == len(values):
            return own, [None] * len(values)
        is_other = pc.invert(is_own)
        other_headers = None if headers is None else headers.filter(is_other)
        others, reasons = one_by_one(self._decode_one, values.filter(is_other), self._kind, other_headers)
        # Both in one column, own ones first; then each is taken from its place there.
        places = pc.if_else(is_own, _counted(is_own), pc.add(_counted(is_other), len(own)))
        texts = pa.array([None] * len(own) + reasons, pa.string()).take(places)
        return pa.concat_arrays([own, others]).take(places), texts.to_pylist()

    def _at_once(self, payloads: Any) -> Any | None:
        """Of values that the reader's own schema wrote; None if one of them is not what it says."""
        if not len(payloads):
            return pa.array([], self._kind)
        try:
            decoded = pyruhvro.deserialize_array(payloads.to_pylist(), self._reader)
            return _cast(decoded.to_struct_array(), self._kind)
        except (ValueError, TypeError, pa.ArrowException):
            return None  # one by one tells which it is


def _payloads(own: RegisteredSchema, values: Any, headers: Any) -> tuple[Any, Any]:
    """Which values name the schema `own`, and all values without what names it."""
    prefix = pa.scalar(_PREFIX.pack(0, own.schema_id), pa.binary())
    is_own = pc.equal(pc.binary_slice(values, 0, PREFIX_BYTES), prefix).fill_null(False)
    payloads = pc.binary_slice(values, PREFIX_BYTES, _BYTES_MAX)
    if headers is None:
        return is_own, payloads
    in_header = pc.is_valid(headers)
    header = pa.scalar(guid_header(own.guid) if own.guid else None, pa.binary())
    named = pc.and_(pc.equal(headers, header).fill_null(False), pc.is_valid(values))
    return pc.if_else(in_header, named, is_own), pc.if_else(in_header, values, payloads)


def _counted(chosen: Any) -> Any:
    """For each place, how many were chosen before it."""
    return pc.subtract(pc.cumulative_sum(chosen.cast(pa.int64())), 1)


def one_by_one(
    decode: Callable[[bytes, Any], Any], values: Any, kind: Any, headers: Any = None
) -> tuple[Any, Reasons]:
    """A column of `kind`, and for each value that `decode` refused or that does not fit why."""
    decoded: list[Any] = []
    reasons: Reasons = []
    named = [None] * len(values) if headers is None else headers.to_pylist()
    for data, header in zip(values.to_pylist(), named, strict=True):
        reason = value = None
        try:
            context = None if header is None else [(VALUE_HEADER, header)]
            value = None if data is None else decode(data, context)
        except BadValue as error:
            reason = str(error)
        decoded.append(value)
        reasons.append(reason)
    try:
        return pa.array(decoded, kind), reasons
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # one of them has another type than its column
    for at, value in enumerate(decoded):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            decoded[at], reasons[at] = None, f"the value does not fit its columns: {error}"
    return pa.array(decoded, kind), reasons


def _cast(array: Any, kind: Any) -> Any:
    """By the names of fields. Times come without their zone, which is UTC."""
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        columns = [_cast(array.field(field.name), field.type) for field in fields]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())
    return array.cast(kind)


def is_known(schema: Any) -> bool:
    """Whether pyruhvro decodes values of the schema, as fastavro does. Its record must be the outermost."""
    return isinstance(schema, dict) and schema.get("type") == "record" and _is_known(schema)


def _is_known(schema: Any) -> bool:
    if isinstance(schema, list):
        return len(schema) == 2 and schema[0] == "null" and _is_known(schema[1])
    if isinstance(schema, str):
        return schema in _PLAIN
    kind, logical = schema.get("type"), schema.get("logicalType")
    if kind == "record":
        return all(_is_known(field["type"]) for field in schema["fields"])
    if kind == "array":
        return isinstance(schema["items"], str) and _is_known(schema["items"])
    if kind == "map":
        return isinstance(schema["values"], str) and _is_known(schema["values"])
    if kind == "enum":
        return True
    return (
        isinstance(kind, str)
        and logical in (None, "date", "timestamp-millis", "timestamp-micros")
        and _is_known(kind)
    )
