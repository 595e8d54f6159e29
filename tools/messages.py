"""Writes src/ottla/wire/messages/ from kio's schema classes: one class for all versions of a message.

python tools/messages.py [FOLDER]
"""

import dataclasses
import datetime
import importlib
import pkgutil
import re
import sys
import types
import typing
from pathlib import Path

import kio.schema

# What neither the broker nor the client speaks (yet): leaving it out keeps the generated code small.
LEFT_OUT = (
    "raft",
    "quorum_epoch",
    "snapshot",
    "vote",
    "assign_replicas",
    "broker_heartbeat",
    "registration",
)
DATA_MESSAGES = ("consumer_protocol_assignment", "consumer_protocol_subscription")
# Brokers of a cluster tell each other more than Kafka's do: tagged fields, which others pass over.
OWN_FIELDS = {
    "WriteShareGroupStateRequest": {"StateBatch": (("due_ms", "int64", 1000), ("verdict", "int8", 1001))},
    "ReadShareGroupStateResponse": {"StateBatch": (("due_ms", "int64", 1000), ("verdict", "int8", 1001))},
}
FIXED = {"int8": 0, "int16": 0, "int32": 0, "int64": 0, "uint16": 0, "float64": 0.0, "bool": False}
PYTHON_TYPES = {
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
    "uuid": "bytes",
    "bool": "bool",
    "float64": "float",
}
TIMES = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64", "error_code": "int16"}


class Field:
    """One field over all versions; `order` is kept by the list it stands in."""

    def __init__(self, name: str, kind: str, array: bool, tag: int | None, default: object) -> None:
        self.name, self.kind, self.array, self.tag, self.default = name, kind, array, tag, default
        self.versions: list[int] = []
        self.nullable: list[int] = []
        self.tagged: list[int] = []


def load(package: str) -> dict[str, dict[int, types.ModuleType]]:
    """{"request": {version: module}, "response": ...} of one kio schema package."""
    found: dict[str, dict[int, types.ModuleType]] = {}
    root = importlib.import_module(f"kio.schema.{package}")
    for version in pkgutil.iter_modules(root.__path__):
        folder = importlib.import_module(f"kio.schema.{package}.{version.name}")
        for part in pkgutil.iter_modules(folder.__path__):
            module = importlib.import_module(f"kio.schema.{package}.{version.name}.{part.name}")
            found.setdefault(part.name, {})[int(version.name[1:])] = module
    return found


def classes_of(module: types.ModuleType) -> list[type]:
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and dataclasses.is_dataclass(each) and each.__module__ == module.__name__
    ]


def describe(field: dataclasses.Field, hints: dict[str, object]) -> tuple[Field, bool]:
    """The field of one version, and whether it may be null there."""
    hint = hints[field.name]
    nullable = type(None) in typing.get_args(hint)
    if nullable:
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    array = typing.get_origin(hint) is tuple
    if array:
        hint = typing.get_args(hint)[0]
    kind = field.metadata.get("kafka_type") or hint.__name__
    name = field.name
    if kind.startswith(("timedelta", "datetime")) and not name.endswith("_ms"):
        name += "_ms"
    kind = TIMES.get(kind, kind)
    default = field.default
    if nullable and not array and (kind == "uuid" or kind in FIXED):
        nullable = False  # kio's None for a zero id, and for the time -1
        default = -1 if kind in FIXED else bytes(16)
    return Field(
        name,
        kind,
        array,
        field.metadata.get("tag"),
        plain(default),
    ), nullable


def plain(default: object) -> object:
    if default is dataclasses.MISSING:
        return dataclasses.MISSING
    if isinstance(default, datetime.timedelta):
        return round(default.total_seconds() * 1000)
    if isinstance(default, datetime.datetime):
        raise ValueError("a datetime default")
    if isinstance(default, tuple):
        return []
    if hasattr(default, "int") and type(default).__name__ == "UUID":
        return bytes(16)
    if type(default).__name__ == "ErrorCode":
        return default.value
    if dataclasses.is_dataclass(default):
        return type(default)
    for base in (bool, int, float, str, bytes):
        if isinstance(default, base):
            return base(default)
    return default


def merge(versions: dict[int, types.ModuleType]) -> dict[str, list[Field]]:
    """{class name: fields in wire order} over all versions, nested classes before those that use them."""
    merged: dict[str, list[Field]] = {}
    for version in sorted(versions):
        for cls in classes_of(versions[version]):
            fields = merged.setdefault(cls.__name__, [])
            position = 0
            for raw in dataclasses.fields(cls):
                one, nullable = describe(raw, typing.get_type_hints(cls))
                known = next((each for each in fields if each.name == one.name), None)
                if known is None:
                    known = one
                    fields.insert(position, one)
                elif (known.kind, known.array) != (one.kind, one.array):
                    raise ValueError(f"{cls}.{one.name} changes its type")
                if known.default is dataclasses.MISSING:
                    known.default = one.default
                position = fields.index(known) + 1
                known.versions.append(version)
                known.tag = one.tag if one.tag is not None else known.tag
                if nullable:
                    known.nullable.append(version)
                if one.tag is not None:
                    known.tagged.append(version)
    top = classes_of(versions[max(versions)])[-1].__name__
    for name, own in OWN_FIELDS.get(top, {}).items():
        for field_name, kind, tag in own:
            field = Field(field_name, kind, False, tag, 0)
            field.versions, field.tagged = sorted(versions), sorted(versions)
            merged[name].append(field)
    ordered: dict[str, list[Field]] = {}

    def visit(name: str) -> None:
        for field in merged[name]:
            if field.kind in merged and field.kind not in ordered:
                visit(field.kind)
        ordered.setdefault(name, merged[name])

    for name in merged:
        visit(name)
    return ordered


def ranges(versions: list[int]) -> str:
    """[0,1,2,5] as source: "0-2,5". Ranges are rare enough for a string."""
    parts: list[list[int]] = []
    for version in versions:
        if parts and parts[-1][1] == version - 1:
            parts[-1][1] = version
        else:
            parts.append([version, version])
    return ",".join(f"{low}-{high}" if low != high else str(low) for low, high in parts)


def annotation(field: Field) -> str:
    base = PYTHON_TYPES.get(field.kind, "int" if field.kind in FIXED else field.kind)
    if field.array:
        base = f"list[{base}]"
    return f"{base} | None" if field.nullable or field.default is None else base


def default_source(field: Field) -> tuple[str, str]:
    """(default in the signature, expression assigned): mutable ones are created for each message."""
    if field.default is None or (field.array and field.nullable):
        return "None", field.name
    if field.array:
        return "None", f"[] if {field.name} is None else {field.name}"
    if isinstance(field.default, type):
        return "None", f"{field.default.__name__}() if {field.name} is None else {field.name}"
    if field.kind == "uuid":
        return "ZERO_UUID", field.name
    if field.default is not dataclasses.MISSING:
        return repr(field.default), field.name
    if field.kind in FIXED:
        return repr(FIXED[field.kind]), field.name
    if field.kind == "string":
        return ('""', field.name) if not field.nullable else ("None", field.name)
    if field.kind in ("bytes", "records"):
        return ('b""', field.name) if not field.nullable else ("None", field.name)
    if field.nullable:
        return "None", field.name
    return "None", f"{field.kind}() if {field.name} is None else {field.name}"


def class_source(name: str, fields: list[Field], constants: list[str], base: str) -> str:
    lines = [f"class {name}({base}):", f"    __slots__ = {tuple(f.name for f in fields)!r}"]
    lines += [f"    {line}" for line in constants]
    lines.append("    FIELDS = (")
    for f in fields:
        kind = repr(f.kind) if f.kind in FIXED or f.kind in PYTHON_TYPES else f.kind
        extra = "".join(
            f", {key}={value!r}"
            for key, value in (
                ("array", f.array),
                ("nullable", ranges(f.nullable)),
                ("tag", f.tag),
                ("tagged", ranges(f.tagged)),
            )
            if value is not None and value is not False and value != ""
        )
        lines.append(f"        Field({f.name!r}, {kind}, {ranges(f.versions)!r}{extra}),")
    lines.append("    )")
    if fields:
        lines.append("")
        lines.append("    def __init__(")
        lines.append("        self,\n        *,")
        for f in fields:
            signature, _ = default_source(f)
            hint = annotation(f)
            if signature == "None" and "None" not in hint:
                hint += " | None"
            lines.append(f"        {f.name}: {hint} = {signature},")
        lines.append("    ) -> None:")
        for f in fields:
            lines.append(f"        self.{f.name}: {annotation(f)} = {default_source(f)[1]}")
    return "\n".join(lines) + "\n"


def rename_taken(classes: dict[str, list[Field]], taken: set[str], prefix: str) -> dict[str, list[Field]]:
    """Request and response share a module: of two classes with one name, the later one gets a prefix."""
    new = {name: prefix + name if name in taken else name for name in classes}
    for fields in classes.values():
        for field in fields:
            field.kind = new.get(field.kind, field.kind)
    return {new[name]: fields for name, fields in classes.items()}


def module_source(parts: dict[str, dict[int, types.ModuleType]]) -> str:
    body: dict[str, str] = {}
    for part in ("request", "response", "data"):
        versions = parts.get(part)
        if not versions:
            continue
        top = classes_of(versions[max(versions)])[-1]
        flexible = [v for v, module in versions.items() if classes_of(module)[-1].__flexible__]
        for name, fields in rename_taken(merge(versions), set(body), part.capitalize()).items():
            base = "Message"
            constants = [f"FLEXIBLE_FROM = {min(flexible, default=32767)}"]
            if name == top.__name__:
                if part != "data":
                    constants.append(f"API_KEY = {int(top.__api_key__)}")
                if part == "request":
                    base = f'Request["{name.removesuffix("Request")}Response"]'
                constants.append(f"VERSIONS = ({min(versions)}, {max(versions)})")
            body[name] = class_source(name, fields, constants, base)
    text = "\n\n".join(body.values())
    names = [
        n for n in ("ZERO_UUID", "Buffer", "Field", "Message", "Request") if re.search(rf"\b{n}\b", text)
    ]
    return (
        '"""Generated from kio by tools/messages.py. Do not edit."""\n\n'
        f"from ottla.wire.schema import {', '.join(names)}\n\n\n{text}"
    )


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for package in sorted(each.name for each in pkgutil.iter_modules(kio.schema.__path__) if each.ispkg):
        parts = load(package)
        wanted = "request" in parts or package in DATA_MESSAGES
        if not wanted or any(word in package for word in LEFT_OUT):
            continue
        (folder / f"{package}.py").write_text(module_source(parts))
        if "request" in parts:
            request = classes_of(parts["request"][max(parts["request"])])[-1]
            low, high = min(parts["request"]), max(parts["request"])
            flexible = min(
                (v for v, m in parts["request"].items() if classes_of(m)[-1].__flexible__), default=32767
            )
            name = request.__name__.removesuffix("Request")
            rows.append((int(request.__api_key__), name, package, low, high, flexible))
    table = "\n".join(f"    {row[0]}: Api{row!r}," for row in sorted(rows))
    (folder / "__init__.py").write_text(
        '"""Generated from kio by tools/messages.py. Do not edit."""\n\n'
        "from ottla.wire.schema import Api\n\n"
        f"APIS: dict[int, Api] = {{\n{table}\n}}\n"
        "BY_NAME: dict[str, Api] = {api.name: api for api in APIS.values()}\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "src/ottla/wire/messages")
