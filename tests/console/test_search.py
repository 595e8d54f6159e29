"""Search in a whole topic: keys, values, headers, patterns; progress, stopping, limits."""

from __future__ import annotations

import json
from itertools import count
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from ottla import Producer
from ottla.console.masking import Masks
from ottla.console.search_worker import Matcher, SeenMatcher, paced
from ottla.wire.columns import SCHEMA_WITH_HEADERS
from tests.console.consoles import Client, until

_runs = count()


@pytest.fixture(scope="module")
def topic(broker):
    broker.create_topic("searched", 3)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for i in range(20_000):
            headers = [("trace", b"trace-%d" % i), ("kind", b"rare" if i == 12_345 else b"common")]
            producer.send("searched", b'{"number": %d}' % i, key=b"key-%d" % (i % 100), headers=headers)
        producer.flush()
    return "searched"


def searched(client: Client, topic: str, **query: str):
    """The matches of a search that has ended, and what it said."""
    path = f"/topics/{topic}/search?{urlencode({**query, 'run': str(next(_runs))})}"

    def ended():
        blocks = {block.get("key"): block for block in client.json(path)["blocks"]}
        return blocks if "end" in blocks else None

    blocks = until(ended, f"the search {query} ends")
    return blocks["matches"]["messages"], blocks["search"]["text"], blocks["end"]["notices"][0]["text"]


def test_a_header_is_found_in_the_whole_topic(client, topic):
    found, text, said = searched(client, topic, q="rare", part="header", header="kind")
    assert [each["value"] for each in found] == [{"number": 12345}]
    assert found[0]["headers"][0] == {"name": "trace", "value": "trace-12345", "encoding": "text"}
    assert "100% of 20.0k offsets, 1 match" in text and "The whole topic was searched: 20.0k records" in said
    assert searched(client, topic, q="rare", part="header", header="trace")[0] == []


def test_keys_values_and_patterns_are_found(client, topic):
    assert len(searched(client, topic, q="key-7", part="key", mode="exact")[0]) == 200
    assert len(searched(client, topic, q=r"number.: 1999[0-9]\}", mode="pattern")[0]) == 10
    assert len(searched(client, topic, q="RARE", case="1")[0]) == 1


def test_records_are_browsed_by_key(client, topic):
    path = f"/topics/{topic}/messages?key=key-42"

    def matches():
        blocks = {block.get("key"): block for block in client.json(path)["blocks"]}
        return blocks["matches"]["messages"] if "end" in blocks else None

    found = until(matches, "all records with the key")
    assert len(found) == 200 and {each["key"] for each in found} == {"key-42"}
    assert len({each["partition"] for each in found}) == 1


def test_a_search_ends_when_it_has_found_enough(client, topic):
    found, _, said = searched(client, topic, q="number")
    assert len(found) == 200 and "Stopped at 200 matches" in said


def test_a_search_is_watched_and_stopped_in_the_browser(window, topic):
    window.goto(f"/topics/{topic}/search")
    page = window.page
    page.get_by_label("Text").fill("trace-19999")
    page.get_by_label("Where").select_option("header")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("The whole topic was searched").wait_for()
    until(lambda: page.locator(".record").count() == 1, "the record")
    until(lambda: page.locator("progress").get_attribute("value") == "20000", "all records are searched")
    until(lambda: page.get_by_role("button", name="Stop").count() == 0, "nothing is left to stop")


def test_a_running_search_is_stopped(client, broker):
    """It waits for a broker that does not answer its fetches."""
    broker.create_topic("endless", 1)
    broker.send("endless", "x")
    broker.delay("Fetch", 600_000, times=None, topic="endless")
    try:
        path = "/topics/endless/search?q=zzz&run=stop"
        key = client.get(path).text.split('name="search" value="')[1].split('"')[0]
        assert client.change("stop-search", search=key).status == 303
        until(lambda: "Stopped before the end" in client.get(path).text, "the search is stopped")
    finally:
        broker.heal()


def _batch(*rows):
    columns = {
        "key": [row[0] for row in rows],
        "value": [row[1] for row in rows],
        "topic": ["t"] * len(rows),
        "partition": [0] * len(rows),
        "offset": list(range(len(rows))),
        "timestamp": [0] * len(rows),
        "timestampType": [0] * len(rows),
        "headers": [[{"key": k, "value": v} for k, v in row[2]] for row in rows],
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[f.name], f.type) for f in SCHEMA_WITH_HEADERS], schema=SCHEMA_WITH_HEADERS
    )


def test_rows_without_keys_values_or_headers_match_nothing():
    batch = _batch(
        (None, None, []),
        (b"a", None, [("h", None)]),
        (b"\xff", b"\xffneedle", [("h", b"x"), ("h", b"needle")]),
    )
    task = {"part": "any", "needle": "needle", "mode": "contains"}
    assert Matcher(task).rows(batch).to_pylist() == [False, False, True]
    assert Matcher({**task, "part": "header", "header": "h"}).rows(batch).to_pylist() == [False, False, True]
    assert Matcher({**task, "part": "header", "header": "other"}).rows(batch).to_pylist() == [
        False,
        False,
        False,
    ]
    assert Matcher({**task, "mode": "pattern", "needle": "n.*e$"}).rows(batch).to_pylist() == [
        False,
        False,
        True,
    ]


def test_what_is_masked_cannot_be_searched_for():
    batch = _batch((b"k", json.dumps({"name": "Ada", "ward": "north"}).encode(), [("secret", b"Ada")]))
    masks = Masks.parse(["t:value.name", "t:header.secret"])
    for needle, expected in (("Ada", False), ("north", True)):
        task = {"part": "any", "needle": needle, "mode": "contains"}
        assert SeenMatcher(task, masks, None).rows(batch).to_pylist() == [expected]


def test_half_of_the_time_is_left_to_others():
    now, rests = [0.0], []

    def batches():
        for took in (0.01, 0.2, 3.0):
            now[0] += took  # the broker answers
            yield took

    for took in paced(batches(), lambda: now[0], rests.append):
        now[0] += took / 2  # the batch is searched
    assert rests == pytest.approx([0.015, 0.3, 0.5])
