"""All transforms by Kafka's names: class, settings, and whether there is one for keys and one for values."""

from collections.abc import Callable

from ottla.connect.settings import BOOLEAN, HIGH, INT, LIST, LOW, MEDIUM, STRING, Setting
from ottla.connect.transforms import Transform, fields, headers, times, whole

_DEFAULTS = Setting(
    "replace.null.with.default", BOOLEAN, "true", "Whether a null counts as the field's default", MEDIUM
)


def _field(what: str) -> Setting:
    return Setting(
        f"{what}.field", STRING, None, f"Field for the {what}; ! behind it: required, ?: optional", MEDIUM
    )


_INSERT = (
    *map(_field, ("topic", "partition", "offset", "timestamp", "static")),
    Setting("static.value", STRING, None, "Value of the static field", MEDIUM),
    _DEFAULTS,
)
_REPLACE = (
    Setting("exclude", LIST, "", "Fields to leave out", MEDIUM),
    Setting("include", LIST, "", "Fields to keep; empty: all", MEDIUM),
    Setting("renames", LIST, "", "old:new", MEDIUM),
    _DEFAULTS,
)
_MASK = (
    Setting("fields", LIST, doc="Fields to mask", importance=HIGH),
    Setting("replacement", STRING, None, "Value to put there, of numbers and texts", LOW),
    _DEFAULTS,
)
_FIELDS = (Setting("fields", LIST, doc="Fields of the value", importance=HIGH), _DEFAULTS)
_EXTRACT = (
    Setting("field", STRING, doc="Field to extract", importance=MEDIUM),
    Setting(
        "field.syntax.version", STRING, "V1", "V2: dots go into nested fields", HIGH, choices=("V1", "V2")
    ),
    _DEFAULTS,
)
_TIMES = (
    Setting("field", STRING, "", "Field with the time; empty: the whole value", HIGH),
    Setting(
        "target.type", STRING, doc="What to convert to", importance=HIGH,
        choices=("string", "unix", "Date", "Time", "Timestamp"),
    ),
    Setting("format", STRING, "", "Pattern of Java's SimpleDateFormat", MEDIUM),
    Setting(
        "unix.precision", STRING, "milliseconds", "Of unix times", LOW,
        choices=("nanoseconds", "microseconds", "milliseconds", "seconds"),
    ),
    _DEFAULTS,
)  # fmt: skip
_HEADER_FROM = (
    Setting("fields", LIST, doc="Fields to take", importance=HIGH),
    Setting("headers", LIST, doc="Names of the headers, in the same order", importance=HIGH),
    Setting("operation", STRING, doc="move or copy", importance=HIGH, choices=("move", "copy")),
    _DEFAULTS,
)
_ROUTE = (
    Setting("topic.format", STRING, "${topic}-${timestamp}", "Name of the topic", HIGH),
    Setting("timestamp.format", STRING, "yyyyMMdd", "Pattern of Java's SimpleDateFormat", HIGH),
)
_REGEX = (
    Setting("regex", STRING, doc="Expression for the whole name", importance=HIGH),
    Setting("replacement", STRING, doc="New name, with $1 for groups", importance=HIGH),
)
_METADATA = (
    Setting("schema.name", STRING, None, "New name", HIGH),
    Setting("schema.version", INT, None, "New version", HIGH),
    _DEFAULTS,
)
_CAST = (Setting("spec", LIST, doc="field:type, or type for the whole", importance=HIGH), _DEFAULTS)
_INSERT_HEADER = (
    Setting("header", STRING, doc="Name of the header", importance=HIGH),
    Setting("value.literal", STRING, doc="Value of the header", importance=HIGH),
)

TRANSFORMS: dict[str, tuple[Callable[..., Transform], tuple[Setting, ...], bool]] = {
    "InsertField": (fields.InsertField, _INSERT, True),
    "ReplaceField": (fields.ReplaceField, _REPLACE, True),
    "MaskField": (fields.MaskField, _MASK, True),
    "ValueToKey": (fields.ValueToKey, _FIELDS, False),
    "HoistField": (
        fields.HoistField,
        (Setting("field", STRING, doc="Field to make", importance=MEDIUM),),
        True,
    ),
    "ExtractField": (fields.ExtractField, _EXTRACT, True),
    "Flatten": (whole.Flatten, (Setting("delimiter", STRING, ".", "Between the names", MEDIUM),), True),
    "Cast": (whole.Cast, _CAST, True),
    "SetSchemaMetadata": (whole.SetSchemaMetadata, _METADATA, True),
    "TimestampConverter": (times.TimestampConverter, _TIMES, True),
    "TimestampRouter": (times.TimestampRouter, _ROUTE, False),
    "RegexRouter": (headers.RegexRouter, _REGEX, False),
    "InsertHeader": (headers.InsertHeader, _INSERT_HEADER, False),
    "DropHeaders": (headers.DropHeaders, (Setting("headers", LIST, doc="Names", importance=HIGH),), False),
    "HeaderFrom": (headers.HeaderFrom, _HEADER_FROM, True),
    "Filter": (headers.Filter, (), False),
}
