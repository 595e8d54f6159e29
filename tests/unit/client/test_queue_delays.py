"""Records of share groups that come later, and those that are given up: with a real broker, on a clock of ours."""

import json
import time

import pytest

from ottla import Acknowledge, Admin, Producer, ShareConsumer
from ottla.cli.main import main
from ottla.testing import Broker, Cluster

TOPIC, GROUP, DEAD = "work", "queue", "dlq.work"
PATIENCE_S = 30.0


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.create_topic(TOPIC, 1)
        settings(broker)
        yield broker


def settings(broker, **more):
    texts = {name.replace("_", "."): str(value) for name, value in more.items()}
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs("group", GROUP, set_={"share.auto.offset.reset": "earliest", **texts})


def member(broker, topic=TOPIC):
    consumer = ShareConsumer(
        bootstrap_servers=broker.bootstrap, group_id=GROUP, share_acknowledgement_mode="explicit"
    )
    consumer.subscribe(topic)
    return consumer


def take(consumer):
    records = consumer.poll(PATIENCE_S)
    assert records, "nothing came"
    return records


def decide(consumer, records, kind):
    for record in records:
        consumer.acknowledge(record, kind)
    consumer.commit()


def letters(broker, count):
    return broker.wait_for_records(DEAD, count, PATIENCE_S)


def headers(record):
    return {name.removeprefix("__dlq.errors."): value.decode() for name, value in record.headers}


# -- delays ---------------------------------------------------------------------------------------------------


def test_a_released_record_comes_again_after_its_pause_and_the_next_is_longer(broker):
    settings(broker, ottla_share_release_backoff_ms=20_000)
    broker.send(TOPIC, "1")
    with member(broker) as consumer:
        for pause_s in (20, 40):
            decide(consumer, take(consumer), Acknowledge.RELEASE)
            broker.advance(seconds=pause_s - 15)  # the clock itself goes on: a busy machine takes some of it
            assert consumer.poll(0.2) == []
            broker.advance(seconds=15)
        (record,) = take(consumer)
        assert consumer.delivery_count(record) == 3


def test_a_pause_outlives_the_broker(tmp_path):
    with Broker(data=tmp_path) as broker:
        broker.create_topic(TOPIC, 1)
        settings(broker, ottla_share_release_backoff_ms=30_000)
        broker.send(TOPIC, "1")
        with member(broker) as consumer:
            decide(consumer, take(consumer), Acknowledge.RELEASE)
        broker.restart()
        with member(broker) as consumer:
            assert consumer.poll(0.5) == []
            broker.advance(seconds=30)
            (record,) = take(consumer)
            assert consumer.delivery_count(record) == 2


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_records_with_a_time_come_then_and_others_at_once(broker, compression):
    now_ms = int(time.time() * 1000)
    with Producer(bootstrap_servers=broker.bootstrap, compression_type=compression) as producer:
        for name, after_s in (("late", 60), ("now", None), ("soon", 20), ("past", -5)):
            at = [] if after_s is None else [("ottla-deliver-at", str(now_ms + after_s * 1000).encode())]
            producer.send(TOPIC, name, headers=at)
    broker.send(TOPIC, "odd", headers=[("ottla-deliver-at", b"tomorrow")])
    with member(broker) as consumer:
        names = []
        while len(names) < 3:
            records = take(consumer)
            names += [record.value.decode() for record in records]
            decide(consumer, records, Acknowledge.ACCEPT)
        assert sorted(names) == ["now", "odd", "past"] and consumer.poll(0.2) == []
        for seconds, name in ((20, "soon"), (40, "late")):
            broker.advance(seconds=seconds)
            (record,) = take(consumer)
            assert record.value.decode() == name and consumer.delivery_count(record) == 1
            decide(consumer, [record], Acknowledge.ACCEPT)
    assert len(broker.records(TOPIC)) == 5  # plain consumers see everything at once


def test_a_time_outlives_the_broker_and_may_be_in_words(tmp_path):
    with Broker(data=tmp_path) as broker:
        broker.create_topic(TOPIC, 1)
        settings(broker)
        at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + 100))
        broker.send(TOPIC, "1", headers=[("ottla-deliver-at", at.encode())])
        broker.send(TOPIC, "2")
        with member(broker) as consumer:
            (record,) = take(consumer)
            assert record.value == b"2"
            decide(consumer, [record], Acknowledge.ACCEPT)
        broker.restart()
        with member(broker) as consumer:
            assert consumer.poll(0.5) == []
            broker.advance(seconds=101)
            assert [record.value for record in take(consumer)] == [b"1"]


# -- dead letters ---------------------------------------------------------------------------------------------


def dead_letters(broker, *, copy="true", enabled="true"):
    broker.create_topic(DEAD, 1, {"errors.deadletterqueue.group.enable": enabled})
    settings(
        broker,
        errors_deadletterqueue_topic_name=DEAD,
        errors_deadletterqueue_copy_record_enable=copy,
        share_delivery_count_limit=2,
    )


def test_a_rejected_record_and_one_delivered_too_often_become_dead_letters(broker):
    dead_letters(broker)
    broker.send(TOPIC, "bad", key="a", headers=[("trace", b"7")])
    broker.send(TOPIC, "worse", key="b")
    with member(broker) as consumer:
        first, second = take(consumer)
        consumer.acknowledge(first, Acknowledge.REJECT)
        consumer.acknowledge(second, Acknowledge.RELEASE)
        consumer.commit()
        decide(consumer, take(consumer), Acknowledge.RELEASE)
        rejected, exhausted = letters(broker, 2)
        assert consumer.poll(0.2) == []
    assert (rejected.key, rejected.value) == (b"a", b"bad") and ("trace", b"7") in rejected.headers
    assert headers(rejected) == {
        "trace": "7",
        "topic": TOPIC,
        "partition": "0",
        "offset": "0",
        "group": GROUP,
        "delivery.count": "1",
        "message": "a consumer rejected the record",
    }
    assert (
        headers(exhausted)["delivery.count"] == "2"
        and "share.delivery.count.limit" in headers(exhausted)["message"]
    )


def test_large_records_are_copied_whole_however_many_they_are(broker):
    dead_letters(broker)
    values = [bytes([number]) * 200_000 for number in range(5)] + [b"small"] * 150
    for value in values:
        broker.send(TOPIC, value)
    with member(broker) as consumer:
        taken = 0
        while taken < len(values):
            records = take(consumer)
            decide(consumer, records, Acknowledge.REJECT)
            taken += len(records)
        assert sorted(letter.value for letter in letters(broker, len(values))) == sorted(values)


def test_without_a_copy_a_letter_only_says_where_the_record_is(broker):
    dead_letters(broker, copy="false")
    broker.send(TOPIC, "bad")
    with member(broker) as consumer:
        decide(consumer, take(consumer), Acknowledge.REJECT)
        (letter,) = letters(broker, 1)
    assert (letter.key, letter.value) == (None, None) and headers(letter)["offset"] == "0"


def test_a_letter_waits_for_a_topic_that_takes_it_also_over_a_restart(tmp_path):
    with Broker(data=tmp_path) as broker:
        broker.create_topic(TOPIC, 1)
        dead_letters(broker, enabled="false")
        broker.send(TOPIC, "bad")
        broker.send(TOPIC, "good")
        with member(broker) as consumer:
            bad, good = take(consumer)
            consumer.acknowledge(bad, Acknowledge.REJECT)
            consumer.acknowledge(good)
            consumer.commit()
        broker.restart()
        assert broker.records(DEAD) == []
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_configs("topic", DEAD, set_={"errors.deadletterqueue.group.enable": "true"})
        with member(broker) as consumer:
            assert consumer.poll(0.3) == []  # also loads the group's state
            broker.advance(seconds=60)
            (letter,) = letters(broker, 1)
        assert letter.value == b"bad"


def test_a_topic_is_created_if_its_name_and_the_broker_allow_it():
    with Broker(errors_deadletterqueue_auto_create_topics_enable=True) as broker:
        broker.create_topic(TOPIC, 1)
        settings(broker, errors_deadletterqueue_topic_name=DEAD)
        broker.send(TOPIC, "bad")
        with member(broker) as consumer:
            decide(consumer, take(consumer), Acknowledge.REJECT)
            assert letters(broker, 1)


def test_letters_go_to_the_leader_of_their_topic_wherever_it_is():
    with Cluster(brokers=3) as cluster:
        cluster.create_topic(TOPIC, 3, replication_factor=3)
        cluster.create_topic(DEAD, 1, {"errors.deadletterqueue.group.enable": "true"})
        settings(
            cluster, errors_deadletterqueue_topic_name=DEAD, errors_deadletterqueue_copy_record_enable="true"
        )
        for partition in range(3):
            cluster.send(TOPIC, str(partition), partition=partition)
        with member(cluster) as consumer:
            taken = 0
            while taken < 3:
                records = take(consumer)
                decide(consumer, records, Acknowledge.REJECT)
                taken += len(records)
            assert sorted(letter.value for letter in letters(cluster, 3)) == [b"0", b"1", b"2"]


# -- the command ----------------------------------------------------------------------------------------------


@pytest.fixture
def ask(broker, capfd, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)

    def ask(*words):
        code = main(["queue", "dead", *words])
        written = capfd.readouterr()
        return code, written.out + written.err

    return ask


def test_dead_letters_are_listed_shown_sent_back_and_dropped(broker, ask):
    dead_letters(broker)
    for value in ("bad", "worse", "worst"):
        broker.send(TOPIC, value, key="k", headers=[("trace", b"7")])
    with member(broker) as consumer:
        decide(consumer, take(consumer), Acknowledge.REJECT)
        letters(broker, 3)
    rows = json.loads(ask("list", DEAD, "--json")[1])
    assert [(row["from"], row["from_offset"], row["by"]) for row in rows] == [
        (f"{TOPIC}-0", number, GROUP) for number in range(3)
    ]
    assert ask("show", DEAD, "--offset", "1")[1].endswith("key: k\nvalue: worse\n")
    assert ask("retry", DEAD, "--offset", "1") == (0, "1 sent back\n")
    again = broker.records(TOPIC)[-1]
    assert (again.key, again.value, list(again.headers)) == (b"k", b"worse", [("trace", b"7")])
    assert [row["offset"] for row in json.loads(ask("list", DEAD, "--json")[1])] == [0, 2]
    assert ask("drop", DEAD, "--offset", "0") == (0, "1 dropped\n")
    code, text = ask("retry", DEAD, "--offset", "0")
    assert code != 0 and "retried or dropped" in text
    assert ask("retry", DEAD, "--all", "--to", "elsewhere") == (0, "1 sent back\n")
    assert [record.value for record in broker.records("elsewhere")] == [b"worst"]
    assert ask("list", DEAD, "--json") == (0, "[]\n")


def test_a_letter_without_a_copy_is_sent_back_from_the_log(broker, ask):
    dead_letters(broker, copy="false")
    broker.send(TOPIC, "bad", key="k")
    with member(broker) as consumer:
        decide(consumer, take(consumer), Acknowledge.REJECT)
        letters(broker, 1)
    assert ask("retry", DEAD, "--all") == (0, "1 sent back\n")
    assert [record.value for record in broker.records(TOPIC)] == [b"bad", b"bad"]


def test_letters_of_connectors_and_streams_are_understood(broker, ask):
    broker.create_topic("other", 1)
    for prefix, reason in (("__connect.errors.", "exception.message"), ("__streams.errors.", "message")):
        broker.send(
            "other",
            "bad",
            headers=[
                (prefix + "topic", b"t"),
                (prefix + "partition", b"3"),
                (prefix + "offset", b"9"),
                (prefix + reason, b"why"),
            ],
        )
    rows = json.loads(ask("list", "other", "--json")[1])
    assert [(row["from"], row["from_offset"], row["reason"]) for row in rows] == [("t-3", 9, "why")] * 2


def test_the_log_of_share_states_does_not_grow_for_ever_and_loses_nothing(tmp_path):
    with Broker(data=tmp_path, share_coordinator_snapshot_update_records_per_snapshot=3) as broker:
        broker.create_topic(TOPIC, 1)
        settings(broker)
        with member(broker) as consumer:
            for number in range(20):
                broker.send(TOPIC, str(number))
                decide(consumer, take(consumer), Acknowledge.ACCEPT)
        for _ in range(3):
            broker.advance(seconds=301)
        kept = [record.offset for record in broker.records("__share_group_state")]
        assert kept and min(kept) > 10
        broker.restart()
        broker.send(TOPIC, "new")
        with member(broker) as consumer:
            assert [record.value for record in take(consumer)] == [b"new"]
