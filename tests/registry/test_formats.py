"""What can read what: each kind of schema, the seven levels, and the laws between them."""

import base64
import json

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
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


def named(name, kind="record", **parts):
    return {"type": kind, "name": name, "namespace": "com.x", "fields": [], **parts}


@pytest.mark.parametrize(
    ("aliases", "reads"),
    [
        (["Old"], True),
        (["com.x.Old"], True),
        (["com.y.Old", "Old"], True),
        (["com.y.Old"], False),
        (["Older"], False),
        ([], False),
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        lambda schema: schema,
        lambda schema: {"type": "array", "items": schema},
        lambda schema: named("Outer", fields=[{"name": "inner", "type": ["null", schema]}]),
    ],
)
def test_avro_names_are_changed_with_aliases_of_the_same_namespace(around, aliases, reads):
    old, new = (json.dumps(around(schema)) for schema in (named("Old"), named("New", aliases=aliases)))
    assert can_read(avro.parse, new, old) == reads
    assert "com.x.Old" not in avro.parse(new, {}).canonical  # kept as Java's library prints it


def test_avro_aliases_of_a_schema_that_is_referred_to_count():
    outer = json.dumps(named("Outer", fields=[{"name": "a", "type": "New"}]))
    old_outer = outer.replace("New", "Old")
    reader = avro.parse(outer, {"n": json.dumps(named("New", aliases=["Old"]))})
    assert not reader.cannot_read(avro.parse(old_outer, {"o": json.dumps(named("Old"))}))


def test_avro_errors_are_compared_as_records():
    old, new = (named("E", "error", fields=[{"name": "a", "type": kind}]) for kind in ("int", "long"))
    assert can_read(avro.parse, json.dumps(new), json.dumps(old))
    assert not can_read(avro.parse, json.dumps(old), json.dumps(new))
    assert '"type":"error"' in avro.parse(json.dumps(new), {}).canonical


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


def encoded(**parts):
    """A file's descriptor as clients send it."""
    return base64.b64encode(FileDescriptorProto(name="x.proto", **parts).SerializeToString()).decode()


def field(**parts):
    return {"name": "a", "number": 1, "label": Field.LABEL_OPTIONAL, "type": Field.TYPE_STRING, **parts}


MAP = {"name": "AEntry", "options": {"map_entry": True}}


@pytest.mark.parametrize(
    "message",
    [
        {"field": [field(oneof_index=7)]},
        {"field": [field(type=Field.TYPE_MESSAGE, type_name=".M.AEntry")], "nested_type": [MAP]},
        {"field": [field(type=Field.TYPE_MESSAGE)]},
    ],
)
def test_a_descriptor_that_is_not_complete_is_refused(message):
    text = encoded(message_type=[{"name": "M", **message}])
    for sent, references in ((text, {}), ('syntax = "proto3"; import "x.proto";', {"x.proto": text})):
        with pytest.raises(RegistryError) as raised:
            protobuf.parse(sent, references)
        assert raised.value.code == 42201


@pytest.mark.parametrize("default", ['say "hi"', "back\\slash", "two\nlines", "\r\t\x00", "\\n", "grün", "'"])
def test_strings_of_a_descriptor_are_printed_so_that_they_are_read_back(default):
    message = {"name": "M", "field": [field(default_value=default)]}
    parsed = protobuf.parse(encoded(message_type=[message], options={"java_package": default}), {})
    assert parsed.file.message_type[0].field[0].default_value == default
    assert parsed.file.options.java_package == default
    assert protobuf.parse(parsed.normalized, {}).file == parsed.file


def test_bytes_of_a_descriptor_are_escaped_already():
    text = 'syntax = "proto2"; message M { optional bytes a = 1 [default = "\\"\\\\\\n\\377"]; }'
    parsed = protobuf.parse(text, {})
    assert protobuf.parse(parsed.formatted("serialized"), {}).file == parsed.file


def test_a_name_in_json_that_is_not_the_usual_one_is_printed():
    names = 'string a_bc = 1; string _x__y_ = 2; string B1_2c = 3; string d = 4 [json_name = "D\\""];'
    text = f'syntax = "proto3"; message M {{ {names} map<string, int32> m = 5 [json_name = "n"]; }}'
    parsed = protobuf.parse(text, {})
    again = protobuf.parse(parsed.formatted("serialized"), {})
    assert again.file == parsed.file
    assert again.canonical.count("json_name") == 2


def test_a_reference_cannot_leave_its_folder():
    with pytest.raises(RegistryError, match="leaves its folder"):
        protobuf.parse('syntax = "proto3";', {"../evil.proto": 'syntax = "proto3";'})


# -- JSON Schema -------------------------------------------------------------------------------------------


def closed(**properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


def opened(**properties):
    return {"type": "object", "properties": properties}


def beside(**properties):
    """A closed object, and a combination beside what it says."""
    return {**closed(**properties), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}


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
        (beside(a=S), beside(a=S), True),
        (beside(a=W), beside(a=S), False),
        (beside(a=N), beside(a=W), True),
        (beside(a=S, b=S), beside(a=S), True),
        (beside(a=S), beside(a=S, b=S), False),
        (beside(a={"type": "array", "items": beside(b=W)}), beside(a={"type": "array", "items": beside(b=S)}), False),
        ({**beside(a=S), "title": "x", "format": "y", "connect.index": 1}, beside(a=S), True),
        ({"oneOf": [S, W], "format": "y", "connect.index": 1}, {"oneOf": [S, W]}, True),
        ({"type": "object", "oneOf": [closed(a=S), closed(b=S)]}, {"oneOf": [closed(a=S), closed(b=S)]}, True),
        ({"type": "object", "oneOf": [closed(a=S), S]}, {"oneOf": [closed(a=S), S]}, False),
        ({"oneOf": [closed(a=S), S]}, {"type": "object", "oneOf": [closed(a=S), S]}, True),
        ({**S, "anyOf": [{"maxLength": 5}, {"minLength": 1}]}, {**S, "anyOf": [{"maxLength": 5}]}, True),
        ({**S, "maxLength": 3, "allOf": [{"minLength": 1}]}, {**S, "allOf": [{"minLength": 1}]}, False),
        ({**W, "anyOf": [{}, {"minimum": 1}]}, S, False),
        ({**S, "anyOf": [{}, {"minimum": 1}]}, S, True),
        ({"anyOf": [{"required": ["a"]}]}, {"anyOf": [{"required": ["b"]}]}, False),
        ({"anyOf": [{"required": ["a"]}]}, {"anyOf": [{"required": ["a", "b"]}]}, True),
        ({"type": "array", "items": N}, {"type": "array", "items": W}, True),
        ({"type": "array", "items": W}, {"type": "array", "items": N}, False),
        ({"$ref": "#/$defs/x", "$defs": {"x": N}}, W, True),
        (opened(n={"$ref": "#"}), opened(n={"$ref": "#"}), True),
    ],
)  # fmt: skip
def test_json_schemas_read_what_allows_less(reader, writer, reads):
    assert can_read(json_schema.parse, json.dumps(reader), json.dumps(writer)) == reads


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"multipleOf": 0}, {"multipleOf": 0}),
        ({"multipleOf": 10**400}, {"multipleOf": 0.5}),
        ({"type": 5}, {"type": "string"}),
        ({"type": "string"}, {"type": 5}),
        ({"type": [[]]}, {"type": "string"}),
        ({"properties": []}, {"properties": []}),
        ({"properties": {"a": 5}}, {"properties": {"a": True}}),
        ({"maxLength": "x"}, {"maxLength": 4}),
        ({"oneOf": 5}, {"type": "string"}),
        ({"required": 5, "type": "object"}, {"type": "object"}),
        ({"items": "x"}, {"items": {"type": "string"}}),
    ],
)
def test_a_part_behind_a_reference_that_is_no_schema_is_named(first, second):
    versions = [json_schema.parse(json.dumps({"$ref": "#/foo", "foo": foo}), {}) for foo in (first, second)]
    reasons = problems("FULL", versions[1], [(1, versions[0])])
    assert "errorType" in reasons[0]


def test_json_schemas_that_combine_themselves_are_compared_to_an_end():
    def tree(kind):
        node = {"type": "object", "properties": {"left": {"$ref": "#"}, "value": kind}}
        return {**node, "anyOf": [{"$ref": "#"}, {"type": "object", "properties": {"right": {"$ref": "#"}}}]}

    assert can_read(json_schema.parse, json.dumps(tree(S)), json.dumps(tree(S)))
    assert not can_read(json_schema.parse, json.dumps(tree(W)), json.dumps(tree(S)))


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
BRANCHES = st.lists(
    st.sampled_from(
        [{}, {"required": ["a"]}, {"required": ["b"]}, {"properties": {"a": S}}, {"type": "object"}]
    ),
    min_size=1,
    max_size=3,
)
COMBINED = st.builds(
    lambda schema, keyword, branches: {**schema, keyword: branches},
    OBJECTS,
    st.sampled_from(["anyOf", "allOf"]),
    BRANCHES,
)
VALUES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["x", 1, -1, 1.5, None, True]), max_size=4)


@settings(max_examples=300, deadline=None)
@given(OBJECTS | COMBINED, OBJECTS | COMBINED, st.lists(VALUES, min_size=5, max_size=20))
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


@settings(max_examples=60, deadline=None)
@given(FIELDS, st.lists(FIELDS, min_size=1, max_size=4), st.sampled_from(["BACKWARD", "FORWARD", "FULL"]))
def test_transitive_is_each_version_by_itself(ours, others, level):
    new = avro.parse(record(**ours), {})
    earlier = [(number, avro.parse(record(**fields), {})) for number, fields in enumerate(others, 1)]
    by_itself = [bool(problems(level, new, [each])) for each in earlier]
    assert bool(problems(f"{level}_TRANSITIVE", new, earlier)) == any(by_itself)
    assert bool(problems(level, new, earlier)) == by_itself[-1]


@settings(max_examples=60, deadline=None)
@given(
    FIELDS, st.sampled_from([{"type": "int", "default": 3}, {"type": ["null", "string"], "default": None}])
)
def test_a_field_with_a_default_that_comes_or_goes_is_fully_compatible_in_avro(fields, added):
    before, after = avro.parse(record(**fields), {}), avro.parse(record(**fields, new=added), {})
    assert problems("FULL", after, [(1, before)]) == []
    assert problems("FULL", before, [(1, after)]) == []
    without = avro.parse(record(**fields, new=INT), {})
    assert problems("BACKWARD", without, [(1, before)]) and not problems("FORWARD", without, [(1, before)])


KINDS = ("int32", "string", "bytes", "double", "repeated int64", "map<string, bool>")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(KINDS), max_size=4), st.sampled_from(KINDS))
def test_a_field_that_comes_or_goes_is_fully_compatible_in_protobuf(kinds, added):
    fields = [f"{kind} f{number} = {number};" for number, kind in enumerate(kinds, 1)]
    before = protobuf.parse(message(" ".join(fields)), {})
    after = protobuf.parse(message(" ".join([*fields, f"{added} new = 99;"])), {})
    assert problems("FULL", after, [(1, before)]) == []
    assert problems("FULL", before, [(1, after)]) == []


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), SIMPLE, max_size=3), SIMPLE)
def test_a_property_is_added_to_closed_json_objects_and_taken_from_open_ones(properties, added):
    """To an open one it is not: values may have it already, and anything in it."""
    grown = {**properties, "new": added}
    for model, may_grow in ((closed, True), (opened, False)):
        before = json_schema.parse(json.dumps(model(**properties)), {})
        after = json_schema.parse(json.dumps(model(**grown)), {})
        assert bool(problems("BACKWARD", after, [(1, before)])) != may_grow
        assert bool(problems("BACKWARD", before, [(1, after)])) == may_grow
        assert problems("FULL", after, [(1, before)])


def test_another_kind_of_schema_is_never_compatible():
    avro_int, json_int = avro.parse('"int"', {}), json_schema.parse('{"type":"integer"}', {})
    assert "SCHEMA_TYPE_CHANGED" in problems("BACKWARD", avro_int, [(1, json_int)])[0]
