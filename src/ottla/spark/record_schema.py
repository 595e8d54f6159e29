"""Which columns a written row may have, and of which types. Said before the first row is touched."""

from typing import Any

from ottla.spark.errors import SchemaError

_ALLOWED = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
}


def check_schema(schema: Any, topic: str | None) -> None:
    """Raises `SchemaError` unless the columns can become records."""
    found = {field.name: field.dataType.simpleString().split(" collate")[0] for field in schema.fields}
    for name, kind in found.items():
        if name not in _ALLOWED:
            known = ", ".join(_ALLOWED)
            raise SchemaError(
                f"a record has no column {name}; known are {known}. Select and rename before writing"
            )
        if kind not in _ALLOWED[name]:
            wanted = " or ".join(_ALLOWED[name])
            raise SchemaError(f"column {name} is {kind}; it must be {wanted}. Cast it before writing")
    if "value" not in found:
        raise SchemaError("there is no column value; select what the records shall carry as value")
    if topic is None and "topic" not in found:
        raise SchemaError("no topic: set the option topic, or add a column topic")
