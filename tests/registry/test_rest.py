"""The REST API as Confluent's clients know it: paths, answers, codes."""

import pytest
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, Schema, ServerConfig
from confluent_kafka.schema_registry.error import SchemaRegistryError

from ottla.serialization import RegistryRefused

INT = '"int"'
ORDER_1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'
ORDER_2 = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
ORDER_3 = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"n","type":"int"}]}'
)


def refused(client, method, path, body=None):
    with pytest.raises(RegistryRefused) as raised:
        client.ask(method, path, body)
    return raised.value.status, raised.value.code


def test_the_first_schema_has_id_1_and_the_same_text_keeps_it(client):
    assert client.ask("POST", "/subjects/a/versions", {"schema": '{"type":"string"}'})["id"] == 1
    assert client.ask("POST", "/subjects/a/versions", {"schema": '"string"'})["id"] == 1
    assert client.ask("POST", "/subjects/b/versions", {"schema": '"string"'})["id"] == 1
    assert client.ask("POST", "/subjects/b/versions/", {"schema": '"string"'})["id"] == 1
    assert client.ask("GET", "/subjects") == ["a", "b"]
    assert client.ask("GET", "/schemas/ids/1")["schema"] == '"string"'
    assert client.ask("GET", "/schemas/ids/1/subjects") == ["a", "b"]
    assert client.ask("GET", "/subjects/a/versions/latest") == {
        "subject": "a", "version": 1, "id": 1, "schema": '"string"',
        "guid": client.ask("GET", "/schemas/ids/1")["guid"],
    }  # fmt: skip


def test_confluents_client_registers_looks_up_and_deletes(confluent):
    first = confluent.register_schema("orders-value", Schema(ORDER_1, "AVRO"))
    second = confluent.register_schema("orders-value", Schema(ORDER_2, "AVRO"))
    assert (first, second) == (1, 2)
    assert confluent.get_versions("orders-value") == [1, 2]
    assert confluent.get_latest_version("orders-value").schema_id == 2
    assert confluent.lookup_schema("orders-value", Schema(ORDER_1, "AVRO")).version == 1
    assert confluent.get_schema(1).schema_str == ORDER_1
    assert confluent.delete_version("orders-value", 1) == 1
    assert confluent.get_versions("orders-value") == [2]
    assert confluent.delete_subject("orders-value") == [2]
    assert confluent.delete_subject("orders-value", permanent=True) == [1, 2]
    assert confluent.get_subjects() == []


def test_an_incompatible_schema_is_refused_with_409_and_the_reason(confluent):
    confluent.register_schema("orders-value", Schema(ORDER_1, "AVRO"))
    with pytest.raises(SchemaRegistryError) as raised:
        confluent.register_schema("orders-value", Schema(ORDER_3, "AVRO"))
    assert raised.value.http_status_code == 409 and raised.value.error_code == 409
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in str(raised.value)
    assert not confluent.test_compatibility("orders-value", Schema(ORDER_3, "AVRO"))
    assert confluent.test_compatibility("orders-value", Schema(ORDER_2, "AVRO"))


def test_levels_are_set_for_all_for_a_subject_and_taken_back(confluent):
    assert confluent.get_compatibility() == "BACKWARD"
    confluent.set_compatibility(level="FULL")
    assert confluent.get_compatibility() == "FULL"
    confluent.set_config("a", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    confluent.register_schema("a", Schema(ORDER_1, "AVRO"))
    assert confluent.register_schema("a", Schema('"int"', "AVRO")) == 2
    assert confluent.delete_config("a").compatibility_level == "NONE"
    with pytest.raises(SchemaRegistryError) as raised:
        confluent.get_config("a")
    assert raised.value.error_code == 40408


def test_modes_forbid_writing_and_let_ids_be_imported(client):
    client.ask("PUT", "/mode", {"mode": "READONLY"})
    assert refused(client, "POST", "/subjects/a/versions", {"schema": INT}) == (422, 42205)
    client.ask("PUT", "/mode", {"mode": "IMPORT"})
    body = {"schema": INT, "id": 70, "version": 5}
    assert client.ask("POST", "/subjects/a/versions", body)["id"] == 70
    assert client.ask("GET", "/subjects/a/versions") == [5]
    other = {"schema": '"long"', "id": 70, "version": 6}
    assert refused(client, "POST", "/subjects/a/versions", other) == (422, 42205)
    assert refused(client, "POST", "/subjects/b/versions", {"schema": INT}) == (422, 42205)
    assert client.ask("DELETE", "/mode") == {"mode": "IMPORT"}
    assert refused(client, "PUT", "/mode", {"mode": "IMPORT"}) == (422, 42205)
    assert client.ask("POST", "/subjects/b/versions", {"schema": '"long"'})["id"] == 71


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        ("GET", "/subjects/none/versions", None, (404, 40401)),
        ("GET", "/subjects/a/versions/7", None, (404, 40402)),
        ("GET", "/subjects/a/versions/0", None, (422, 42202)),
        ("GET", "/subjects/a/versions/x", None, (422, 42202)),
        ("GET", "/schemas/ids/99", None, (404, 40403)),
        ("POST", "/subjects/a", {"schema": '"long"'}, (404, 40403)),
        ("POST", "/subjects/none", {"schema": INT}, (404, 40401)),
        ("POST", "/subjects/a/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/none/versions", {"schema": ""}, (422, 42201)),
        ("POST", "/subjects/a", {"schema": ""}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"long"', "version": 7}, (422, 42201)),
        ("POST", "/compatibility/subjects/a/versions/7", {"schema": INT}, (404, 40402)),
        ("POST", "/subjects/a/versions", {"schema": INT, "metadata": 3}, (422, 422)),
        ("POST", "/subjects/a/versions", {"schema": INT, "ruleSet": {"domainRules": [{"name": "1"}]}}, (422, 42210)),
        ("POST", "/subjects/a/versions", {"schema": INT, "schemaType": "XML"}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"long"', "id": 9}, (422, 42205)),
        ("DELETE", "/subjects/a?permanent=true", None, (404, 40405)),
        ("DELETE", "/subjects/a/versions/1?permanent=true", None, (404, 40407)),
        ("PUT", "/config", {"compatibility": "SOME"}, (422, 42203)),
        ("PUT", "/mode", {"mode": "SOME"}, (422, 42204)),
        ("GET", "/mode/a", None, (404, 40409)),
        ("GET", "/config/a", None, (404, 40408)),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": INT}, (422, 42208)),
        ("GET", "/nothing", None, (404, 404)),
        ("PUT", "/subjects", {}, (405, 405)),
        ("PUT", "/config", [1], (422, 422)),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_code(client, method, path, body, refusal):
    client.ask("POST", "/subjects/a/versions", {"schema": INT})
    assert refused(client, method, path, body) == refusal


def test_a_deleted_version_is_soft_first_and_its_number_is_not_given_again(client):
    for schema in (ORDER_1, ORDER_2):
        client.ask("POST", "/subjects/a/versions", {"schema": schema})
    assert client.ask("DELETE", "/subjects/a/versions/2") == 2
    assert refused(client, "DELETE", "/subjects/a/versions/2") == (404, 40406)
    assert client.ask("GET", "/subjects/a/versions?deleted=true") == [1, 2]
    assert client.ask("GET", "/subjects/a/versions?deletedOnly=true") == [2]
    assert client.ask("GET", "/subjects/a/versions/2?deleted=true")["deleted"] is True
    answer = client.ask("POST", "/subjects/a/versions", {"schema": ORDER_2})
    assert (answer["id"], answer["version"]) == (2, 3)


def test_a_subject_that_was_soft_deleted_can_be_registered_again(client):
    client.ask("POST", "/subjects/a/versions", {"schema": INT})
    assert client.ask("DELETE", "/subjects/a") == [1]
    assert refused(client, "DELETE", "/subjects/a") == (404, 40404)
    assert client.ask("GET", "/subjects?deleted=true") == ["a"]
    answer = client.ask("POST", "/subjects/a/versions", {"schema": INT})
    assert (answer["id"], answer["version"]) == (1, 2)


def test_what_others_refer_to_cannot_be_deleted(client):
    client.ask(
        "POST", "/subjects/item/versions", {"schema": '{"type":"record","name":"shop.Item","fields":[]}'}
    )
    order = '{"type":"record","name":"Order","fields":[{"name":"item","type":"shop.Item"}]}'
    reference = {"name": "shop.Item", "subject": "item", "version": 1}
    assert refused(client, "POST", "/subjects/order/versions", {"schema": order}) == (422, 42201)
    body = {"schema": order, "references": [reference]}
    assert client.ask("POST", "/subjects/order/versions", body)["id"] == 2
    assert client.ask("GET", "/subjects/item/versions/1/referencedby") == [2]
    assert client.ask("GET", "/schemas/ids/2")["references"] == [reference]
    assert refused(client, "DELETE", "/subjects/item") == (422, 42206)
    assert refused(client, "DELETE", "/subjects/item/versions/1") == (422, 42206)
    missing = {"schema": order, "references": [{**reference, "version": 9}]}
    assert refused(client, "POST", "/subjects/order/versions", missing) == (422, 42201)


def test_contexts_have_ids_of_their_own(client):
    assert client.ask("POST", "/subjects/a/versions", {"schema": INT})["id"] == 1
    assert client.ask("POST", "/subjects/%3A.staging%3Aa/versions", {"schema": '"long"'})["id"] == 1
    assert client.ask("GET", "/contexts") == [".", ".staging"]
    assert client.ask("GET", "/schemas/ids/1")["schema"] == INT
    assert client.ask("GET", "/schemas/ids/1?subject=:.staging:a")["schema"] == '"long"'
    assert client.ask("GET", "/subjects?subjectPrefix=:.staging:") == [":.staging:a"]


def test_a_subject_may_have_a_slash_and_metadata_is_kept(client):
    metadata = {"properties": {"owner": "ward 7"}}
    body = {"schema": INT, "metadata": metadata, "ruleSet": {"domainRules": []}}
    client.ask("POST", "/subjects/a%2Fb/versions", body)
    assert client.ask("GET", "/subjects") == ["a/b"]
    assert client.ask("GET", "/subjects/a%2Fb/versions/1")["metadata"] == metadata
    found = client.ask("GET", "/subjects/a%2Fb/metadata?key=owner&value=ward%207")
    assert found["version"] == 1


def test_pages_and_all_schemas(client):
    for name in "abc":
        client.ask(
            "POST",
            f"/subjects/{name}/versions",
            {"schema": f'{{"type":"record","name":"{name}","fields":[]}}'},
        )
    assert client.ask("GET", "/subjects?offset=1&limit=1") == ["b"]
    assert [row["subject"] for row in client.ask("GET", "/schemas")] == ["a", "b", "c"]
    assert client.ask("GET", "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    guid = client.ask("GET", "/schemas/ids/2")["guid"]
    assert client.ask("GET", f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 2}]


def test_a_body_that_is_not_json_or_too_large_is_refused(broker):
    import urllib.error
    import urllib.request

    for data, status in ((b"{", 400), (b'"' + b"x" * 5_000_000 + b'"', 413)):
        request = urllib.request.Request(f"{broker.registry}/subjects/a/versions", data, method="POST")
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request, timeout=60)
        assert raised.value.code == status


def test_paths_below_a_context_mean_its_subjects_and_ids(client):
    inside = "/contexts/.staging"
    client.ask("POST", "/subjects/a/versions", {"schema": INT})
    assert client.ask("POST", f"{inside}/subjects/a/versions", {"schema": '"long"'})["id"] == 1
    assert client.ask("GET", f"{inside}/subjects") == [":.staging:a"]
    assert client.ask("GET", "/contexts/:.:/subjects") == ["a"]
    assert client.ask("GET", f"{inside}/schemas/ids/1")["schema"] == '"long"'
    assert client.ask("GET", f"{inside}/schemas/ids/1/subjects") == [":.staging:a"]
    assert client.ask("GET", f"{inside}/schemas/ids/1/versions") == [{"subject": ":.staging:a", "version": 1}]
    assert client.ask("GET", f"{inside}/subjects/a/versions/1")["subject"] == ":.staging:a"
    assert client.ask("GET", f"{inside}/config")["compatibilityLevel"] == "BACKWARD"
    client.ask("PUT", f"{inside}/config", {"compatibility": "NONE"})
    assert client.ask("GET", "/config/:.staging:")["compatibilityLevel"] == "NONE"
    assert client.ask("GET", "/config")["compatibilityLevel"] == "BACKWARD"
    assert client.ask("POST", f"{inside}/compatibility/subjects/a/versions/1", {"schema": INT}) == {
        "is_compatible": True
    }
    assert client.ask("GET", "/contexts?contextPrefix=.s") == [".staging"]
    assert refused(client, "DELETE", inside) == (422, 42205)
    assert refused(client, "DELETE", "/contexts/.nowhere") == (404, 40401)


def test_a_schema_by_its_guid_names_a_version_that_has_it(client):
    guid = client.ask("POST", "/subjects/a/versions", {"schema": INT})["guid"]
    told = client.ask("GET", f"/schemas/guids/{guid}")
    assert (told["subject"], told["version"], told["id"]) == ("a", 1, 1)
    assert refused(client, "GET", f"/schemas/guids/{'0' * 8}-0000-0000-0000-{'0' * 12}/ids") == (404, 40403)


def test_a_schema_that_is_known_is_answered_in_every_mode(client):
    """Producers that register what they write go on while nothing may be changed."""
    client.ask("POST", "/subjects/a/versions", {"schema": INT})
    client.ask("PUT", "/mode", {"mode": "READONLY"})
    assert client.ask("POST", "/subjects/a/versions", {"schema": INT})["id"] == 1
    assert refused(client, "POST", "/subjects/b/versions", {"schema": INT}) == (422, 42205)
    assert refused(client, "GET", "/mode/a") == (404, 40409)
    client.ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    assert client.ask("GET", "/mode/a") == {"mode": "READONLY_OVERRIDE"}


def test_a_subject_without_versions_loses_its_settings_and_its_latest_version(client):
    for schema in (ORDER_1, ORDER_2):
        client.ask("POST", "/subjects/a/versions", {"schema": schema})
    client.ask("PUT", "/config/a", {"compatibility": "FULL"})
    client.ask("PUT", "/mode/a", {"mode": "READWRITE"})
    client.ask("DELETE", "/subjects/a/versions/2")
    assert client.ask("GET", "/subjects/a/versions/latest?deleted=true")["version"] == 1
    assert client.ask("GET", "/config/a") == {"compatibilityLevel": "FULL"}
    client.ask("DELETE", "/subjects/a/versions/latest")
    assert refused(client, "GET", "/config/a") == (404, 40408)
    assert refused(client, "GET", "/mode/a") == (404, 40409)
    assert refused(client, "GET", "/subjects/a/versions/latest?deleted=true") == (404, 40401)
    # The same schema again: with its id, in the place of the version that was deleted.
    again = client.ask("POST", "/subjects/a/versions", {"schema": ORDER_1})
    assert (again["id"], again["version"]) == (1, 3)
    assert client.ask("GET", "/subjects/a/versions?deleted=true") == [2, 3]


def test_an_import_begins_with_what_was_soft_deleted_gone(client):
    client.ask("POST", "/subjects/a/versions", {"schema": INT})
    assert refused(client, "PUT", "/mode/a", {"mode": "IMPORT"}) == (422, 42205)
    client.ask("DELETE", "/subjects/a")
    client.ask("PUT", "/mode/a", {"mode": "IMPORT"})
    assert client.ask("GET", "/subjects?deleted=true") == []
    client.ask("POST", "/subjects/a/versions", {"schema": '"long"', "id": 1, "version": 3})
    assert client.ask("GET", "/subjects/a/versions") == [3]


def test_compatibility_with_nothing_and_of_no_schema(client):
    latest = "/compatibility/subjects/a/versions/latest"
    assert client.ask("POST", latest, {"schema": INT}) == {"is_compatible": True}
    told = client.ask("POST", f"{latest}?verbose=true", {"schema": "{"})
    assert not told["is_compatible"] and "Invalid schema" in told["messages"][0]
    assert refused(client, "POST", latest, {"schema": "{"}) == (422, 42201)


@pytest.mark.parametrize(
    ("kind", "versions", "refusals"),
    [
        # Without b, with an optional b, with a b of another type: each level refuses what it must.
        (
            "AVRO",
            [ORDER_1, ORDER_2, ORDER_2.replace('["null","string"]', '["null","int"]')],
            {"BACKWARD": 2, "FORWARD": 2, "FULL": 2, "BACKWARD_TRANSITIVE": 2, "NONE": None},
        ),
        (
            "PROTOBUF",
            [
                'syntax = "proto3"; message M { string a = 1; }',
                'syntax = "proto3"; message M { string a = 1; int32 b = 2; }',
                'syntax = "proto3"; message M { string a = 1; string b = 2; }',
            ],
            {"BACKWARD": 2, "FORWARD": 2, "FULL": 2, "FORWARD_TRANSITIVE": 2, "NONE": None},
        ),
        (
            "JSON",
            [
                '{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}',
                '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":false}',
                '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"additionalProperties":false}',
            ],
            {"BACKWARD": 2, "FORWARD": 1, "FULL": 1, "NONE": None},
        ),
        # The third fits the second and not the first: only a transitive level sees it.
        (
            "AVRO",
            [ORDER_2, ORDER_1, ORDER_2.replace('["null","string"]', '["null","int"]')],
            {"BACKWARD": None, "BACKWARD_TRANSITIVE": 2, "FORWARD_TRANSITIVE": 2, "FULL_TRANSITIVE": 2, "FULL": None},
        ),
    ],
)  # fmt: skip
def test_levels_refuse_what_confluents_documentation_says(client, kind, versions, refusals):
    """`refusals`: which of the versions is the first that the level refuses."""
    for level, first_refused in refusals.items():
        subject = f"{level}-{kind}-{len(refusals)}"
        client.ask("PUT", f"/config/{subject}", {"compatibility": level})
        for number, schema in enumerate(versions):
            body = {"schema": schema, "schemaType": kind}
            if number == first_refused:
                assert refused(client, "POST", f"/subjects/{subject}/versions", body) == (409, 409)
                break
            client.ask("POST", f"/subjects/{subject}/versions", body)


def test_a_subject_with_an_alias_stands_for_another(client, confluent):
    confluent.register_schema("orders-value", Schema(ORDER_1, "AVRO"))
    client.ask("PUT", "/config/short", {"alias": "orders-value"})
    assert client.ask("GET", "/config/short") == {"alias": "orders-value"}
    assert confluent.get_latest_version("short").subject == "orders-value"
    assert confluent.lookup_schema("short", Schema(ORDER_1, "AVRO")).version == 1
    assert confluent.register_schema("short", Schema(ORDER_2, "AVRO")) == 2
    assert client.ask("GET", "/subjects") == ["orders-value"]
    assert client.ask("GET", "/subjects/short/versions") == [1, 2]
    assert client.ask("GET", "/schemas/ids/2/subjects?subject=short") == ["orders-value"]
    assert client.ask("GET", "/contexts/./subjects/short/versions") == [1, 2]
    path = "/compatibility/subjects/short/versions/latest"
    assert client.ask("POST", path, {"schema": ORDER_3}) == {"is_compatible": False}
    client.ask("PUT", "/config/shorter", {"alias": "short"})  # an alias of an alias is not followed
    assert refused(client, "GET", "/subjects/shorter/versions") == (404, 40401)
    client.ask("PUT", "/config/short", {"alias": None})
    assert refused(client, "GET", "/subjects/short/versions") == (404, 40401)


@pytest.mark.parametrize("level", ["BACKWARD", "NONE"])
@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        ("AVRO", '{"type":"record","name":"R","fields":[{"name":"city","type":"string","default":""}]}'),
        ("JSON", '{"type":"object","properties":{"city":{"type":"string"}}}'),
        ("PROTOBUF", 'syntax = "proto3"; message R { string city = 1; }'),
    ],
)
def test_fields_that_the_metadata_reserve_stay_free_where_they_are_validated(
    client, level, schema_type, text
):
    def register(schema, reserved):
        body = {"schema": schema, "schemaType": schema_type}
        body["metadata"] = {"properties": {"confluent:reserved": reserved}}
        return client.ask("POST", "/subjects/r/versions", body)

    client.ask("PUT", "/config/r", {"compatibility": level, "validateFields": True})
    with pytest.raises(RegistryRefused, match=r"has the field city, .*\{validateFields: 'true'") as raised:
        register(text, "name, city")
    assert raised.value.code == 409
    register(text, "name, street")
    with pytest.raises(RegistryRefused, match="no longer reserves the field street"):
        register(text, "name")
    client.ask("PUT", "/config/r", {"validateFields": False})
    assert register(text, "name, city")["version"] == 2


def test_a_json_field_that_begins_with_two_dollars_is_refused_where_fields_are_validated(client):
    schema = {"schema": '{"type":"object","properties":{"$$x":{}}}', "schemaType": "JSON"}
    client.ask("PUT", "/config", {"validateFields": True})
    assert refused(client, "POST", "/subjects/j/versions", schema) == (422, 42201)
    client.ask("PUT", "/config", {"validateFields": False})
    assert client.ask("POST", "/subjects/j/versions", schema)["id"] == 1


BEYOND = (2**31, 2**40, -5, float("inf"), float("nan"), "x", [])


def test_an_import_takes_no_id_and_no_version_that_clients_cannot_read(client):
    client.ask("PUT", "/mode", {"mode": "IMPORT"})
    for number in (0, *BEYOND):
        status, _ = refused(client, "POST", "/subjects/a/versions", {"schema": INT, "id": number})
        assert status == 422
    for number in BEYOND:
        body = {"schema": INT, "id": 1, "version": number}
        assert refused(client, "POST", "/subjects/a/versions", body)[0] == 422
        body = {"schema": INT, "id": 1, "references": [{"name": "a", "subject": "a", "version": number}]}
        assert refused(client, "POST", "/subjects/a/versions", body)[0] == 422
    highest = {"schema": INT, "id": 2**31 - 1, "version": 2**31 - 1}
    assert client.ask("POST", "/subjects/a/versions", highest)["id"] == 2**31 - 1
    refers = [{"name": "a", "subject": "a", "version": 2**31 - 1}]
    body = {"schema": '"long"', "id": 5, "references": refers}
    assert client.ask("POST", "/subjects/b/versions", body)["version"] == 1
    assert client.ask("GET", "/subjects/a/versions") == [2**31 - 1]


@pytest.mark.parametrize(
    "body",
    [
        {"schema": '{"type":"record","name":"R","doc":"\\ud800","fields":[]}'},
        {"schema": '{"type":"record","name":"R","doc":"\ud800","fields":[]}'},
        {"schema": '{"title":"\\udc00"}', "schemaType": "JSON"},
        {"schema": '{"title":"\udc00"}', "schemaType": "JSON"},
        {"schema": 'syntax = "proto3"; // \ud800', "schemaType": "PROTOBUF"},
        {"schema": INT, "schemaType": "\ud800"},
        {"schema": INT, "references": [{"name": "a", "subject": "\ud800", "version": 1}]},
        {"schema": INT, "metadata": {"properties": {"a": "\ud800"}}},
        {"schema": INT, "ruleSet": {"domainRules": [{"name": "a", "type": "b", "doc": "\ud800"}]}},
    ],
)
def test_text_that_is_no_unicode_is_refused(client, body, caplog):
    client.ask("POST", "/subjects/a/versions", {"schema": '"string"'})
    for path in ("/subjects/a/versions", "/subjects/a", "/compatibility/subjects/a/versions"):
        assert refused(client, "POST", path, body) == (422, 42201)
    assert client.ask("GET", "/subjects/a/versions") == [1]
    assert not [record for record in caplog.records if record.exc_info]


def test_a_refusal_that_quotes_text_that_is_no_unicode_is_an_answer(client):
    assert refused(client, "POST", "/subjects/a/versions", {"schema": INT, "id": "\ud800"}) == (422, 422)
    settings = {"defaultMetadata": {"properties": {"\ud800": 5}}}
    assert refused(client, "PUT", "/config", settings) == (422, 422)


DIGITS = "9" * 5000


def test_a_number_of_thousands_of_digits_is_one_that_does_not_exist(client, caplog):
    client.ask("POST", "/subjects/a/versions", {"schema": INT})
    for path in (
        f"/schemas/ids/{DIGITS}",
        f"/schemas/ids/{DIGITS}/schema",
        f"/schemas/ids/{DIGITS}/versions",
    ):
        assert refused(client, "GET", path) == (404, 404)
    for method in ("GET", "DELETE"):
        assert refused(client, method, f"/subjects/a/versions/{DIGITS}") == (422, 42202)
    assert refused(client, "GET", "/subjects/a/versions/0") == (422, 42202)
    assert refused(client, "GET", f"/subjects/a/versions/{2**31}") == (422, 42202)
    assert refused(client, "GET", f"/subjects/a/versions/{2**31 - 1}") == (404, 40402)
    for number in (1, 2):
        schema = f'{{"$ref":"#/anyOf/{DIGITS}","anyOf":[true],"title":"{number}"}}'
        client.ask("POST", "/subjects/b/versions", {"schema": schema, "schemaType": "JSON"})
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("name", ["alias", "compatibilityGroup", "compatibilityPolicy"])
def test_settings_that_are_texts_are_texts_or_null(client, name):
    for value in ({}, [], 5, True, "\ud800"):
        assert refused(client, "PUT", "/config/g", {name: value}) == (422, 422)
    assert client.ask("PUT", "/config/g", {name: "x"}) == {name: "x"}
    assert client.ask("PUT", "/config/g", {name: None}) == {name: None}


@pytest.mark.parametrize("name", ["normalize", "validateFields", "validateRules"])
def test_settings_that_are_yes_or_no_are_that_or_null(client, name):
    for value in ({}, [], 5, "true"):
        assert refused(client, "PUT", "/config/g", {name: value}) == (422, 422)
    assert client.ask("PUT", "/config/g", {name: True}) == {name: True}
    assert client.ask("PUT", "/config/g", {name: None}) == {name: None}


def test_rules_that_are_no_list_are_refused(client):
    for kind in ("domainRules", "migrationRules", "encodingRules"):
        assert refused(client, "PUT", "/config/g", {"defaultRuleSet": {kind: 5}}) == (422, 422)
        body = {"schema": INT, "ruleSet": {kind: 5}}
        assert refused(client, "POST", "/subjects/a/versions", body) == (422, 422)
