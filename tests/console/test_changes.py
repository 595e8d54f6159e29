"""What a console may change, as a person would: by forms; and what it does not let anybody do."""

from __future__ import annotations

import json

import pytest

from ottla import Admin, Consumer, TopicPartition
from ottla.testing import Broker
from tests.console.consoles import Client, Console, rows, until


def test_a_topic_is_created_filled_changed_truncated_and_deleted(window, broker):
    page = window.page
    window.goto("/topics")
    page.get_by_text("Create a topic").click()
    page.get_by_label("Name").fill("made-here")
    page.get_by_label("Partitions").fill("2")
    page.get_by_label("Settings").fill("max.message.bytes=2000000")
    page.get_by_role("button", name="Create").click()
    page.get_by_text("Topic made-here was created.").wait_for()
    assert page.locator("h1").inner_text() == "made-here"

    page.get_by_role("link", name="Messages").click()
    page.get_by_text("Send a record").click()
    form = page.locator('[data-action="produce"]')
    form.get_by_label("Key", exact=True).fill("k1")
    form.get_by_label("Value", exact=True).fill('{"a": 1}')
    form.get_by_label("Headers").fill("trace=xyz")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("The record is at partition").wait_for()
    record = page.locator(".record")
    record.click()
    assert "xyz" in record.inner_text() and '"a": 1' in record.inner_text()

    page.get_by_role("link", name="Settings").click()
    assert page.locator('[data-k="settings/max.message.bytes/value"]').inner_text() == "2000000 (1.9 MB)"
    assert page.locator('[data-k="settings/max.message.bytes/source"]').inner_text() == "dynamic topic config"
    assert (
        page.locator('[data-k="settings/max.message.bytes/default"]').inner_text()
        == "message.max.bytes=1048588"
    )
    page.get_by_text("Change a setting").click()
    page.get_by_label("Setting", exact=True).fill("max.message.bytes")
    page.get_by_role("button", name="Change").click()
    page.get_by_text("back at its default").wait_for()

    page.get_by_role("link", name="Partitions").click()
    page.get_by_text("Add partitions").click()
    page.get_by_label("Partitions in all").fill("4")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("has 4 partitions now").wait_for()
    until(lambda: page.locator('[data-k="block/partitions"] tbody tr').count() == 4, "four rows")

    page.get_by_text("Truncate").click()
    form = page.locator('[data-action="truncate"]')
    form.get_by_label("Type the topic's name").fill("made-here")
    form.get_by_role("button").click()
    page.get_by_text("Records of made-here were deleted").wait_for()

    page.get_by_role("link", name="Settings").click()
    page.get_by_text("Delete this topic").click()
    form = page.locator('[data-action="delete-topic"]')
    form.get_by_label("Type the topic's name").fill("wrong")
    form.get_by_role("button").click()
    page.get_by_text("to confirm, type made-here exactly").wait_for()
    page.get_by_text("Delete this topic").click()
    form.get_by_label("Type the topic's name").fill("made-here")
    form.get_by_role("button").click()
    page.get_by_text("Topic made-here was deleted.").wait_for()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert "made-here" not in admin.list_topics()
    window.goto("/changes")
    assert page.locator("tbody tr").first.inner_text().split("\t")[2].strip() == "delete-topic"


def test_a_group_is_reset_after_a_preview(window, broker):
    with Consumer(
        bootstrap_servers=broker.bootstrap, group_id="to-reset", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        read = 0
        while read < 60:
            read += len(consumer.poll(1.0))
        consumer.commit()
    page = window.page
    window.goto("/group?id=to-reset")
    page.get_by_label("Go on").select_option("offset")
    page.get_by_label("Value").fill("3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("nothing has changed").wait_for()
    thens = page.locator('td[data-k$="/after"]').all_inner_texts()
    assert thens == ["3", "3", "3"]
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert sum(at.offset for at in admin.group_offsets("to-reset").values()) == 60
        page.get_by_role("button", name="Move the group").click()
        page.get_by_text("goes on at the new offsets of 3 partitions").wait_for()
        assert {at.offset for at in admin.group_offsets("to-reset").values()} == {3}


def test_a_share_group_without_members_is_reset_after_a_preview(client, broker):
    from ottla import ShareConsumer

    broker.create_topic("shared-again", 1)
    for i in range(5):
        broker.send("shared-again", f"{i}")
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs("group", "share-to-reset", set_={"share.auto.offset.reset": "earliest"})
        with ShareConsumer(bootstrap_servers=broker.bootstrap, group_id="share-to-reset") as consumer:
            consumer.subscribe(["shared-again"])
            seen: set[int] = set()
            until(
                lambda: seen.update(record.offset for record in consumer.poll(1.0)) or len(seen) == 5,
                "records",
            )
        place = TopicPartition("shared-again", 0)
        until(
            lambda: admin.share_progress("share-to-reset")[place].start_offset == 5, "the group has taken all"
        )
        page = "/group/reset?id=share-to-reset&way=offset&to=2"
        until(lambda: client.get(page).status == 200, "the group")
        preview = client.get(page).text.split('name="preview" value="')[1].split('"')[0]
        asked = {"group": "share-to-reset", "topic": "", "way": "offset", "to": "2", "preview": preview}
        assert client.change("reset-offsets", **asked).headers["location"] == "/group?id=share-to-reset"
        assert admin.share_progress("share-to-reset")[place].start_offset == 2


def test_a_reset_that_was_not_previewed_is_refused(client, broker):
    answer = client.change("reset-offsets", group="to-reset", way="latest", to="", topic="", preview="guess")
    assert answer.status == 303
    assert "have changed since the preview" in client.get("/changes").text


def test_a_change_of_unknown_outcome_is_told_as_one(client, broker):
    broker.fail("CreateTopics", "UNKNOWN_SERVER_ERROR", after_effect=True)
    client.change("create-topic", name="made-in-the-dark")
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert "made-in-the-dark" in admin.list_topics()
    assert "It is not known what was changed: " in client.get("/changes").text
    client.change("create-topic", name="made-in-the-dark")
    assert "The change was refused: " in client.get("/changes").text


def test_a_hanging_transaction_is_found_and_aborted(window, broker):
    """A producer that is gone leaves its transaction open; here its coordinator still knows it."""
    from ottla import Producer

    broker.create_topic("transfers", 1)
    producer = Producer(
        bootstrap_servers=broker.bootstrap, transactional_id="mover", transaction_timeout_ms=600_000
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("transfers", b"half done")
        producer.flush()
        page = window.page
        window.goto("/transactions")
        page.get_by_role("link", name="mover").click()
        assert "Ongoing" in page.locator("main").inner_text()
        page.get_by_role("button", name="Abort").click()
        page.get_by_text("was aborted").wait_for()
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            active = admin.describe_producers([TopicPartition("transfers", 0)])
        assert [each.transaction_start_offset for each in active[TopicPartition("transfers", 0)]] == [-1]
    finally:
        producer.close(0)


def test_transactions_are_read_in_their_own_topic(client, broker):
    from ottla import Producer

    broker.create_topic("written", 1)
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id="writer-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("written", b"x")
        producer.commit_transaction()
    page = client.json("/topics/__transaction_state/messages?limit=200")
    records = next(block for block in page["blocks"] if block["kind"] == "messages")["messages"]
    mine = [each["value"]["transactionStatus"] for each in records if "writer-1" in str(each["key"])]
    assert "CompleteCommit" in mine and "Ongoing" in mine


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_is_told_as_it_happens(client, broker, protocol):
    group = f"moving-{protocol}"
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": protocol}
    with Consumer(settings, client_id="first") as first:
        first.subscribe(["orders"])
        until(lambda: first.poll(0.2) or len(first.assignment()) == 3, "the first reads all partitions")

        def moments():
            first.poll(0.1)
            page = client.json(f"/group?id={group}")
            assert page["subtitle"].endswith(f"{protocol} protocol")
            return " ".join(
                each["text"] for b in page["blocks"] if b["kind"] == "timeline" for each in b["moments"]
            )

        until(lambda: client.get(f"/group?id={group}").status == 200, "the group is known")
        moments()
        with Consumer(settings, client_id="second") as second:
            second.subscribe(["orders"])
            until(lambda: second.poll(0.1) or first.poll(0.1) or second.assignment(), "the second reads some")
            until(
                lambda: (second.poll(0.1) and False) or "second joined" in moments(),
                "the join is on the page",
            )
            until(
                lambda: (second.poll(0.1) and False) or "second now reads orders-" in moments(),
                "the move, too",
            )
        until(lambda: "second left" in moments(), "that it left")


def test_quotas_are_set_and_removed(client):
    assert client.change("set-quota", user="ada", key="producer_byte_rate", value="1048576").status == 303
    shown = rows(client.json("/access?part=quotas"), "quotas")
    assert shown == [{"entity": "user ada", "quota": "producer_byte_rate", "value": 1048576.0}]
    client.change("set-quota", user="ada", key="producer_byte_rate", value="")
    assert rows(client.json("/access?part=quotas"), "quotas") == []


def test_users_are_added_and_removed_and_their_passwords_are_not_logged(client, console):
    client.change("set-user", name="grace", password="correct horse")
    assert [row["user"] for row in rows(client.json("/access?part=users"), "users")] == ["grace"]
    client.change("remove-user", name="grace", mechanisms="SCRAM-SHA-256,SCRAM-SHA-512")
    assert rows(client.json("/access?part=users"), "users") == []
    until(lambda: "remove-user" in console.output, "the change in the log")
    assert "correct horse" not in console.output


@pytest.mark.parametrize(
    "setting", ["ssl.key.password", "listener.name.internal.plain.sasl.jaas.config", "ssl.keystore.key"]
)
def test_secret_settings_are_not_logged(client, console, setting):
    """Everybody who may look at the console sees the changes of all."""
    client.change("set-broker", broker="99", setting=setting, value="hunter2")
    assert "hunter2" not in client.get("/changes").text
    until(lambda: setting in console.output, "the change in the log")
    assert "hunter2" not in console.output


def test_every_change_is_logged_with_who_and_what(client, console):
    client.change("create-topic", name="bad name!")
    last = rows(client.json("/changes"), "changes")[0]
    assert last["action"] == "create-topic" and last["what"] == "name=bad name!" and last["outcome"] != "done"
    line = until(lambda: next((each for each in console.lines if "bad name!" in each), None), "the log line")
    told = json.loads(line[line.index("{") :])
    assert told["viewer"] == last["viewer"] and told["outcome"] == last["outcome"]


def test_a_console_that_only_reads_has_no_forms_and_refuses_changes(broker):
    with Console(broker.bootstrap) as console:
        client = console.client()
        for path in (
            "/topics",
            "/topics/orders",
            "/topics/orders/messages",
            "/topics/orders/settings",
            "/brokers/1",
        ):
            assert "/do/" not in client.get(path).text, path
        answer = client.change("create-topic", name="sneaky")
        assert answer.status == 403 and "--allow-changes" in answer.text
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert "sneaky" not in admin.list_topics()


def test_rules_of_a_secured_cluster_are_the_viewers_rights():
    with Broker(security="SASL_PLAINTEXT", users={"admin": "root", "ada": "pw"}, authorizer=True) as broker:
        broker.create_topic("open", 1)
        broker.create_topic("closed", 1)
        broker.send("open", "hello")
        broker.allow("ada", "READ", "DESCRIBE", topic="open")
        settings = broker.client_settings("admin")
        given = {name: settings[name] for name in ("security.protocol", "sasl.mechanism")}
        with Console(broker.bootstrap, "--login", "kafka", "--allow-changes", settings=given) as console:
            ada, admin = Client(console.base), Client(console.base)
            assert ada.get("/topics").status == 303  # to the login
            assert ada.post("/login", {"name": "ada", "password": "wrong"}).status == 403
            assert ada.post("/login", {"name": "ada", "password": "pw"}).status == 303
            assert admin.post("/login", {"name": "admin", "password": "root"}).status == 303
            assert [row["topic"] for row in rows(ada.json("/topics"), "topics")] == ["open"]
            assert {row["topic"] for row in rows(admin.json("/topics"), "topics")} == {"open", "closed"}
            assert ada.get("/topics/closed/messages").status == 404
            assert "hello" in ada.get("/topics/open/messages").text
            ada.change("delete-topic", topic="open", confirm="open")
            assert (
                "not authorized" in ada.get("/changes").text.lower()
                or "authoriz" in ada.get("/changes").text.lower()
            )
            admin.change("add-acl", principal="User:ada", operation="READ", resource="TOPIC", name="closed")
            until(lambda: ada.get("/topics/closed").status == 200, "the rule lets ada see the topic")
            assert "pw" not in [word for line in console.lines for word in line.split()]


def test_a_broker_shows_its_throttles(client, broker):
    def shown():
        found = rows(client.json("/brokers/1?part=throttles"), "throttles")
        return {row["setting"]: row["rate"] for row in found}

    assert shown()["leader.replication.throttled.rate"] is None
    client.change("set-broker", broker="1", setting="leader.replication.throttled.rate", value="1000000")
    assert shown()["leader.replication.throttled.rate"] == 1_000_000
    client.change("set-broker", broker="1", setting="leader.replication.throttled.rate", value="")
    assert shown()["leader.replication.throttled.rate"] is None
