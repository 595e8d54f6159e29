"""What stands beside a cluster: values with schemas, share and streams groups, connectors, mirrors."""

from __future__ import annotations

import json

from tests.console.consoles import Console, rows, shared, until
from tests.console.surroundings import NEXT_ORDER, ORDER


def records(client, path):
    (block,) = (block for block in client.json(path)["blocks"] if block.get("key") in ("records", "matches"))
    return block["messages"]


def test_values_with_schemas_are_decoded(client):
    ada, bob, cem, visit, broken, unknown, plain = (
        record["value"] for record in records(client, "/topics/described/messages?from=oldest")
    )
    assert ada == {"number": 7, "patient": "Ada"}
    assert bob == {"number": 8, "patient": "Bob"}  # its schema's GUID stands in a header
    assert cem == {"name": "Cem"}
    assert visit == {"ward": 11}
    assert broken.startswith("000000  00 00 00 00") and "no schema" in unknown
    assert plain == "plain text"
    page = client.get("/topics/described/messages?from=oldest").text
    assert "Avro, schema 1," in page and "JSON Schema, schema" in page and "Protobuf, schema" in page
    assert "not decoded: " in page


def test_what_a_viewer_sees_of_a_value_with_a_schema_can_be_searched_for(client):
    path = "/topics/described/search?q=%22patient%22%3A+%22Bob%22&part=value&run=schemas"
    until(lambda: "The whole topic was searched" in client.get(path).text, "the search ends")
    assert [record["value"] for record in records(client, path)] == [{"number": 8, "patient": "Bob"}]


def test_fields_of_a_value_with_a_schema_are_masked(broker, surroundings):
    options = ["--registry", surroundings.registry, "--mask", "described:value.patient"]
    with Console(broker.bootstrap, *options) as console:
        client = console.client()
        first = records(client, "/topics/described/messages?from=oldest")[0]
        assert first["value"] == {"number": 7, "patient": "•••"}
        path = "/topics/described/search?q=Ada&run=masked"
        until(lambda: "The whole topic was searched" in client.get(path).text, "the search ends")
        assert records(client, path) == []


def test_live_records_are_decoded(window, broker, surroundings):
    from ottla.serialization import AvroSerializer

    broker.create_topic("decoded-live", 1)
    window.goto("/topics/decoded-live/messages?live=1")
    window.page.locator("[data-tail][data-ready]").wait_for(state="attached")
    value = AvroSerializer(surroundings.client, ORDER, topic="decoded-live")({"number": 1, "patient": "Dana"})
    broker.send("decoded-live", value)
    window.page.get_by_text('{"number": 1, "patient": "Dana"}').first.wait_for()


def test_without_its_registry_values_are_shown_as_bytes(broker):
    with Console(broker.bootstrap, "--registry", "http://127.0.0.1:1") as console:
        client = console.client()
        page = client.get("/topics/described/messages?from=oldest").text
        assert "00 00 00 00 01" in page
        assert "Values with schemas are shown as bytes: no schema registry answers" in page
        assert client.get("/schemas").status == 502


def test_subjects_versions_and_their_difference_are_shown(client):
    subjects = {row["subject"]: row for row in rows(client.json("/schemas"), "subjects")}
    assert subjects["described-value"] == {
        "subject": "described-value", "type": "Avro", "version": 2, "id": subjects["described-value"]["id"],
    }  # fmt: skip
    page = client.json("/schemas/described-value")
    text = {block["key"]: block["text"] for block in page["blocks"] if block["kind"] == "text"}
    assert json.loads(text["schema"]) == NEXT_ORDER
    assert '+      "name": "ward",' in text["difference"]
    assert client.get("/schemas/described-value?version=1").status == 200
    assert client.get("/schemas/described-value?version=9").status == 404
    assert client.get("/schemas/no%2Fsuch").status == 404
    places = rows(client.json("/schema?id=1"), "places")
    assert {"subject": "described-value", "version": 1} in places


def test_a_schema_is_checked_and_registered_and_a_level_is_set(client, surroundings):
    incompatible = json.dumps({**ORDER, "fields": [{"name": "other", "type": "int"}]})
    client.change("register-schema", subject="described-value", type="AVRO", schema=incompatible, check="1")
    page = client.get("/changes").text
    assert "not compatible with described-value" in page and "Nothing was changed" in page
    client.change("register-schema", subject="new/subject", type="AVRO", schema=json.dumps(ORDER))
    assert "new/subject" in surroundings.client.subjects()
    client.change("set-level", subject="new/subject", level="FULL")
    assert surroundings.client.ask("GET", "/config/new%2Fsubject")["compatibilityLevel"] == "FULL"


def test_a_share_group_shows_its_members_and_how_far_it_is(client):
    until(lambda: shared(client)["lag"] == 6, "the share group's lag")
    row = shared(client)
    assert (row["partition"], row["committed"], row["end"]) == ("shared-0", 4, 10)
    assert row["owner"] == ["sharer-1"]
    page = client.json("/group?id=sharers")
    figures = {figure["key"]: figure for figure in page["figures"]}
    assert figures["oldest"]["label"] == "Oldest unacknowledged" and figures["oldest"]["value"] > 0
    assert figures["members"]["value"] == 1
    (member,) = rows(page, "members")
    assert member["client"] == "sharer-1" and member["assignment"] == ["shared-0"]
    path = "/topics/__share_group_state/search?q=sharers&part=key&run=states"
    until(lambda: "The whole topic was searched" in client.get(path).text, "the search for states ends")
    newest = records(client, path)[-1]["value"]
    assert newest["startOffset"] == 4 and {each["deliveryState"] for each in newest["stateBatches"]} <= {
        "available",
        "acknowledged",
    }
    listed = {row["group"]: row for row in rows(client.json("/groups?type=share"), "groups")}
    assert list(listed) == ["sharers"] and listed["sharers"]["lag"] == 6


def test_a_streams_group_shows_its_tasks_and_its_topology(client):
    page = client.json("/group?id=word-count")
    assert "streams protocol" in page["subtitle"]
    (member,) = rows(page, "members")
    assert (member["client"], member["process"]) == ("word-count-client", "process-1")
    assert member["active"] == ["0_0", "0_1"] and member["standby"] == [] and member["target"] == ""
    (part,) = rows(page, "topology")
    assert (part["subtopology"], part["tasks"]) == ("0", 2)
    assert part["sources"] == ["sentences"] and part["changelogs"] == ["word-count-store-changelog"]
    owners = {row["partition"]: row["owner"] for row in rows(page, "progress")}
    assert owners == {"sentences-0": ["word-count-client"], "sentences-1": ["word-count-client"]}
    listed = {row["group"]: row for row in rows(client.json("/groups?type=streams"), "groups")}
    assert list(listed) == ["word-count"] and listed["word-count"]["state"] == "Stable"


def test_a_group_shows_how_long_its_oldest_unread_record_waits(client, broker):
    from ottla import Admin, OffsetAndMetadata, TopicPartition

    broker.create_topic("waiting", 1)
    broker.send("waiting", "old")
    place = TopicPartition("waiting", 0)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("slow", {place: OffsetAndMetadata(0)})

    def oldest(key="oldest"):
        (row,) = rows(client.json("/group?id=slow"), "progress")
        return row[key]

    until(lambda: client.get("/group?id=slow").status == 200, "the group")
    assert until(oldest, "an age") > 0
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("slow", {place: OffsetAndMetadata(1)})
    until(lambda: oldest("committed") == 1, "the new position")
    assert oldest() == 0


def test_a_connector_is_shown_without_its_secrets_paused_and_restarted(client):
    def state():
        (row,) = (
            row for row in rows(client.json("/connectors"), "connectors") if row["connector"] == "lines"
        )
        return row["state"]

    until(lambda: state() == "RUNNING", "the connector runs")
    page = client.get("/connectors/lines").text
    assert "hunter2" not in page and "hunter2" not in client.get("/connectors/lines?format=json").text
    settings = {row["setting"]: row["value"] for row in rows(client.json("/connectors/lines"), "settings")}
    assert settings["a.password"] == "•••" and settings["topic"] == "lines"
    assert rows(client.json("/connectors/lines"), "tasks")[0]["state"] == "RUNNING"
    client.change("connector", connector="lines", action="pause")
    until(lambda: state() == "PAUSED", "the connector is paused")
    client.change("connector", connector="lines", action="resume")
    until(lambda: state() == "RUNNING", "the connector runs again")
    assert client.change("restart-task", connector="lines", task="0").status == 303
    assert "connector=lines task=0" in client.get("/changes").text
    assert client.get("/connectors/nobody").status == 404


def test_only_a_console_that_may_change_things_offers_it(broker, surroundings):
    with Console(broker.bootstrap, *surroundings.options) as console:
        client = console.client()
        for path in ("/connectors/lines", "/schemas", "/schemas/described-value"):
            assert "/do/" not in client.get(path).text
        assert client.change("connector", connector="lines", action="stop").status == 403


def test_a_mirror_shows_its_lag_in_records_and_seconds(client, surroundings):
    page = client.json("/mirrors")
    (link,) = rows(page, "links")
    assert (link["link"], link["by"]) == ("A->B", "ottla mirror")
    (copy,) = rows(page, "partitions")
    assert (copy["partition"], copy["position"], copy["records"]) == ("A.visits-0", 5, 5)
    surroundings.source.send("visits", "one more")

    def lag():
        (copy,) = rows(client.json("/mirrors"), "partitions")
        return copy["lag"]

    until(lambda: lag() == 1, "the lag that the mirror's page tells")
    assert rows(client.json("/mirrors"), "partitions")[0]["seconds"] >= 0


def test_pages_of_what_is_not_there_say_how_to_have_it(broker):
    with Console(broker.bootstrap) as console:
        client = console.client()
        assert "--registry" in client.get("/schemas").text
        assert "--connect" in client.get("/connectors").text
        assert client.get("/mirrors").status == 200
