"""The columns of a record in Spark, as they are read, and as they may be written.

Without Arrow: Spark asks for the schema in a process of its own, where Arrow would take 45 MB for nothing.
"""

from typing import Any

from ottla.spark.errors import SchemaError
from ottla.spark.options import ReadOptions

_TYPES = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
_ALLOWED = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
}


ERROR_COLUMNS = {"valueError": "STRING", "valueBytes": "BINARY"}  # of valueMode=column: why, and what it was


def schema_text(options: ReadOptions) -> str:
    """What is read, in Spark's own words; Spark itself parses it."""
    value = options.value_schema
    if options.registered is not None:
        from ottla.spark.registry_values import struct_text

        value, _ = struct_text(options.registered)
    more = ERROR_COLUMNS if options.tell_errors else {}
    types = {**_TYPES, **({"value": value} if value else {}), **more}
    return ", ".join(f"`{name}` {types[name]}" for name in (*options.columns, *more))


def check_own(schema: Any, options: ReadOptions) -> None:
    """The source decides on its schema, as Spark's own does; `.schema(...)` would only rename or lose columns."""
    asked = {field.name: field.dataType.simpleString().split(" collate")[0] for field in schema.fields}
    own = {name: _TYPES[name].lower().replace(" ", "") for name in options.columns}
    if options.tell_errors:
        own |= {name: kind.lower() for name, kind in ERROR_COLUMNS.items()}
    if (options.value_schema or options.registered) and "value" in asked:
        own["value"] = asked["value"]
    if asked != own:
        raise SchemaError(
            "the source has a schema of its own: leave out .schema(...), and select or cast after load()"
        )


def columns(schema: Any, topic: str | None, *, encoded: bool = False) -> list[str]:
    """Those that a record has; others are left out, as Spark's own sink does. `SchemaError` unless they will do.
    `encoded`: the value is a struct that will be written with a schema."""
    types = {field.name: field.dataType.simpleString().split(" collate")[0] for field in schema.fields}
    known = {name: kind for name, kind in types.items() if name in _ALLOWED}
    for name, kind in known.items():
        if kind not in _ALLOWED[name] and not (encoded and name == "value"):
            wanted = " or ".join(_ALLOWED[name])
            raise SchemaError(f"column {name} is {kind}; it must be {wanted}. Cast it before writing")
    if "value" not in known:
        raise SchemaError("there is no column value; select what the records shall carry as value")
    if topic is None and "topic" not in known:
        raise SchemaError("no topic: set the option topic, or add a column topic")
    return list(known)
