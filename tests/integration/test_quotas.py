"""Client quotas: who is over its rate is told so and not heard for as long; its neighbours notice nothing."""

import pytest
from confluent_kafka import Producer

from ottla.testing import Broker
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


def test_quotas_are_described_changed_and_removed(broker):
    with Raw(broker.bootstrap) as raw:
        assert alter(raw, {"user": "a", "client-id": None}, producer_byte_rate=5.5) == "NONE"
        described = raw.call("describe_client_quotas", 1, {"components": [], "strict": False})
        (entry,) = described["entries"]
        assert {part["entity_type"]: part["entity_name"] for part in entry["entity"]} == {
            "user": "a",
            "client-id": None,
        }
        assert entry["values"] == [{"key": "producer_byte_rate", "value": 5.5}]
        assert alter(raw, {"user": "a", "client-id": None}, producer_byte_rate=None) == "NONE"
        assert raw.call("describe_client_quotas", 1, {"components": [], "strict": False})["entries"] == []
        for wrong in (
            ({"user": "a"}, {"nonsense": 1.0}),
            ({"user": "a"}, {"producer_byte_rate": -1.0}),
            ({"user": "a"}, {"request_percentage": 50.0}),  # what is not enforced is not accepted
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0}),
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
    for _ in range(200):
        broker.advance(seconds=2)
        if producer.flush(0.1) == 0:
            break
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
        ["-", "default", "producer_byte_rate", "10000"],
        ["alice", "-", "consumer_byte_rate", "500000"],
        ["alice", "-", "producer_byte_rate", "1500000"],
    ]
    assert main(["quotas", "remove", "--user", "alice", "--consume", *where]) == 0
    assert main(["quotas", "remove", "--client-id", "default", *where]) == 0
    capsys.readouterr()
    assert main(["quotas", "list", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["quotas", "set", "--produce", "1M", *where]) == 1
    assert main(["quotas", "set", "--user", "a", "--produce", "much", *where]) == 1
    assert "write 500k, 10M or 1G" in capsys.readouterr().err
