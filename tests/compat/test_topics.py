"""Topics through the public clients: each makes, changes, shows and removes them on both servers alike."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import confluent_kafka.admin as confluent_admin
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.compat import clients
from tests.compat.clients import Client, Confluent, eventually
from tests.conftest import Target

Unique = Callable[[str], str]


@pytest.fixture(params=clients.ALL, ids=lambda each: each.name)
def client(request: pytest.FixtureRequest, target: Target) -> Client:
    if request.param is clients.Java:
        request.getfixturevalue("java")
    made: Client = request.param(target.bootstrap)
    return made


def test_a_topic_lives_from_creation_to_deletion(client: Client, unique: Unique) -> None:
    topic = unique("life")
    client.create(topic, 2, {"retention.ms": "3600000"})
    eventually(lambda: topic in client.topics())
    eventually(lambda: client.partitions(topic) == 2)
    client.alter(topic, {"max.message.bytes": "123456"})
    eventually(lambda: client.configs(topic)["max.message.bytes"] == "123456")
    assert client.configs(topic)["cleanup.policy"] == "delete", "defaults are shown too"
    client.add_partitions(topic, 4)
    eventually(lambda: client.partitions(topic) == 4)
    client.delete(topic)
    eventually(lambda: topic not in client.topics())


def test_what_is_wrong_is_refused(client: Client, unique: Unique) -> None:
    topic = unique("wrong")
    client.create(topic)
    refusals: list[Callable[[], None]] = [
        lambda: client.create(topic),
        lambda: client.alter(topic, {"retention.ms": "soon"}),
        lambda: client.add_partitions(topic, 1),
        lambda: client.delete("no-such-topic"),
    ]
    if client.name == "java":
        refusals = refusals[:1]  # a JVM each: the others show the rest
    for refused in refusals:
        with pytest.raises(Exception, match=r"(?i)exist|config|partition|unknown|invalid|\[3[67]|40|\[3"):
            refused()


def test_error_codes_are_kafkas(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("codes")
    client.create(topic)
    for code, refused in {
        KafkaError.TOPIC_ALREADY_EXISTS: lambda: client.create(topic),
        KafkaError.TOPIC_EXCEPTION: lambda: client.create("a b"),
        KafkaError.INVALID_CONFIG: lambda: client.create(unique("c"), configs={"segment.bytes": "few"}),
        KafkaError.INVALID_PARTITIONS: lambda: client.add_partitions(topic, 1),
        KafkaError.UNKNOWN_TOPIC_OR_PART: lambda: client.delete("no-such-topic"),
    }.items():
        with pytest.raises(KafkaException) as caught:
            refused()
        assert caught.value.args[0].code() == code


def test_validate_only_changes_nothing(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("validated")
    new = confluent_admin.NewTopic(topic, 3, 1)
    client.admin.create_topics([new], validate_only=True)[topic].result(60)
    assert topic not in client.topics()


def test_replicas_may_be_assigned_by_hand(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("assigned")
    new = confluent_admin.NewTopic(topic, 2, replica_assignment=[[1], [1]])
    client.admin.create_topics([new])[topic].result(60)
    eventually(lambda: topic in client.topics())
    described = client.admin.describe_topics(confluent_kafka.TopicCollection([topic]))[topic].result(60)
    assert [[node.id for node in each.replicas] for each in described.partitions] == [[1], [1]]


def test_a_producer_makes_its_topic_by_writing(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("auto")
    assert client.produce(topic, [clients.Row(b"first")]) == [0]
    assert client.partitions(topic) == 1


def test_kafka_topics_prints_the_same_description(both: dict[str, Target], unique: Unique) -> None:
    topic, printed = unique("printed"), {}
    for name, server in both.items():
        Confluent(server.bootstrap).create(topic, 3, {"retention.ms": "5000"})
        shown = server.run("kafka-topics", "--describe", "--topic", topic)
        # Apache Kafka has written this default down when it formatted its folder (see differences.py).
        shown = shown.replace("min.insync.replicas=1,", "")
        printed[name] = [line.split("\t") for line in shown.splitlines()]
        for line in printed[name]:
            line[:] = [part for part in line if not part.startswith("TopicId")]
    assert len(set(map(str, printed.values()))) == 1, printed
