"""Metadata and rule sets: kept, inherited, merged with what the settings say; and GUIDs, which depend on them."""

import hashlib
import struct
import uuid

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    ServerConfig,
)

from tests.registry.test_rest import ORDER_1, ORDER_2, ORDER_3, refused

RULE = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}


def guid_by_hand(*parts):
    return str(uuid.UUID(bytes=hashlib.md5(b"".join(parts)).digest()))


def registered(client, subject, **body):
    client.ask("POST", f"/subjects/{subject}/versions", body)
    return client.ask("GET", f"/subjects/{subject}/versions/latest")


def test_a_guid_is_the_md5_of_what_the_schema_is_as_confluents_registry_computes_it(client):
    """Text; of each reference the name, subject and version; a one before metadata and rules, sorted."""
    assert registered(client, "a", schema='{"type": "int"}')["guid"] == guid_by_hand(b'"int"')
    inner = '{"type":"record","name":"I","namespace":"n","fields":[]}'
    registered(client, "inner", schema=inner)
    outer = '{"type":"record","name":"O","fields":[{"name":"i","type":"n.I"}]}'
    references = [{"name": "n.I", "subject": "inner", "version": 1}]
    assert registered(client, "b", schema=outer, references=references)["guid"] == guid_by_hand(
        outer.encode(), b"n.I", b"inner", struct.pack(">i", 1)
    )
    metadata = {
        "sensitive": ["z", "y"],
        "properties": {"owner": "ann", "m": "1"},
        "tags": {"a.b": ["Q", "P"]},
    }
    with_metadata = registered(client, "c", schema='"long"', metadata=metadata)
    assert with_metadata["guid"] == guid_by_hand(b'"long"\1', b"a.bPQ", b"m1ownerann", b"yz")
    assert with_metadata["metadata"] == {
        "tags": {"a.b": ["P", "Q"]},
        "properties": {"m": "1", "owner": "ann"},
        "sensitive": ["y", "z"],
    }
    rules = {
        "domainRules": [{**RULE, "params": {"k": "v"}, "tags": ["T"], "doc": "why", "onFailure": "DLQ"}],
        "migrationRules": [{"name": "up", "mode": "UPGRADE", "type": "JSONATA", "disabled": True}],
    }
    assert registered(client, "d", schema='"long"', ruleSet=rules)["guid"] == guid_by_hand(
        b'"long"\1', b"upTRANSFORMUPGRADEJSONATA\1", b"checkwhyCONDITIONWRITECELTkvtrueDLQ"
    )


def test_the_order_in_which_metadata_are_written_makes_no_other_schema(client):
    one = {"properties": {"a": "1", "b": "2"}}
    other = {"properties": {"b": "2", "a": "1"}, "unknown": 3}
    assert registered(client, "a", schema='"int"', metadata=one)["id"] == 1
    assert registered(client, "a", schema='"int"', metadata=other)["id"] == 1
    assert registered(client, "b", schema='"int"')["id"] == 2


def test_a_version_without_metadata_and_rules_has_those_of_the_one_before(client):
    extras = {"metadata": {"properties": {"owner": "ann"}}, "ruleSet": {"domainRules": [RULE]}}
    registered(client, "a", schema=ORDER_1, **extras)
    assert client.ask("POST", "/subjects/a", {"schema": ORDER_1})["version"] == 1
    assert registered(client, "a", schema=ORDER_1)["version"] == 1
    second = registered(client, "a", schema=ORDER_2)
    assert second["metadata"] == extras["metadata"]
    assert second["ruleSet"] == {"domainRules": [{**RULE, "disabled": False}]}
    third = registered(client, "a", metadata={"properties": {"owner": "bob"}})  # a new owner of the same text
    assert (third["version"], third["schema"]) == (3, ORDER_2)
    assert third["metadata"]["properties"] == {"owner": "bob"}


def test_a_version_can_be_named_by_its_metadata(client):
    first = registered(client, "a", schema=ORDER_1, version=1)
    assert first["metadata"]["properties"] == {"confluent:version": "1"}
    assert registered(client, "a", schema=ORDER_1)["version"] == 1
    assert registered(client, "a", schema=ORDER_2)["metadata"]["properties"] == {"confluent:version": "2"}
    assert client.ask("POST", "/subjects/a", {"schema": ORDER_2})["version"] == 2


def test_settings_add_defaults_and_overrides_and_compare_within_groups(confluent, client):
    confluent.set_config(
        "a",
        ServerConfig(
            default_metadata=Metadata(None, MetadataProperties({"major": "1", "owner": "all"}), None),
            override_metadata=Metadata(None, MetadataProperties({"owner": "ann"}), None),
            compatibility_group="major",
        ),
    )
    first = registered(client, "a", schema=ORDER_1)
    assert first["metadata"]["properties"] == {"major": "1", "owner": "ann"}
    assert refused(client, "POST", "/subjects/a/versions", {"schema": ORDER_3}) == (409, 409)
    second = registered(client, "a", schema=ORDER_3, metadata={"properties": {"major": "2", "owner": "bob"}})
    assert second["metadata"]["properties"] == {"major": "2", "owner": "ann"}
    confluent.set_compatibility("a", "FULL")  # and nothing else
    assert client.ask("GET", "/config/a")["compatibilityGroup"] == "major"
    client.ask("PUT", "/config/a", {"compatibilityGroup": None})
    assert "compatibilityGroup" not in client.ask("GET", "/config/a")


def test_confluents_client_registers_rules_and_finds_versions_by_metadata(confluent):
    rule = Rule(
        "check", "why", RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "true", None, None, False
    )
    metadata = Metadata(None, MetadataProperties({"major": "1"}), None)
    confluent.register_schema("a", Schema(ORDER_1, "AVRO", [], metadata, RuleSet(None, [rule])))
    latest = confluent.get_latest_with_metadata("a", {"major": "1"})
    assert latest.version == 1 and latest.schema.rule_set.domain_rules[0].expr == "true"
    by_guid = confluent.get_schema_by_guid(latest.guid)
    assert by_guid.schema_str == ORDER_1 and by_guid.metadata == metadata


@pytest.mark.parametrize("kind", ["AVRO", "AVRO in the middle"])
def test_a_schema_with_its_references_in_their_places_is_the_same(client, confluent, kind):
    enum = '{"type":"enum","name":"K","symbols":["A"]}'
    inner = f'{{"type":"record","name":"I","namespace":"n","fields":[{{"name":"k","type":{enum}}}]}}'
    registered(client, "inner", schema=inner)
    uses = '"n.I"' if kind == "AVRO" else '{"type":"array","items":["null","n.K","n.I"]}'
    outer = (
        f'{{"type":"record","name":"O","fields":[{{"name":"i","type":{uses}}},{{"name":"k","type":"n.K"}}]}}'
    )
    if kind != "AVRO":
        uses = uses.replace('"n.K"', '{"type":"enum","name":"K","namespace":"n","symbols":["A"]}').replace(
            '"n.I"', '{"type":"record","name":"I","namespace":"n","fields":[{"name":"k","type":"K"}]}'
        )
    else:
        uses = inner
    whole = (
        f'{{"type":"record","name":"O","fields":[{{"name":"i","type":{uses}}},{{"name":"k","type":"n.K"}}]}}'
    )
    reference = SchemaReference("n.I", "inner", 1)
    confluent.register_schema("outer", Schema(outer, "AVRO", [reference]))
    assert client.ask("GET", "/subjects/outer/versions/1?format=resolved")["schema"] == whole
    assert client.ask("POST", "/subjects/outer", {"schema": whole})["version"] == 1
    assert registered(client, "outer", schema=whole)["version"] == 1
