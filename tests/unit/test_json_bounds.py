"""JSON Schemas whose checks would take for ever: they are known before a value is checked."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.serialization.framing import BadValue
from ottla.serialization.json_bounds import LOOKS_MAX, Looks

REFUSED = "refers to its parts so often"


def doubled(levels):
    """Each level refers to the next one twice."""
    parts = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**parts, f"a{levels}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


def nested(depth, name="x"):
    value: Any = 1
    for _ in range(depth):
        value = {name: value}
    return value


def own(schema):
    """No two parts are one object, as after reading a text."""
    return json.loads(json.dumps(schema))


def test_a_schema_that_doubles_at_one_place_is_refused_and_a_small_one_is_not():
    Looks(own(doubled(10)), {}).check(1)
    with pytest.raises(BadValue, match=REFUSED):
        Looks(own(doubled(60)), {}).check(1)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_doubles_with_each_level_of_the_value_is_refused_for_deep_ones(keyword):
    schema = {
        "$defs": {"a": {"properties": {"x": {keyword: [{"$ref": "#/$defs/a"}] * 2}}}},
        "$ref": "#/$defs/a",
    }
    looks = Looks(own(schema), {})
    looks.check(nested(8))
    looks.check(nested(100, name="y"))
    with pytest.raises(BadValue, match=REFUSED):
        looks.check(nested(60))


def test_a_tree_is_looked_at_once_however_deep_it_is():
    tree: Any = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {}}}}
    for side in ("left", "right"):
        tree["$defs"]["tree"]["properties"][side] = {"$ref": "#/$defs/tree"}
    looks = Looks(own(tree), {})
    assert looks.are_few
    looks.check(nested(250, name="left"))


def test_references_by_names_anchors_and_other_documents_are_followed():
    bomb = own(doubled(60))
    inner = {"$anchor": "b", "allOf": [{"$ref": "other#/$defs/a0"}]}
    named = {"$id": "http://example.org/s", "$defs": {"b": inner}}
    with pytest.raises(BadValue, match=REFUSED):
        Looks(own({**named, "$ref": "#b"}), {"http://example.org/other": bomb}).check(1)
    with pytest.raises(BadValue, match=REFUSED):
        Looks({"$ref": "other"}, {"other": bomb}).check(1)
    with pytest.raises(BadValue, match="not known"):
        Looks({"$ref": "nowhere"}, {})


def test_a_schema_that_refers_to_itself_at_the_same_place_ends():
    Looks(own({"allOf": [{"$ref": "#"}]}), {}).check(1)


schemas = st.recursive(
    st.sampled_from([{"type": "integer"}, {"$ref": "#"}, True]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda each: {"anyOf": each}),
        st.dictionaries(st.sampled_from("xy"), inner, max_size=2).map(lambda each: {"properties": each}),
        inner.map(lambda each: {"items": each}),
    ),
    max_leaves=8,
)
values = st.recursive(
    st.integers(),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner)),
    max_leaves=10,
)


def looks_at(schema, value, root, open_here):
    """Counted by looking, in the plainest way."""
    if not isinstance(schema, dict) or id(schema) in open_here:
        return 0
    here = open_here | {id(schema)}
    count = 1
    if "$ref" in schema:
        count += looks_at(root, value, root, here)
    count += sum(looks_at(inner, value, root, here) for inner in schema.get("anyOf", ()))
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                count += looks_at(inner, value[name], root, frozenset())
    if isinstance(value, list):
        count += sum(looks_at(schema.get("items"), item, root, frozenset()) for item in value)
    return count


@given(schema=schemas, value=values)
def test_what_is_let_through_is_never_looked_at_more_often(schema, value):
    schema = own(schema)
    looks = Looks(schema, {})
    total = looks_at(schema, value, schema, frozenset())
    assert total <= LOOKS_MAX or not looks._is_worth_it(value)


def test_a_pattern_with_very_many_ways_through_a_text_does_not_match(monkeypatch):
    from ottla.serialization.json_schema import _Checker
    from ottla.serialization.registry_client import RegisteredSchema

    pattern = r"(?=.*)(a*)*(a*)*(a*)*b\1"
    registered = RegisteredSchema(1, json.dumps({"items": {"pattern": pattern}}), "JSON", ())
    with pytest.raises(BadValue):
        _Checker(None)(["a" * 60], registered)
