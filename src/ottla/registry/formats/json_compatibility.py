"""Whether data that one JSON Schema allows is also allowed by another: the rules by which registries decide.

`reader` is the schema that has to accept what `writer` describes. A difference that only allows more is fine; any
other is a problem, named as Confluent's registry names it, with the place in the schema.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.serialization.json_pointer import Schema, pointed

SUMS, PRODUCT = ("oneOf", "anyOf"), "allOf"
_COMBINING = (*SUMS, PRODUCT)
# keyword, its name in problems, whether a larger value allows more
_BOUNDS = (
    ("maxLength", "MAX_LENGTH", True),
    ("minLength", "MIN_LENGTH", False),
    ("maximum", "MAXIMUM", True),
    ("minimum", "MINIMUM", False),
    ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", True),
    ("exclusiveMinimum", "EXCLUSIVE_MINIMUM", False),
    ("maxItems", "MAX_ITEMS", True),
    ("minItems", "MIN_ITEMS", False),
    ("maxProperties", "MAX_PROPERTIES", True),
    ("minProperties", "MIN_PROPERTIES", False),
)
# What is compared apart from combinations; other keywords, such as `format`, never make a difference.
_COMPARED = frozenset(
    (
        *(keyword for keyword, _, _ in _BOUNDS),
        *("type", "enum", "const", "pattern", "multipleOf", "uniqueItems", "not"),
        *("properties", "required", "patternProperties", "additionalProperties"),
        *("dependencies", "dependentRequired", "items", "prefixItems", "additionalItems"),
    )
)
_OF_OBJECTS = frozenset(
    ("properties", "additionalProperties", "required", "dependencies", "dependentRequired")
)
_SAYS_NOTHING = frozenset(
    (
        "$schema",
        "$id",
        "id",
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "definitions",
        "$defs",
    )
)
COMPARISONS_MAX = 200_000  # some seconds of a thread
OPEN, PARTLY, CLOSED = "open", "partially open", "closed"


class _TooMany(Exception):
    """Each way through branches and references is compared: there may be very many."""


class Comparison:
    """References are followed on both sides; a pair that is being compared already says nothing."""

    def __init__(
        self,
        reader: Schema,
        reader_references: Mapping[str, Any],
        writer: Schema,
        writer_references: Mapping[str, Any],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._references = (reader_references, writer_references)
        self._open: set[tuple[int, int]] = set()
        # By the identity of a schema, and kept: pairs in `_open` are identities too.
        self._split: dict[int, tuple[Schema | None, Schema | None]] = {}
        self._left = COMPARISONS_MAX

    def problems(self) -> list[str]:
        try:
            return self._compare("#", self._reader, self._writer)
        except _TooMany:
            return [
                _problem("#", "TOO_COMPLEX", f"more than {COMPARISONS_MAX} parts would have to be compared")
            ]

    def _compare(self, path: str, reader: Schema, writer: Schema) -> list[str]:
        self._left -= 1
        if self._left < 0:
            raise _TooMany
        reader = _resolved(reader, self._reader, self._references[0])
        writer = _resolved(writer, self._writer, self._references[1])
        if _accepts_all(reader) or writer is False:
            return []
        if reader is False or _accepts_all(writer):
            return [_problem(path, "SCHEMA_ADDED", "the reader restricts what the writer left free")]
        pair = (id(reader), id(writer))
        if pair in self._open:
            return []
        self._open.add(pair)
        try:
            return self._compare_objects(path, reader, writer)
        finally:
            self._open.discard(pair)

    def _compare_objects(self, path: str, reader: Schema, writer: Schema) -> list[str]:
        (combination, rest), (their_combination, their_rest) = self._parts(reader), self._parts(writer)
        if combination is not None and rest is not None:
            # The reader asks for both. Either part of the writer may promise what the rest asks for.
            combined = self._compare(
                path, combination, writer if their_combination is None else their_combination
            )
            promises = [part for part in (their_rest, their_combination) if part is not None]
            attempts = [self._compare(path, rest, promise) for promise in promises or [writer]]
            return combined + min(attempts, key=len)
        combined_problems = self._combined(path, reader, writer)
        if combined_problems is not None:
            return combined_problems
        problems = _types(path, reader, writer) + _enums(path, reader, writer)
        if problems:
            return problems
        problems = _bounds(path, reader, writer) + _strings(path, reader, writer)
        if _is_object(reader) or _is_object(writer):
            problems += self._properties(path, reader, writer)
        if _has(reader, writer, "items", "prefixItems", "additionalItems"):
            problems += self._items(path, reader, writer)
        if "not" in reader:
            problems += self._negations(path, reader, writer)
        return problems

    # -- oneOf, anyOf, allOf, not ----------------------------------------------------------------------

    def _parts(self, schema: Schema) -> tuple[Schema | None, Schema | None]:
        """What it combines, and what stands beside that; None where there is nothing."""
        if id(schema) not in self._split:
            combination = {name: part for name, part in schema.items() if name in _COMBINING}
            rest = {name: part for name, part in schema.items() if name in _COMPARED}
            self._split[id(schema)] = (combination or None, rest or None)
        return self._split[id(schema)]

    def _combined(self, path: str, reader: Schema, writer: Schema) -> list[str] | None:
        """None if neither side is combined of others."""
        for keyword in SUMS:
            if keyword in writer:
                missing = [
                    at for at, branch in enumerate(writer[keyword]) if self._compare(path, reader, branch)
                ]
                return [
                    _problem(
                        f"{path}/{keyword}/{at}", "SUM_TYPE_NARROWED", "no branch of the reader reads it"
                    )
                    for at in missing
                ]
        for keyword in SUMS:
            if keyword in reader:
                attempts = [self._compare(path, branch, writer) for branch in reader[keyword]]
                if any(not problems for problems in attempts):
                    return []
                return [
                    _problem(f"{path}/{keyword}", "COMBINED_TYPE_SUBSCHEMAS_CHANGED", "no branch reads it")
                ]
        if PRODUCT in reader or PRODUCT in writer:
            wanted, there = reader.get(PRODUCT, [reader]), writer.get(PRODUCT, [writer])
            return [
                _problem(f"{path}/{PRODUCT}/{at}", "PRODUCT_TYPE_EXTENDED", "the writer need not satisfy it")
                for at, branch in enumerate(wanted)
                if all(self._compare(path, branch, other) for other in there)
            ]
        return None

    def _negations(self, path: str, reader: Schema, writer: Schema) -> list[str]:
        if "not" not in writer:
            return [
                _problem(f"{path}/not", "NOT_TYPE_EXTENDED", "the writer may write what the reader excludes")
            ]
        if self._compare(f"{path}/not", writer["not"], reader["not"]):
            return [_problem(f"{path}/not", "NOT_TYPE_EXTENDED", "the reader excludes more")]
        return []

    # -- objects ---------------------------------------------------------------------------------------

    def _properties(self, path: str, reader: Schema, writer: Schema) -> list[str]:
        theirs, ours = writer.get("properties", {}), reader.get("properties", {})
        problems = self._required(path, reader, writer)
        for name, schema in theirs.items():
            place = f"{path}/properties/{name}"
            if name in ours:
                problems += self._compare(place, ours[name], schema)
            else:
                problems += self._removed(place, name, schema, reader)
        for name, schema in ours.items():
            if name not in theirs:
                problems += self._added(f"{path}/properties/{name}", name, schema, reader, writer)
        return problems + self._additional(path, reader, writer) + _dependencies(path, reader, writer)

    def _required(self, path: str, reader: Schema, writer: Schema) -> list[str]:
        properties, known = reader.get("properties", {}), writer.get("properties", {})
        added = set(reader.get("required", ())) - set(writer.get("required", ()))
        return [
            _problem(f"{path}/required/{name}", "REQUIRED_ATTRIBUTE_ADDED", "the writer may leave it out")
            for name in sorted(added)
            if (name in known or name not in properties) and not _has_default(properties.get(name))
        ]

    def _removed(self, place: str, name: str, schema: Schema, reader: Schema) -> list[str]:
        model = _model(reader)
        if model == OPEN or schema is False:
            return []
        covering = _covering(reader, name)
        if model == CLOSED or covering is None:
            kind = "CLOSED" if model == CLOSED else "PARTIALLY_OPEN"
            words = "the reader has no such property and allows no others"
            return [_problem(place, f"PROPERTY_REMOVED_FROM_{kind}_CONTENT_MODEL", words)]
        if self._compare(place, covering, schema):
            words = "what the reader allows for other properties does not cover it"
            return [_problem(place, "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", words)]
        return []

    def _added(self, place: str, name: str, schema: Schema, reader: Schema, writer: Schema) -> list[str]:
        model = _model(writer)
        if _accepts_all(schema) and name not in reader.get("required", ()):
            return []
        if model == OPEN:
            words = "the writer may have written anything under this name"
            return [_problem(place, "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", words)]
        covering = _covering(writer, name)
        if covering is not None and covering is not False and self._compare(place, schema, covering):
            words = "what the writer allows for other properties does not fit it"
            return [_problem(place, "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", words)]
        if name in reader.get("required", ()) and not _has_default(schema):
            words = "it is required and has no default"
            return [_problem(place, "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", words)]
        return []

    def _additional(self, path: str, reader: Schema, writer: Schema) -> list[str]:
        theirs, ours = (schema.get("additionalProperties", True) for schema in (writer, reader))
        if theirs is False or _accepts_all(ours):
            return []
        if ours is False:
            words = "the reader allows no other properties"
            return [_problem(f"{path}/additionalProperties", "ADDITIONAL_PROPERTIES_REMOVED", words)]
        return [
            _problem(f"{path}/additionalProperties", "ADDITIONAL_PROPERTIES_NARROWED", problem)
            for problem in self._compare(f"{path}/additionalProperties", ours, theirs)[:1]
        ]

    # -- arrays ----------------------------------------------------------------------------------------

    def _items(self, path: str, reader: Schema, writer: Schema) -> list[str]:
        ours, our_rest = _tuple_items(reader)
        theirs, their_rest = _tuple_items(writer)
        problems = []
        for at in range(max(len(ours), len(theirs))):
            wanted = ours[at] if at < len(ours) else our_rest
            there = theirs[at] if at < len(theirs) else their_rest
            problems += self._compare(f"{path}/items/{at}", wanted, there)
        return problems + self._compare(f"{path}/items", our_rest, their_rest)


def _types(path: str, reader: Schema, writer: Schema) -> list[str]:
    ours, theirs = _type_names(reader), _type_names(writer)
    if ours is None or (theirs is not None and theirs <= ours):
        return []
    kind = "TYPE_CHANGED" if theirs is None or not theirs & ours else "TYPE_NARROWED"
    return [_problem(f"{path}/type", kind, f"the reader takes {', '.join(sorted(ours))}")]


def _type_names(schema: Schema) -> set[str] | None:
    """None for any. An integer is a number too."""
    kinds = schema.get("type")
    if kinds is None:
        if "const" in schema or "enum" in schema:
            return None
        return {"object"} if "properties" in schema else None
    names = {kinds} if isinstance(kinds, str) else set(kinds)
    return names | {"integer"} if "number" in names else names


def _enums(path: str, reader: Schema, writer: Schema) -> list[str]:
    ours = _values(reader)
    if ours is None:
        return []
    theirs = _values(writer)
    if theirs is None:
        return [_problem(f"{path}/enum", "ENUM_ARRAY_NARROWED", "the writer may write other values")]
    missing = [value for value in theirs if value not in ours]
    if not missing:
        return []
    return [_problem(f"{path}/enum", "ENUM_ARRAY_NARROWED", f"the reader lacks {missing[0]!r}")]


def _values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")  # type: ignore[no-any-return]


def _bounds(path: str, reader: Schema, writer: Schema) -> list[str]:
    problems = []
    for keyword, name, larger_is_wider in _BOUNDS:
        ours, theirs = reader.get(keyword), writer.get(keyword)
        if ours is None or isinstance(ours, bool) or (keyword.startswith("min") and ours == 0):
            continue
        if theirs is None:
            problems.append(_problem(f"{path}/{keyword}", f"{name}_ADDED", f"the reader asks for {ours}"))
        elif (ours < theirs) if larger_is_wider else (ours > theirs):
            word = "DECREASED" if larger_is_wider else "INCREASED"
            problems.append(_problem(f"{path}/{keyword}", f"{name}_{word}", f"from {theirs} to {ours}"))
    return problems


def _strings(path: str, reader: Schema, writer: Schema) -> list[str]:
    problems = []
    if "pattern" in reader and reader["pattern"] != writer.get("pattern"):
        kind = "PATTERN_CHANGED" if "pattern" in writer else "PATTERN_ADDED"
        problems.append(_problem(f"{path}/pattern", kind, reader["pattern"]))
    if "multipleOf" in reader and not _is_multiple(writer.get("multipleOf"), reader["multipleOf"]):
        kind = "MULTIPLE_OF_CHANGED" if "multipleOf" in writer else "MULTIPLE_OF_ADDED"
        problems.append(_problem(f"{path}/multipleOf", kind, str(reader["multipleOf"])))
    if reader.get("uniqueItems") and not writer.get("uniqueItems"):
        problems.append(_problem(f"{path}/uniqueItems", "UNIQUE_ITEMS_ADDED", "the writer may repeat items"))
    return problems


def _is_multiple(theirs: Any, ours: Any) -> bool:
    return theirs is not None and theirs % ours == 0


def _dependencies(path: str, reader: Schema, writer: Schema) -> list[str]:
    ours = {**reader.get("dependencies", {}), **reader.get("dependentRequired", {})}
    theirs = {**writer.get("dependencies", {}), **writer.get("dependentRequired", {})}
    return [
        _problem(f"{path}/dependencies/{name}", "DEPENDENCY_ARRAY_ADDED", "the writer need not have them")
        for name, needed in ours.items()
        if isinstance(needed, list) and not set(needed) <= set(_listed(theirs.get(name)))
    ]


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _tuple_items(schema: Schema) -> tuple[list[Schema], Schema]:
    """The schemas of the first items, and that of all others."""
    items = schema.get("items", True)
    if isinstance(items, list):  # before draft 2020-12
        return items, schema.get("additionalItems", True)
    return schema.get("prefixItems", []), items


def _model(schema: Schema) -> str:
    """What is said about properties that have no schema of their own."""
    additional = schema.get("additionalProperties", True)
    if _accepts_all(additional) and not schema.get("patternProperties"):
        return OPEN
    return CLOSED if additional is False and not schema.get("patternProperties") else PARTLY


def _covering(schema: Schema, name: str) -> Schema | None:
    """The schema that a property without one of its own must satisfy."""
    for pattern, covering in schema.get("patternProperties", {}).items():
        if _search(pattern, name):
            return covering
    additional = schema.get("additionalProperties", True)
    return None if additional is False else additional


def _search(pattern: str, name: str) -> bool:
    import re2  # type: ignore[import-untyped,unused-ignore]

    try:
        return re2.search(pattern, name) is not None
    except re2.error:  # a look-around: patterns come from outside, so nothing that may take for ever decides
        return re.escape(pattern) == pattern and pattern in name


def _resolved(schema: Schema, root: Schema, references: Mapping[str, Any]) -> Schema:
    """Follows `$ref`; one that leads nowhere accepts everything."""
    seen: set[str] = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        address = schema["$ref"]
        if address in seen:
            return True
        seen.add(address)
        document, _, pointer = address.partition("#")
        schema = pointed(references.get(document, True) if document else root, pointer)
    return schema


def _accepts_all(schema: Schema) -> bool:
    return schema is True or (isinstance(schema, dict) and not set(schema) - _SAYS_NOTHING)


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or not _OF_OBJECTS.isdisjoint(schema)


def _has(reader: Schema, writer: Schema, *keywords: str) -> bool:
    return any(keyword in schema for schema in (reader, writer) for keyword in keywords)


def _has_default(schema: Schema) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _problem(path: str, kind: str, words: str) -> str:
    return f"{{errorType:'{kind}', description:'{words} at path {path}'}}"
