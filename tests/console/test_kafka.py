"""The same pages on Apache Kafka: the console speaks nothing but its protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import Admin, Consumer, Producer
from tests.console.conftest import Window
from tests.console.consoles import Console, rows, shared, until
from tests.console.surroundings import AT_ONCE, SHARERS, Surroundings
from tests.oracle.leaders import wait_for_changes


@pytest.fixture(scope="module")
def on_kafka(kafka, tmp_path_factory) -> Iterator[Console]:
    with Admin(bootstrap_servers=kafka.bootstrap) as admin:
        admin.create_topic("orders", 3)
        # What `Surroundings` set, long before their members come: Kafka's coordinators hear of it a moment later.
        admin.alter_configs("group", "sharers", set_=SHARERS)
        admin.alter_configs("group", "word-count", set_=AT_ONCE)
    wait_for_changes(kafka.bootstrap)
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        for i in range(60):
            producer.send(
                "orders",
                f'{{"number": {i}}}'.encode(),
                key=f"key-{i % 7}".encode(),
                headers=[("trace", b"t%d" % i)],
            )
        producer.flush()
    for protocol in ("classic", "consumer"):
        with Consumer(
            bootstrap_servers=kafka.bootstrap,
            group_id=f"{protocol}-readers",
            group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(["orders"])
            read = 0
            while read < 60:
                read += len(consumer.poll(1.0))
            consumer.commit()
    with (
        Surroundings(kafka.bootstrap, tmp_path_factory.mktemp("beside")) as beside,
        Console(kafka.bootstrap, "--allow-changes", *beside.options) as console,
    ):
        yield console


MAIN = {
    "/": "Overview",
    "/topics": "Topics",
    "/topics/orders": "orders",
    "/topics/orders/messages": "orders",
    "/topics/orders/settings": "orders",
    "/topics/orders/groups": "orders",
    "/groups": "Groups",
    "/group?id=consumer-readers": "consumer-readers",
    "/group?id=sharers": "sharers",
    "/group?id=word-count": "word-count",
    "/topics/described/messages": "described",
    "/schemas": "Schemas",
    "/schemas/described-value": "described-value",
    "/connectors": "Connectors",
    "/connectors/lines": "lines",
    "/mirrors": "Mirrors",
    "/transactions": "Transactions",
    "/brokers": "Brokers",
    "/brokers/1": "Broker 1",
    "/brokers/1?part=throttles": "Broker 1",
    "/brokers/1?part=versions": "Broker 1",
    "/access": "Access",
    "/access?part=quotas": "Access",
    "/topics/__consumer_offsets/messages": "__consumer_offsets",
}


def test_the_main_views_on_kafka(chromium, on_kafka):
    window = Window(chromium, on_kafka)
    for path, title in MAIN.items():
        assert window.goto(path).status == 200, path
        assert window.page.locator("h1").inner_text() == title
        assert window.page.locator(".flash.bad, .notes .bad").count() == 0, path
    window.context.close()
    window.check()


def test_kafkas_groups_offsets_and_records_are_read(on_kafka):
    client = on_kafka.client()
    groups = {row["group"]: row for row in rows(client.json("/groups"), "groups")}
    assert (
        groups["classic-readers"]["protocol"] == "classic"
        and groups["consumer-readers"]["protocol"] == "consumer"
    )
    assert groups["consumer-readers"]["lag"] == 0
    page = client.get("/topics/__consumer_offsets/messages?limit=500").text
    assert "consumer-readers" in page and "commitTimestamp" in page
    assert client.change("create-topic", name="from-the-console", partitions="2").status == 303
    until(lambda: client.get("/topics/from-the-console").status == 200, "the new topic")
    path = "/topics/orders/search?q=t33&part=header&run=k"
    until(lambda: "The whole topic was searched" in client.get(path).text, "the search on Kafka ends")
    found = next(block for block in client.json(path)["blocks"] if block.get("key") == "matches")
    assert [each["value"] for each in found["messages"]] == [{"number": 33}]


def test_what_stands_beside_kafka_is_shown(on_kafka):
    client = on_kafka.client()
    (messages,) = (
        b for b in client.json("/topics/described/messages")["blocks"] if b.get("key") == "records"
    )
    values = [message["value"] for message in messages["messages"]]
    assert {"number": 7, "patient": "Ada"} in values and {"name": "Cem"} in values
    until(lambda: shared(client)["lag"] == 6, "the share group's lag")
    # Four records are accepted. Kafka may tell so in the lag alone: it moves the start with a later write.
    assert shared(client)["committed"] in (0, 4) and shared(client)["owner"] == ["sharer-1"]
    (member,) = rows(client.json("/group?id=word-count"), "members")
    assert member["client"] == "word-count-client" and member["active"] == ["0_0", "0_1"]
    (copy,) = rows(client.json("/mirrors"), "partitions")
    assert copy["partition"] == "A.visits-0" and copy["position"] == 5
