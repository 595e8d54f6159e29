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
    assert refused(client, "POST", "/subjects/a/versions", other) == (422, 42207)
    assert refused(client, "PUT", "/mode", {"mode": "IMPORT"}) == (422, 42205)
    assert client.ask("DELETE", "/mode") == {"mode": "IMPORT"}
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
        ("POST", "/subjects/a/versions", {"schema": ""}, (422, 42201)),
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
            urllib.request.urlopen(request, timeout=10)
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
