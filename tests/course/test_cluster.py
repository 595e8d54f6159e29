"""What replication promises, as courses tell it: acks, the high watermark, lost leaders, too few replicas.

One story for each kind of server, with both clients in it, as brokers are dear: every topic is prepared, the
followers are held, the leader is lost, then another. The tests are about what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import ottla
from ottla.errors import NotEnoughReplicas, UnknownTopicOrPartition
from tests.course.faces import DEADLINE_S
from tests.course.replicated import ACKS, CLIENTS, REPLICAS, SERVERS, Sender, Servers, Watching, until
from tests.oracle import cluster as kafka

MIN_INSYNC = {"kept": 2, "lost": 2, "retried": 2, "watermark": 2, "too-few": 3, "alone": 1}
# Written with acks=1 while brokers stand still. The producer that does so must know the topic before: a broker
# that it would ask then may be one that does not answer.
HELD = ("lost", "watermark")


@dataclass
class Story:
    servers: Servers
    senders: dict[str, Sender]
    brokers: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # by client and port asked
    told_nothing: dict[str, int | None] = field(default_factory=dict)  # offsets that acks=0 tells
    below: dict[str, list[str]] = field(default_factory=dict)
    above_while_held: dict[str, list[str]] = field(default_factory=dict)
    above_later: dict[str, list[str]] = field(default_factory=dict)
    acknowledged_and_lost: dict[str, int] = field(default_factory=dict)
    waited: dict[str, bool] = field(default_factory=dict)  # acks=all did, while followers were held
    refused: dict[str, Any] = field(default_factory=dict)
    taken_by_leader: dict[str, int] = field(default_factory=dict)
    values: dict[str, list[str]] = field(default_factory=dict)


@pytest.fixture(scope="module", params=list(SERVERS))
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    wanted = request.config.getoption("--target")
    if wanted not in (request.param, "both"):
        pytest.skip(f"only {wanted} was asked for (--target)")
    if request.param == "kafka" and (reason := kafka.why_not()) is not None:
        pytest.skip(reason)
    with SERVERS[request.param]() as servers:
        senders = {client: Sender(client, servers.bootstrap) for client in CLIENTS}
        told = Story(servers, senders)
        try:
            _prepare(told)
            _hold_followers(told)
            _lose_the_leader(told)
            _lose_another(told)
            yield told
        finally:
            for each in senders.values():
                each.close()


def _prepare(story: Story) -> None:
    bootstrap = story.servers.bootstrap
    until(lambda: all(_brokers(port) == [1, 2, 3] for port in story.servers.ports), "three brokers")
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:
        for topic, least in MIN_INSYNC.items():
            new = ottla.NewTopic(topic, configs={"min.insync.replicas": str(least)}, assignments=[REPLICAS])
            admin.create_topics([new])
    _until_as_planned(bootstrap)
    for port in story.servers.ports:
        story.brokers["ottla", port] = _brokers(port)
        theirs = confluent_kafka.admin.AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        story.brokers["confluent", port] = sorted(theirs.list_topics(timeout=DEADLINE_S).brokers)
    count = 0
    for client, sender in story.senders.items():
        for topic in MIN_INSYNC:
            sender.send(topic, f"{client} before", "1" if topic in HELD else "all")
        sender.send("lost", f"{client} unasked", "0")
        count += 1
        for acks in ACKS:
            offset = sender.send("kept", f"{client} acks={acks}", acks)
            story.told_nothing.setdefault(client, offset)
            count += 1
            _until_replicated(bootstrap, "kept", count)
    for topic, written in (("lost", 4), ("watermark", 2)):
        _until_replicated(bootstrap, topic, written)


def _hold_followers(story: Story) -> None:
    """Nothing above the high watermark is read; it is when followers have it."""
    watching = Watching(story.servers.bootstrap, "watermark")
    try:
        story.below = watching.read(DEADLINE_S, count=2)
        _until_as_planned(story.servers.bootstrap)
        story.servers.replicate(False)
        story.senders["ottla"].send("watermark", "above", "1")  # the leader has it, nobody else
        story.above_while_held = watching.read(1.0)
        story.servers.replicate(True)
        story.above_later = watching.read(DEADLINE_S)
    finally:
        watching.close()


def _lose_the_leader(story: Story) -> None:
    bootstrap = story.servers.bootstrap
    _until_as_planned(bootstrap)
    story.servers.replicate(False)
    late = {}
    for client, sender in story.senders.items():
        story.acknowledged_and_lost[client] = sender.send("lost", f"{client} lost", "1")
        late[client] = sender.begin("retried", f"{client} late", "all")
    for client, sender in story.senders.items():
        sender.send("lost", f"{client} lost and not asked for", "0")
    story.waited = {client: not sent.is_told(0.5) for client, sent in late.items()}
    story.servers.kill(REPLICAS[0])
    story.servers.replicate(True)
    _until_led_by(bootstrap, *REPLICAS[1:])
    for client, sent in late.items():
        assert sent.is_told(DEADLINE_S) and sent.error is None, (client, sent.error)
    for client, sender in story.senders.items():
        sender.send("kept", f"{client} after")
        sender.send("alone", f"{client} with two")
    for topic in ("kept", "lost", "retried"):
        story.values[topic] = _values(bootstrap, topic)
    for client in CLIENTS:
        once = Sender(client, bootstrap, **{"retries": 0, "enable.idempotence": False})
        try:
            sent = once.begin("too-few", "refused", "all")
            assert sent.is_told(DEADLINE_S)
            story.refused[client] = sent.error
            story.taken_by_leader[client] = once.send("too-few", "taken", "1")
        finally:
            once.close()


def _lose_another(story: Story) -> None:
    story.servers.kill(REPLICAS[1])
    _until_led_by(story.servers.bootstrap, REPLICAS[2])
    for client, sender in story.senders.items():
        sender.send("alone", f"{client} with one")
    story.values["alone"] = _values(story.servers.bootstrap, "alone")


def _brokers(port: int) -> list[int]:
    with ottla.Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
        return sorted(broker.id for broker in admin.describe_cluster().brokers)


def _all(bootstrap: str, condition: Callable[[Any], bool]) -> bool:
    """Whether it holds for every topic's partition. A broker may hear of a new topic later than its creator."""
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:
        try:
            return all(condition(topic.partitions[0]) for topic in admin.describe_topics(MIN_INSYNC).values())
        except UnknownTopicOrPartition:
            return False


def _until_as_planned(bootstrap: str) -> None:
    """All are in sync and the first leads. A busy machine may have kept a broker from saying that it lives."""

    def planned() -> bool:
        if _all(bootstrap, lambda each: len(each.isr) == 3 and each.leader == REPLICAS[0]):
            return True
        with ottla.Admin(bootstrap_servers=bootstrap) as admin:
            admin.elect_leaders()
        return False

    until(planned, "all in sync, the first leads")


def _until_led_by(bootstrap: str, *able: int) -> None:
    until(lambda: _all(bootstrap, lambda each: each.leader in able), f"one of {able} leads")


def _until_replicated(bootstrap: str, topic: str, count: int) -> None:
    """The high watermark is there: every follower has as many."""
    where = ottla.TopicPartition(topic, 0)
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:
        until(lambda: admin.list_offsets({where: -1})[where].offset >= count, f"{topic} up to {count}")


def _values(bootstrap: str, topic: str) -> list[str]:
    """Everything that may be read now."""
    where = ottla.TopicPartition(topic, 0)
    with ottla.Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer="str"
    ) as consumer:
        consumer.assign([where])
        end, seen = consumer.end_offsets()[where], list[str]()
        until(
            lambda: seen.extend(r.value for r in consumer.poll(0.2)) or consumer.position(where) >= end, topic
        )
        return seen


def test_every_broker_bootstraps_the_whole_cluster(story: Story) -> None:
    assert len(story.brokers) == 6
    assert all(found == [1, 2, 3] for found in story.brokers.values()), story.brokers


def test_acks_0_tells_nothing(story: Story) -> None:
    assert story.told_nothing == {"ottla": -1, "confluent": None}


def test_acknowledged_records_survive_a_leader_lost_after_replication_whatever_acks_was(story: Story) -> None:
    expected = [f"{client} {what}" for client in CLIENTS for what in ("before", *(f"acks={a}" for a in ACKS))]
    assert story.values["kept"] == [*expected, *(f"{client} after" for client in CLIENTS)]


def test_acks_0_and_1_lose_what_a_leader_took_that_is_lost_before_replication(story: Story) -> None:
    """With acks=1 it had even said so."""
    assert story.acknowledged_and_lost == {"ottla": 4, "confluent": 5}
    assert sorted(story.values["lost"]) == [
        f"{c} {w}" for c in sorted(CLIENTS) for w in ("before", "unasked")
    ]


def test_acks_all_waits_for_replication_and_the_retry_brings_the_record_once(story: Story) -> None:
    assert story.waited == {"ottla": True, "confluent": True}
    assert sorted(story.values["retried"][2:]) == ["confluent late", "ottla late"]


def test_nothing_is_readable_above_the_high_watermark(story: Story) -> None:
    for client in CLIENTS:
        assert story.below[client] == ["ottla before", "confluent before"]
        assert story.above_while_held[client] == []
        assert story.above_later[client] == ["above"]


def test_n_replicas_survive_n_minus_1_failures(story: Story) -> None:
    whens = ("before", "with two", "with one")
    assert story.values["alone"] == [f"{client} {when}" for when in whens for client in CLIENTS]


def test_too_few_replicas_is_an_error_unless_nobody_asks_for_replicas(story: Story) -> None:
    assert isinstance(story.refused["ottla"], NotEnoughReplicas), story.refused
    assert story.refused["confluent"].code() == confluent_kafka.KafkaError.NOT_ENOUGH_REPLICAS
    assert story.taken_by_leader == {"ottla": 2, "confluent": 3}
