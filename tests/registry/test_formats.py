"""What can read what: each kind of schema, the seven levels, and the laws between them."""

import json

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.compatibility import LEVELS, problems
from ottla.registry.errors import RegistryError
from ottla.registry.formats import avro, json_schema, protobuf
from ottla.registry.formats.protobuf_text import printed


def can_read(parse, reader, writer):
    return not parse(reader, {}).cannot_read(parse(writer, {}))


# -- Avro --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{"type":"string"}', '"string"'),
        ("string", '"string"'),
        ('{"type": {"type": "int"}}', '"int"'),
        ('{"type":"string","logicalType":"uuid"}', '{"type":"string","logicalType":"uuid"}'),
        (
            '{"fields":[{"type":{"type":"int"},"name":"a","doc":"x"}],"name":"b.R","type":"record"}',
            '{"type":"record","name":"R","namespace":"b","fields":[{"name":"a","type":"int","doc":"x"}]}',
        ),
        (
            '{"type":"record","name":"R","namespace":"b","fields":[{"name":"next","type":["null","b.R"]}]}',
            '{"type":"record","name":"R","namespace":"b","fields":[{"name":"next","type":["null","R"]}]}',
        ),
        (
            '{"type":"enum","symbols":["A"],"name":"E","aliases":["F"],"x":1}',
            '{"type":"enum","name":"E","symbols":["A"],"x":1,"aliases":["F"]}',
        ),
        ('[ "null" , {"type":"map","values":{"type":"long"}} ]', '["null",{"type":"map","values":"long"}]'),
    ],
)
def test_avro_is_kept_as_javas_library_prints_it(text, canonical):
    parsed = avro.parse(text, {})
    assert parsed.canonical == canonical
    assert avro.parse(canonical, {}).canonical == canonical


@pytest.mark.parametrize(
    "text", ["", "{", '"nothing"', '{"type":"record","name":"R"}', '{"type":"enum","name":"E"}']
)
def test_what_is_no_avro_schema_is_refused(text):
    with pytest.raises(RegistryError) as raised:
        avro.parse(text, {})
    assert raised.value.code == 42201


def record(**fields):
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": name, **kind} for name, kind in fields.items()]}
    )


INT, STRING = {"type": "int"}, {"type": "string"}


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        (record(a=INT), record(a=INT, b=INT), True),
        (record(a=INT, b=INT), record(a=INT), False),
        (record(a=INT, b={"type": "int", "default": 1}), record(a=INT), True),
        (record(a={"type": "long"}), record(a=INT), True),
        (record(a=INT), record(a={"type": "long"}), False),
        (record(a={"type": ["null", "int"]}), record(a=INT), True),
        (record(a=INT), record(a={"type": ["null", "int"]}), False),
        (
            '{"type":"enum","name":"E","symbols":["A","B"]}',
            '{"type":"enum","name":"E","symbols":["A"]}',
            True,
        ),
        (
            '{"type":"enum","name":"E","symbols":["A"]}',
            '{"type":"enum","name":"E","symbols":["A","B"]}',
            False,
        ),
        ('{"type":"fixed","name":"F","size":4}', '{"type":"fixed","name":"F","size":5}', False),
        ('"bytes"', '"string"', True),
    ],
)
def test_avro_schemas_read_what_avro_says(reader, writer, reads):
    assert can_read(avro.parse, reader, writer) == reads


FIELDS = st.dictionaries(
    st.sampled_from("abcd"),
    st.sampled_from(
        [
            INT, STRING, {"type": "long"}, {"type": "int", "default": 3}, {"type": "string", "default": "x"},
            {"type": ["null", "int"], "default": None},
        ]
    ),
    max_size=4,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(FIELDS, FIELDS)
def test_what_the_registry_calls_readable_fastavro_reads(ours, theirs):
    """The check is Apache's library, the reader is another: if they disagree, one of our texts is wrong."""
    import io

    reader, writer = record(**ours), record(**theirs)
    values = {"int": 7, "long": 8, "string": "s"}
    value = {n: values.get(k["type"] if isinstance(k["type"], str) else "int") for n, k in theirs.items()}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(writer), value)
    out.seek(0)
    if can_read(avro.parse, reader, writer):
        read = fastavro.schemaless_reader(out, json.loads(writer), json.loads(reader))
        assert set(read) == set(ours)


# -- Protobuf ----------------------------------------------------------------------------------------------


def message(body, package="p"):
    return f'syntax = "proto3"; package {package}; message M {{ {body} }}'


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        (message("int32 a = 1; string b = 2;"), message("int32 a = 1;"), True),
        (message("int32 a = 1;"), message("int32 a = 1; string b = 2;"), True),
        (message("int64 a = 1;"), message("int32 a = 1;"), True),
        (message("string a = 1;"), message("int32 a = 1;"), False),
        (message("bytes a = 1;"), message("string a = 1;"), True),
        (message("sint32 a = 1;"), message("int32 a = 1;"), False),
        (message("repeated int32 a = 1;"), message("int32 a = 1;"), False),
        (message("repeated string a = 1;"), message("string a = 1;"), True),
        (message("int32 a = 1;", "q"), message("int32 a = 1;"), False),
        (message("oneof x { int32 a = 1; }"), message("int32 a = 1;"), True),
        (message("oneof x { int32 a = 1; int32 b = 2; }"), message("int32 a = 1; int32 b = 2;"), False),
        (message("oneof x { int32 a = 1; }"), message("oneof x { int32 a = 1; int32 b = 2; }"), False),
        (message("N n = 1; message N {}"), message("O n = 1; message O {} message N {}"), False),
        (message(""), message("message N {}"), False),
        ('syntax="proto2"; message M { required int32 a = 1; }', 'syntax="proto2"; message M { }', False),
    ],
)
def test_protobuf_schemas_read_what_the_wire_allows(reader, writer, reads):
    assert can_read(protobuf.parse, reader, writer) == reads


def test_a_descriptor_is_printed_and_compiled_back_to_itself():
    text = """syntax = "proto3";
package shop.v1;
import "google/protobuf/any.proto";
option java_package = "shop";
message Order {
  reserved 5, 9 to 11; reserved "old";
  map<string, Line> lines = 1; optional string note = 2; repeated double prices = 3 [packed = false];
  oneof how { Card card = 4; bool cash = 6; } google.protobuf.Any more = 7;
  message Line { sint64 n = 1; Colour colour = 2; enum Colour { option allow_alias = true; RED = 0; CRIMSON = 0; } }
}
message Card { bytes number = 1 [deprecated = true]; }
enum Kind { NONE = 0; ONE = 1; }
service Shop { rpc Buy (Order) returns (stream Card); }
"""
    parsed = protobuf.parse(text, {})
    again = protobuf.parse(parsed.formatted("serialized"), {})
    assert again.file == parsed.file and again.canonical == printed(parsed.file) == parsed.normalized


def test_a_reference_cannot_leave_its_folder():
    with pytest.raises(RegistryError, match="leaves its folder"):
        protobuf.parse('syntax = "proto3";', {"../evil.proto": 'syntax = "proto3";'})


# -- JSON Schema -------------------------------------------------------------------------------------------


def closed(**properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


def opened(**properties):
    return {"type": "object", "properties": properties}


S, N, W = {"type": "string"}, {"type": "number"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        (N, W, True),
        (W, N, False),
        ({"type": ["string", "null"]}, S, True),
        (S, {"type": ["string", "null"]}, False),
        (True, S, True),
        (S, True, False),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, True),
        ({"type": "string", "maxLength": 4}, {"type": "string", "maxLength": 5}, False),
        ({"type": "string", "maxLength": 4}, S, False),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 2}, True),
        ({"type": "integer", "minimum": 3}, {"type": "integer", "minimum": 2}, False),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, True),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, False),
        (opened(a=S), opened(a=S), True),
        (opened(a=S), opened(a=S, b=S), True),
        (opened(a=S, b=S), opened(a=S), False),
        (closed(a=S, b=S), closed(a=S), True),
        (closed(a=S), closed(a=S, b=S), False),
        ({**closed(a=S, b=S), "required": ["b"]}, closed(a=S), False),
        ({**closed(a=S, b={**S, "default": "x"}), "required": ["b"]}, closed(a=S), True),
        ({**opened(a=S), "required": ["a"]}, opened(a=S), False),
        (opened(a=S), {**opened(a=S), "required": ["a"]}, True),
        (closed(a=S), opened(a=S), False),
        ({"oneOf": [S, W]}, S, True),
        (S, {"oneOf": [S, W]}, False),
        ({"oneOf": [S, W, {"type": "null"}]}, {"oneOf": [S, W]}, True),
        ({"allOf": [{"maxLength": 3}, {"minLength": 1}]}, {"allOf": [{"maxLength": 3}]}, False),
        ({"type": "array", "items": N}, {"type": "array", "items": W}, True),
        ({"type": "array", "items": W}, {"type": "array", "items": N}, False),
        ({"$ref": "#/$defs/x", "$defs": {"x": N}}, W, True),
        (opened(n={"$ref": "#"}), opened(n={"$ref": "#"}), True),
    ],
)  # fmt: skip
def test_json_schemas_read_what_allows_less(reader, writer, reads):
    assert can_read(json_schema.parse, json.dumps(reader), json.dumps(writer)) == reads


SIMPLE = st.sampled_from(
    [S, N, W, {"type": "boolean"}, {"type": ["string", "null"]}, {"type": "integer", "minimum": 0}]
)
OBJECTS = st.builds(
    lambda properties, required, extra: {
        "type": "object",
        "properties": properties,
        "required": sorted(required & set(properties)),
        "additionalProperties": extra,
    },
    st.dictionaries(st.sampled_from("abc"), SIMPLE, max_size=3),
    st.sets(st.sampled_from("abc")),
    st.sampled_from([True, False]),
)
VALUES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["x", 1, -1, 1.5, None, True]), max_size=4)


@settings(max_examples=300, deadline=None)
@given(OBJECTS, OBJECTS, st.lists(VALUES, min_size=5, max_size=20))
def test_a_value_that_the_writer_allows_is_allowed_by_every_reader_that_can_read_it(reader, writer, values):
    import jsonschema_rs

    if can_read(json_schema.parse, json.dumps(reader), json.dumps(writer)):
        for value in values:
            if jsonschema_rs.is_valid(writer, value):
                assert jsonschema_rs.is_valid(reader, value), value


# -- levels ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(FIELDS, FIELDS)
def test_backward_from_one_to_the_other_is_forward_the_other_way(ours, theirs):
    first, second = avro.parse(record(**ours), {}), avro.parse(record(**theirs), {})
    backward = problems("BACKWARD", first, [(1, second)])
    assert bool(backward) == bool(problems("FORWARD", second, [(1, first)]))
    both = backward or problems("FORWARD", first, [(1, second)])
    assert bool(both) == bool(problems("FULL", first, [(1, second)]))
    assert problems("NONE", first, [(1, second)]) == []


def test_transitive_levels_look_at_all_versions():
    versions = [record(a=INT), record(a=INT, b={"type": "int", "default": 1}), record(a=INT, b=INT)]
    parsed = [(number, avro.parse(text, {})) for number, text in enumerate(versions, 1)]
    newest = parsed[2][1]
    assert problems("BACKWARD", newest, parsed[:2]) == []
    assert "{oldSchemaVersion: 1}" in problems("BACKWARD_TRANSITIVE", newest, parsed[:2])
    assert all(problems(level, newest, []) == [] for level in LEVELS)


def test_another_kind_of_schema_is_never_compatible():
    avro_int, json_int = avro.parse('"int"', {}), json_schema.parse('{"type":"integer"}', {})
    assert "SCHEMA_TYPE_CHANGED" in problems("BACKWARD", avro_int, [(1, json_int)])[0]
