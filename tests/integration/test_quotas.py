"""Client quotas: who is over its rate is told so and not heard for as long; its neighbours notice nothing."""

import socket
import ssl
import time
from contextlib import ExitStack
from uuid import uuid4

import pytest
from confluent_kafka import Producer

import ottla
from ottla.client import Admin
from ottla.testing import Broker, Cluster
from ottla.wire import batch
from ottla.wire.records import Record
from tests.compat.raw import Raw

RECORDS = bytes(batch.build([Record(-1, 1_790_000_000_000, None, b"x" * 500_000)]))


def alter(raw, entity, **values):
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    answer = raw.call("alter_client_quotas", 1, {"entries": [{"entity": parts, "ops": ops}]})
    return answer["entries"][0]["error_code"]


def produce(raw):
    data = [{"name": "t", "partition_data": [{"index": 0, "records": RECORDS}]}]
    answer = raw.call("produce", 9, {"acks": 1, "timeout": 1000, "topic_data": data})
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE"
    return answer["throttle_time"]


@pytest.fixture
def broker():
    with Broker() as one:
        one.create_topic("t", retention_ms=-1)
        yield one


def test_a_producer_over_its_quota_is_told_and_not_heard_until_its_time_is_over(broker):
    with Raw(broker.bootstrap, "greedy") as greedy, Raw(broker.bootstrap, "modest") as modest:
        assert alter(modest, {"client-id": "greedy"}, producer_byte_rate=10_000.0) == "NONE"
        throttled_ms = produce(greedy)
        assert 30_000 < throttled_ms < 60_000  # half a megabyte at 10 kB/s, less what ten seconds allow
        greedy.send("metadata", 9, {"topics": []})
        assert produce(modest) == 0
        assert not [each for each in broker.requests("Metadata") if each.client_id == "greedy"]
        broker.advance(throttled_ms + 1)
        greedy.receive("metadata", 9)
        assert produce(modest) == 0


def test_a_consumer_over_its_quota_is_throttled_after_what_it_got(broker):
    broker.send("t", b"x" * 300_000)
    with Raw(broker.bootstrap, "greedy") as greedy:
        assert alter(greedy, {"client-id": None}, consumer_byte_rate=1000.0) == "NONE"
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        body = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20}
        answer = greedy.call("fetch", 11, {**body, "topics": [{"topic": "t", "partitions": partitions}]})
        assert len(answer["responses"][0]["partitions"][0]["records"]) > 300_000
        assert answer["throttle_time"] > 200_000


def test_a_fetch_brings_no_more_than_ten_seconds_worth(broker):
    for _ in range(5):
        broker.send("t", b"x" * 100_000)
    with Raw(broker.bootstrap, "slow") as slow:
        assert alter(slow, {"client-id": "slow"}, consumer_byte_rate=20_000.0) == "NONE"
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        body = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20}
        answer = slow.call("fetch", 11, {**body, "topics": [{"topic": "t", "partitions": partitions}]})
        assert 100_000 <= len(answer["responses"][0]["partitions"][0]["records"]) <= 200_000
        assert answer["throttle_time"] == 0


def share_fetch(raw, topic_id, epoch):
    partitions = [{"partition_index": 0}]
    answer = raw.call(
        "share_fetch",
        1,
        {
            "group_id": "s",
            "member_id": "AAAAAAAAQACAAAAAAAAAAQ",
            "share_session_epoch": epoch,
            "max_wait": 0,
            "max_bytes": 1 << 20,
            "max_records": 100,
            "topics": [] if epoch else [{"topic_id": topic_id, "partitions": partitions}],
        },
    )
    assert answer["error_code"] == "NONE"
    parts = [part for topic in answer["responses"] for part in topic["partitions"]]
    return sum(len(part["records"] or b"") for part in parts), answer["throttle_time"]


def test_a_member_of_a_share_group_has_the_quota_of_a_consumer(broker):
    with Raw(broker.bootstrap, "greedy") as greedy:
        (topic,) = greedy.call("metadata", 12, {"topics": [{"name": "t"}]})["topics"]
        share_fetch(greedy, topic["topic_id"], 0)  # the group begins at the end
        for _ in range(5):
            broker.send("t", b"x" * 100_000)
        assert alter(greedy, {"client-id": None}, consumer_byte_rate=10_500.0) == "NONE"
        received, throttled_ms = share_fetch(greedy, topic["topic_id"], 1)
        assert 100_000 <= received <= 105_000 and throttled_ms == 0  # no more than ten seconds' worth
        received, throttled_ms = share_fetch(greedy, topic["topic_id"], 2)
        assert received >= 100_000 and throttled_ms > 0


def test_a_client_that_takes_more_time_than_its_percentage_is_told_and_not_heard(broker):
    with Raw(broker.bootstrap, "busy") as busy, Raw(broker.bootstrap, "modest") as modest:
        assert alter(modest, {"client-id": "busy"}, request_percentage=0.0001) == "NONE"
        began = time.monotonic()
        assert busy.call("metadata", 9, {"topics": []})["throttle_time"] == 1000  # a window at most
        busy.send("metadata", 9, {"topics": []})
        assert modest.call("metadata", 9, {"topics": []})["throttle_time"] == 0
        heard = [each for each in broker.requests("Metadata") if each.client_id == "busy"]
        assert (
            len(heard) == 1 or time.monotonic() - began > 1
        )  # the second itself may be over on a busy machine
        broker.advance(1001)
        assert busy.receive("metadata", 9)["throttle_time"] == 1000


def create(raw, version, *partitions, validate_only=False):
    """How long the client is throttled, and the code for each of the new topics, which have so many partitions."""
    topics = [
        {"name": f"new-{uuid4()}", "num_partitions": count, "replication_factor": 1} for count in partitions
    ]
    body = {"topics": topics, "timeout": 9000, "validate_only": validate_only}
    answer = raw.call("create_topics", version, body)
    codes = {each["name"]: each["error_code"] for each in answer["topics"]}
    return answer["throttle_time"], [codes[each["name"]] for each in topics]


def test_a_quota_that_takes_weeks_to_pay_for_is_answered(broker):
    with Raw(broker.bootstrap, "banned") as banned, Raw(broker.bootstrap, "modest") as modest:
        assert alter(modest, {"client-id": "banned"}, producer_byte_rate=1.0) == "NONE"
        data = [{"name": "t", "partition_data": [{"index": n, "records": RECORDS} for n in range(6)]}]
        answer = banned.call("produce", 9, {"acks": 1, "timeout": 1000, "topic_data": data})
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE"
        assert answer["throttle_time"] == 2**31 - 1  # three megabytes at a byte a second: what fits


@pytest.mark.parametrize("rate", [1e-6, 5e-324])
def test_a_rate_of_changes_of_nearly_nothing_refuses_them(broker, rate):
    with Raw(broker.bootstrap, "slow") as slow:
        assert alter(slow, {"client-id": "slow"}, controller_mutation_rate=rate) == "NONE"
        assert create(slow, 6, 3)[1] == ["NONE"]
    with Raw(broker.bootstrap, "slow") as slow:
        assert create(slow, 6, 3) == (2**31 - 1, ["THROTTLING_QUOTA_EXCEEDED"])


def test_partitions_beyond_the_mutation_rate_are_refused_and_older_clients_throttled(broker):
    with Raw(broker.bootstrap, "new") as new, Raw(broker.bootstrap, "old") as old:
        for name in ("new", "old"):
            assert alter(new, {"client-id": name}, controller_mutation_rate=1.0) == "NONE"
        assert create(new, 7, 5, validate_only=True) == (0, ["NONE"])
        throttled_ms, codes = create(new, 7, 10, 1)
        assert codes == ["NONE", "THROTTLING_QUOTA_EXCEEDED"] and 3000 < throttled_ms <= 4000
        broker.advance(throttled_ms)
        answer = new.call("delete_topics", 6, {"topics": [{"name": "t"}], "timeout": 9000})
        assert (answer["throttle_time"], answer["responses"][0]["error_code"]) == (0, "NONE")
        broker.advance(seconds=20)
        throttled_ms, codes = create(old, 5, 10, 10)
        assert codes == ["NONE", "NONE"] and 8000 < throttled_ms <= 9000


def test_topics_that_are_created_by_asking_for_them_are_charged_too(broker):
    with Raw(broker.bootstrap, "asker") as asker:
        assert alter(asker, {"client-id": "asker"}, controller_mutation_rate=0.1) == "NONE"
        names = [f"wanted-{number}" for number in range(5)]
        body = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": True}
        asker.call("metadata", 9, body)
        assert 0 < len(set(names) & set(broker.topics())) < 5


def connect(broker):
    with Raw(broker.bootstrap) as raw:
        raw.call("metadata", 9, {"topics": []})


def test_an_address_over_its_connection_rate_is_turned_away_for_a_while(broker):
    with Raw(broker.bootstrap) as raw:
        assert alter(raw, {"ip": "127.0.0.1"}, connection_creation_rate=2.0) == "NONE"
        for _ in range(20):
            connect(broker)
        with Raw(broker.bootstrap) as late:
            late.send("metadata", 9, {"topics": []})
            for _ in range(
                3
            ):  # answered behind the accept: the clock moves when the broker has judged the connection
                raw.call("metadata", 9, {"topics": []})
            broker.advance(501)
            assert late.is_closed_by_server()
        connect(broker)
        assert alter(raw, {"ip": "127.0.0.1"}, connection_creation_rate=None) == "NONE"
        for _ in range(5):
            connect(broker)


def test_connections_beyond_the_rate_of_the_broker_wait_and_too_many_are_turned_away():
    with Broker(max_connection_creation_rate=1, socket_listen_backlog_size=3) as broker, ExitStack() as kept:
        for _ in range(10):
            connect(broker)
        waiting = [kept.enter_context(Raw(broker.bootstrap)) for _ in range(4)]
        assert waiting.pop().is_closed_by_server()
        for each in waiting:
            each.send("metadata", 9, {"topics": []})
        assert not waiting[-1].wait_for_answer(timeout_s=0.2)  # the last one waits three seconds
        broker.advance(seconds=3)
        for each in waiting:
            each.receive("metadata", 9)


def test_a_listener_may_have_a_limit_of_its_own():
    settings = {"listener.name.plaintext.max.connections": "2"}
    with Broker(settings) as broker, Raw(broker.bootstrap) as one, Raw(broker.bootstrap) as two:
        with Raw(broker.bootstrap) as three:
            assert three.is_closed_by_server()
        for each in (one, two):
            each.call("metadata", 9, {"topics": []})


def test_quotas_are_described_changed_and_removed(broker):
    with Raw(broker.bootstrap) as raw:
        assert alter(raw, {"user": "a", "client-id": None}, producer_byte_rate=5.0) == "NONE"
        described = raw.call("describe_client_quotas", 1, {"components": [], "strict": False})
        (entry,) = described["entries"]
        assert {part["entity_type"]: part["entity_name"] for part in entry["entity"]} == {
            "user": "a",
            "client-id": None,
        }
        assert entry["values"] == [{"key": "producer_byte_rate", "value": 5.0}]
        assert alter(raw, {"user": "a", "client-id": None}, producer_byte_rate=None) == "NONE"
        assert raw.call("describe_client_quotas", 1, {"components": [], "strict": False})["entries"] == []
        for wrong in (
            ({"user": "a"}, {"nonsense": 1.0}),
            ({"user": "a"}, {"producer_byte_rate": -1.0}),
            ({"user": "a"}, {"producer_byte_rate": 5.5}),
            ({"user": "a"}, {"connection_creation_rate": 5.0}),
            ({"ip": "10.0.0.1"}, {"producer_byte_rate": 5.0}),
            ({"ip": "not-an-address"}, {"connection_creation_rate": 5.0}),
            ({"planet": "x"}, {"producer_byte_rate": 1.0}),
        ):
            assert alter(raw, wrong[0], **wrong[1]) == "INVALID_REQUEST", wrong


def test_quotas_survive_a_restart_and_librdkafka_lives_with_them(broker):
    with Raw(broker.bootstrap) as raw:
        assert alter(raw, {"client-id": "slow"}, producer_byte_rate=100_000.0) == "NONE"
    broker.restart()
    throttled = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "slow",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
            "linger.ms": 0,
        }
    )
    for _ in range(4):
        producer.produce("t", b"x" * 300_000)
        producer.flush(0.2)
    deadline = time.monotonic() + 120
    while producer.flush(0.1):
        assert time.monotonic() < deadline, "not everything arrived"
        broker.advance(seconds=2)
    assert len(broker.records("t")) == 4
    assert any(throttled)


def test_quotas_by_command(broker, capsys):
    from ottla.cli.main import main

    where = ["-b", broker.bootstrap]
    assert main(["quotas", "set", "--user", "alice", "--produce", "1.5M", "--consume", "500k", *where]) == 0
    assert main(["quotas", "set", "--client-id", "default", "--produce", "10k", *where]) == 0
    capsys.readouterr()
    assert main(["quotas", "list", *where]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted(rows) == [
        ["-", "default", "-", "producer_byte_rate", "10000", "bytes/s"],
        ["alice", "-", "-", "consumer_byte_rate", "500000", "bytes/s"],
        ["alice", "-", "-", "producer_byte_rate", "1500000", "bytes/s"],
    ]
    assert main(["quotas", "remove", "--user", "alice", "--consume", *where]) == 0
    assert main(["quotas", "remove", "--client-id", "default", *where]) == 0
    capsys.readouterr()
    assert main(["quotas", "list", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["quotas", "set", "--produce", "1M", *where]) == 1
    assert main(["quotas", "set", "--user", "a", "--produce", "much", *where]) == 1
    assert "write 500k, 10M or 1G" in capsys.readouterr().err


def test_quotas_of_time_changes_and_connections_by_command(broker, capsys):
    from ottla.cli.main import main

    where = ["-b", broker.bootstrap]
    limits = ["--request", "12.5%", "--mutations", "3"]
    assert main(["quotas", "set", "--user", "default", "--client-id", "app", *limits, *where]) == 0
    assert main(["quotas", "set", "--ip", "10.0.0.1", "--connections", "5", *where]) == 0
    capsys.readouterr()
    assert main(["quotas", "list", *where]) == 0
    rows = [line.split()[:5] for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted(rows) == [
        ["-", "-", "10.0.0.1", "connection_creation_rate", "5"],
        ["default", "app", "-", "controller_mutation_rate", "3"],
        ["default", "app", "-", "request_percentage", "12.5"],
    ]
    assert main(["quotas", "remove", "--ip", "10.0.0.1", *where]) == 0
    assert main(["quotas", "remove", "--user", "default", "--client-id", "app", *where]) == 0
    capsys.readouterr()
    assert main(["quotas", "list", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 1
    for wrong in (
        ["--user", "a"],
        ["--ip", "10.0.0.1", "--user", "a", "--produce", "1k"],
        ["--ip", "x", "--connections", "1"],
    ):
        assert main(["quotas", "set", *wrong, *where]) == 1


def test_the_controller_charges_the_client_of_another_broker():
    """However many brokers the client asks, there is one quota; each of them tells it how long it is throttled."""
    with Cluster(brokers=2) as cluster:
        controller = cluster.controller
        other = next(each for each in cluster if each is not controller)
        with Raw(controller.bootstrap, "m") as near, Raw(other.bootstrap, "m") as far:
            assert alter(near, {"client-id": "m"}, controller_mutation_rate=1.0) == "NONE"
            assert create(near, 7, 6) == (0, ["NONE"])
            assert create(far, 7, 7) == (0, ["NONE"])
            throttled_ms, codes = create(far, 7, 1)
            assert codes == ["THROTTLING_QUOTA_EXCEEDED"] and 0 < throttled_ms <= 2000
            throttled_ms, codes = create(near, 7, 1)
            assert codes == ["THROTTLING_QUOTA_EXCEEDED"] and 0 < throttled_ms <= 2000


def test_nobody_but_a_broker_sends_envelopes(broker):
    with Raw(broker.bootstrap) as raw:
        body = {"request_data": b"", "request_principal": b"User:admin", "client_host_address": b""}
        assert raw.call("envelope", 0, body)["error_code"] == "CLUSTER_AUTHORIZATION_FAILED"


def test_our_producer_says_how_long_it_was_throttled_and_waits_beyond_its_request_timeout(broker):
    """A broker does not hear a throttled client: that is no reason to give the connection up."""
    with Raw(broker.bootstrap) as raw:
        assert alter(raw, {"client-id": "slow"}, producer_byte_rate=10_000.0) == "NONE"
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": "slow", "request.timeout.ms": 3000}
    with ottla.Producer(settings) as producer:
        first = producer.send("t", b"x" * 150_000).result(
            60
        )  # five seconds more than the quota allows at once
        assert producer.metrics()["produce-throttle-time-total"] > 4500
        assert producer.send("t", b"y").result(60).offset == first.offset + 1
        assert producer.metrics()["record-retry-total"] == 0
        assert producer.metrics()["produce-throttle-time-max"] > 4500


def test_our_consumer_says_how_long_it_was_throttled(broker):
    broker.send("t", b"x" * 300_000)
    with Raw(broker.bootstrap) as raw:
        assert alter(raw, {"client-id": "slow"}, consumer_byte_rate=29_000.0) == "NONE"
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": "slow"}
    with ottla.Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["t"])
        assert next(iter(consumer)).value == b"x" * 300_000
        assert consumer.metrics()["fetch-throttle-time-total"] > 300


def handshake(broker, context):
    host, port = broker.bootstrap.split(":")
    with socket.create_connection((host, int(port)), 60) as raw:
        context.wrap_socket(raw, server_hostname="localhost").close()


def test_an_address_over_its_rate_gets_no_tls_handshake():
    with Broker(security="SSL") as broker:
        settings = broker.client_settings()
        context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
        with Admin(settings) as admin:
            admin.alter_quotas({"ip": None}, {"connection_creation_rate": 1.0})
            for _ in range(10):
                handshake(broker, context)
            with pytest.raises(OSError):
                handshake(broker, context)
            broker.advance(seconds=2)
            handshake(broker, context)
            admin.alter_quotas({"ip": None}, {"connection_creation_rate": None})
            for _ in range(5):
                handshake(broker, context)
