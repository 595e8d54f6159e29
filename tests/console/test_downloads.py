"""Records and tables as files for programs: whole, or with a word on what is missing."""

from __future__ import annotations

import base64
import csv
import io
import json
from types import SimpleNamespace

import pytest

from ottla import Admin, NewTopic, OffsetAndMetadata, TopicPartition
from ottla.console import decoding, export
from ottla.console.masking import HIDDEN, Masks
from ottla.console.searching import RUNNING_MAX
from ottla.testing import Broker
from tests.console.consoles import Client, Console, until

MEGABYTE = "y" * 999_999 + "z"
BINARY = bytes(range(256)) * 40  # more than a page shows of a hexdump
REPEATED = [
    ("trace", b"first"),
    ("kind", b"rare"),
    ("trace", b"second"),
    ("raw", b"\xff\x00"),
    ("none", None),
]


def lines(client: Client, path: str) -> list[dict]:
    answer = client.get(f"{path}&format=jsonl")
    assert answer.status == 200
    return [json.loads(line) for line in answer.text.splitlines()]


def table(client: Client, path: str) -> list[dict[str, str]]:
    answer = client.get(f"{path}{'&' if '?' in path else '?'}format=csv")
    assert answer.status == 200
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


@pytest.fixture(autouse=True)
def large_cells():
    """Python's reader takes fields of up to 128 KB unless told otherwise."""
    before = csv.field_size_limit(2**24)
    yield
    csv.field_size_limit(before)


@pytest.fixture(scope="module")
def topic(broker):
    broker.create_topic("downloaded", 1)
    broker.send("downloaded", MEGABYTE, "k")
    broker.send("downloaded", BINARY, b"\xff\xfe", headers=REPEATED)
    broker.send("downloaded", json.dumps({"text": MEGABYTE}), None)
    return "/topics/downloaded/messages?from=oldest"


def test_values_are_whole_in_jsonl(client, topic):
    text, binary, document = lines(client, topic)
    assert text["value"] == MEGABYTE and text["value_encoding"] == "text"
    assert (binary["key_encoding"], binary["value_encoding"]) == ("base64", "base64")
    assert base64.b64decode(binary["key"]) == b"\xff\xfe"
    assert base64.b64decode(binary["value"]) == BINARY
    assert document["value"] == {"text": MEGABYTE} and document["value_encoding"] == "json"
    assert document["key"] is None and document["key_encoding"] is None
    assert not any("truncated" in row for row in (text, binary, document))


def test_values_are_whole_in_csv(client, topic):
    text, binary, document = table(client, topic)
    assert text["value"] == MEGABYTE and text["value_encoding"] == "text"
    assert base64.b64decode(binary["value"]) == BINARY and binary["value_encoding"] == "base64"
    assert json.loads(document["value"]) == {"text": MEGABYTE}
    assert {row["truncated"] for row in (text, binary, document)} == {""}


def test_the_json_of_a_page_says_what_it_has_not_whole(client, topic):
    (block,) = (block for block in client.json(topic)["blocks"] if block.get("key") == "records")
    text, binary, document = block["messages"]
    assert text["truncated"] == binary["truncated"] == document["truncated"] == "only the beginning of value"
    assert (text["value_encoding"], binary["value_encoding"]) == ("text", "hexdump")


def test_all_headers_are_in_a_download_in_their_order(client, topic):
    wanted = [
        {"name": "trace", "value": "first", "encoding": "text"},
        {"name": "kind", "value": "rare", "encoding": "text"},
        {"name": "trace", "value": "second", "encoding": "text"},
        {"name": "raw", "value": base64.b64encode(b"\xff\x00").decode(), "encoding": "base64"},
        {"name": "none", "value": None, "encoding": None},
    ]
    assert lines(client, topic)[1]["headers"] == wanted
    assert json.loads(table(client, topic)[1]["headers"]) == wanted


def test_a_download_that_stops_at_a_limit_says_so_in_its_last_line(client, broker):
    broker.create_topic("heavy", 1)
    for _ in range(18):
        broker.send("heavy", MEGABYTE)
    path = "/topics/heavy/messages?from=oldest"
    *records, last = lines(client, path)
    assert len(records) < 18 and all(record["value"] == MEGABYTE for record in records)
    assert list(last) == ["truncated"] and "16 MB" in last["truncated"]
    *rows, last = table(client, path)
    assert len(rows) < 18 and all(row["value"] == MEGABYTE and not row["truncated"] for row in rows)
    assert "16 MB" in last.pop("truncated") and set(last.values()) == {""}


def test_a_page_of_large_headers_is_bounded(client, broker):
    headers = [("large", b"h" * 999_999)]
    broker.create_topic("headed", 1)
    for _ in range(18):
        broker.send("headed", "v", headers=headers)
    *records, last = lines(client, "/topics/headed/messages?from=oldest")
    assert len(records) < 18 and "16 MB" in last["truncated"]


def test_a_search_that_has_not_all_matches_says_so_in_its_download(client, broker):
    broker.create_topic("sought", 1)
    broker.send("sought", "needle " + MEGABYTE)
    path = "/topics/sought/search?q=needle&run=download"
    broker.delay("Fetch", 600_000, times=None, topic="sought")
    try:
        assert "still runs" in lines(client, path)[-1]["truncated"]
        key = client.get(path).text.split('name="search" value="')[1].split('"')[0]
        client.change("stop-search", search=key)
        until(lambda: "Stopped" in lines(client, path)[-1]["truncated"], "the search is stopped")
    finally:
        broker.heal()
    path = "/topics/sought/search?q=needle&run=whole"
    until(lambda: "The whole topic was searched" in client.get(path).text, "the search ends")
    (match,) = lines(client, path)
    assert match["truncated"] == "only the beginning of value"
    (row,) = table(client, path)
    assert row["truncated"] == "only the beginning of value" and row["offset"] == "0"


def test_a_search_that_has_to_wait_for_others_says_so_in_its_download(broker):
    broker.create_topic("busy", 1)
    broker.send("busy", "x")
    broker.delay("Fetch", 600_000, times=None, topic="busy")
    try:
        with Console(broker.bootstrap) as console:
            client = console.client()
            for run in range(RUNNING_MAX):
                client.get(f"/topics/busy/search?q=zzz&run={run}")
            (last,) = lines(client, "/topics/busy/search?q=zzz&run=another")
            assert "searches run already" in last["truncated"]
    finally:
        broker.heal()


def test_what_is_hidden_is_hidden_in_whole_downloads():
    masks = Masks.parse(["t:value.name", "t:key", "t:header.auth*"])
    for value in (json.dumps({"name": "Ada", "text": MEGABYTE}).encode(), b"\xffAda" + BINARY):
        headers = [("auth", b"\xffAda"), ("auth", b"Ada")]
        record = SimpleNamespace(
            topic="t", partition=0, offset=0, timestamp=0, key=b"\xffAda", value=value, headers=headers
        )
        shown = decoding.message(record, masks, shown_max=None, with_command=False)
        row = export.message_row(shown)
        assert row["key"] == HIDDEN and [header["value"] for header in row["headers"]] == [HIDDEN] * 2
        assert row["value"] in (HIDDEN, {"name": HIDDEN, "text": MEGABYTE})
        for text in (export.messages_jsonl([shown]), export.messages_csv([shown])):
            assert "Ada" not in text and base64.b64encode(b"\xffAda").decode()[:4] not in text


def test_what_json_cannot_say_again_is_a_text_in_a_download():
    for data in (b'{"a": 1e999}', b"[NaN]", b"[" * 900 + b"]" * 900):
        part = decoding.decode(data, shown_max=None)
        assert (part.kind, part.text) == ("text", data.decode())


def test_base64_that_begins_like_a_formula_is_a_text_in_csv():
    part = decoding.decode(b"\xfb\xff\xfe", shown_max=None)
    assert part.text.startswith("+")
    assert export.safe_cell(part.text) == f"'{part.text}"


def test_the_csv_of_a_list_has_all_rows():
    names = [f"topic-{i:03}" for i in range(250)]
    with Broker() as broker, Console(broker.bootstrap) as console:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(name, 1) for name in names])
        client = console.client()
        until(lambda: "of 250" in client.get("/topics").text, "all topics are seen")
        for path in ("/topics", "/topics?page=2"):
            assert [row["topic"] for row in table(client, path)] == names


def test_the_csv_of_a_group_has_all_its_partitions():
    places = [TopicPartition("wide", index) for index in range(1001)]
    with Broker() as broker, Console(broker.bootstrap) as console:
        broker.create_topic("wide", len(places))
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_group_offsets("readers", dict.fromkeys(places, OffsetAndMetadata(0)))
        client = console.client()
        until(lambda: client.get("/group?id=readers").status == 200, "the group is seen")
        found = until(lambda: table(client, "/group?id=readers"), "its offsets are seen")
        assert {row["partition"] for row in found} == set(map(str, places))
