"""Groups through the public clients: owners, commits, failover, both protocols, on both servers alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.clients import Confluent, Row
from tests.compat.members import (
    PYTHON,
    ConfluentMember,
    Member,
    committed,
    group_of,
    is_spread,
    java_consumer,
    wait_until,
)
from tests.conftest import Target

Unique = Callable[[str], str]
_VICTIM = """
import sys, confluent_kafka
bootstrap, group, topic = sys.argv[1:]
consumer = confluent_kafka.Consumer(
    {"bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 6000}
)
consumer.subscribe([topic])
while True:
    consumer.poll(1)
"""
Flavour = tuple[type[Member], dict[str, Any]]
FLAVOURS: dict[str, Flavour] = {
    "confluent range": (ConfluentMember, {"partition.assignment.strategy": "range"}),
    "confluent cooperative": (ConfluentMember, {"partition.assignment.strategy": "cooperative-sticky"}),
    "confluent new protocol": (ConfluentMember, {"group.protocol": "consumer"}),
    **{each.client: (each, {}) for each in PYTHON[1:]},
}


@pytest.fixture(params=list(FLAVOURS.values()), ids=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    made: Flavour = request.param
    return made


@pytest.mark.slow
def test_members_share_the_partitions_and_read_each_record_once(
    target: Target, flavour: Flavour, unique: Unique
) -> None:
    kind, settings = flavour
    topic, group = _filled(target, unique("shared"), partitions=4, each=25), unique("group")
    with group_of(*(kind(target.bootstrap, group, [topic], **settings) for _ in range(3))) as members:
        wait_until(lambda: is_spread(members, 4), "four partitions for three members")
        wait_until(lambda: sum(len(each.read) for each in members) >= 100, "everything read")
    assert {row for each in members for row in each.read} == {
        (topic, p, o) for p in range(4) for o in range(25)
    }


@pytest.mark.slow
def test_who_leaves_is_replaced_from_the_committed_offset(
    target: Target, flavour: Flavour, unique: Unique
) -> None:
    kind, settings = flavour
    topic, group = _filled(target, unique("replaced"), partitions=2, each=0), unique("group")
    with group_of(*(kind(target.bootstrap, group, [topic], **settings) for _ in range(2))) as members:
        wait_until(lambda: is_spread(members, 2), "one partition each")
        _fill(target, topic, partitions=2, each=10)  # now: what is read before a rebalance may be read again
        wait_until(lambda: sum(len(each.read) for each in members) == 20, "everything read")
        wait_until(lambda: committed(target.bootstrap, group, topic, 2) == [10, 10], "everything committed")
        gone, left = members
        gone.leave()
        wait_until(lambda: len(left.owned) == 2, "the other one owns both")
        Confluent(target.bootstrap).produce(topic, [Row(b"more")], partition=0)
        wait_until(lambda: any(row[1:] == (0, 10) for row in left.read), "the new record")
    assert len([row for each in members for row in each.read]) == 21, "nothing is read again after a commit"


@pytest.mark.slow
def test_more_members_than_partitions_leaves_some_idle(target: Target, unique: Unique) -> None:
    topic, group = _filled(target, unique("idle"), partitions=2, each=1), unique("group")
    for settings in ({"group.protocol": "consumer"}, {"partition.assignment.strategy": "range"}):
        own = group + settings.get("group.protocol", "classic")
        with group_of(
            *(ConfluentMember(target.bootstrap, own, [topic], **settings) for _ in range(4))
        ) as members:
            wait_until(lambda m=members: sorted(len(each.owned) for each in m) == [0, 0, 1, 1], "two idle")  # type: ignore[misc]


@pytest.mark.slow
def test_a_crashed_member_is_noticed(target: Target, unique: Unique) -> None:
    topic, group = _filled(target, unique("crash"), partitions=2, each=1), unique("group")
    with group_of(ConfluentMember(target.bootstrap, group, [topic])) as (member,):
        wait_until(lambda: len(member.owned) == 2, "one owns all")
        other = subprocess.Popen([sys.executable, "-c", _VICTIM, target.bootstrap, group, topic])
        wait_until(lambda: len(member.owned) == 1, "shared")
        other.kill()
        other.wait()
        wait_until(lambda: len(member.owned) == 2, "all again, once the session has run out")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_picks_up_new_topics_and_partitions(target: Target, protocol: str, unique: Unique) -> None:
    stem, client = unique("pattern"), Confluent(target.bootstrap)
    client.create(f"{stem}-a", 1)
    settings = {"group.protocol": "consumer"} if protocol == "consumer" else {}
    with group_of(ConfluentMember(target.bootstrap, unique("group"), [f"^{stem}-.*"], **settings)) as (
        member,
    ):
        wait_until(lambda: len(member.owned) == 1, "the first topic")
        client.create(f"{stem}-b", 2)
        wait_until(lambda: len(member.owned) == 3, "the new topic")
        client.add_partitions(f"{stem}-a", 3)
        wait_until(lambda: len(member.owned) == 5, "the new partitions")
        client.delete(f"{stem}-b")
        wait_until(lambda: len(member.owned) == 3, "the deleted topic is gone")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_comes_back_to_what_it_had(target: Target, protocol: str, unique: Unique) -> None:
    topic, group = _filled(target, unique("static"), partitions=4, each=1), unique("group")
    settings: dict[str, Any] = {"group.protocol": "consumer"} if protocol == "consumer" else {}

    def member(name: str) -> ConfluentMember:
        return ConfluentMember(target.bootstrap, group, [topic], **settings, **{"group.instance.id": name})

    with group_of(member("one"), member("two")) as (first, second):
        wait_until(lambda: is_spread([first, second], 4), "two each")
        had, others = first.owned, second.owned
        first.leave()
        with group_of(member("one")) as (again,):
            wait_until(lambda: again.owned == had, "the same partitions")
            assert second.owned == others, "nobody else was disturbed"


@pytest.mark.slow
def test_a_group_moves_from_the_old_protocol_to_the_new(target: Target, unique: Unique) -> None:
    topic, group = _filled(target, unique("upgrade"), partitions=4, each=5), unique("group")
    old = {"partition.assignment.strategy": "range"}
    with group_of(ConfluentMember(target.bootstrap, group, [topic], **old)) as (first,):
        wait_until(lambda: len(first.owned) == 4, "the old one owns all")
        with group_of(
            ConfluentMember(target.bootstrap, group, [topic], **{"group.protocol": "consumer"})
        ) as (second,):
            wait_until(lambda: is_spread([first, second], 4), "shared by both protocols")
            first.leave()
            wait_until(lambda: len(second.owned) == 4, "the new one owns all")


@pytest.mark.slow
@pytest.mark.parametrize("properties", [
    {"group.protocol": "classic", "partition.assignment.strategy":
     "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"},
    {"group.protocol": "consumer"},
    {"group.protocol": "classic", "group.instance.id": "java-one"},
], ids=["cooperative", "new protocol", "static"])  # fmt: skip
def test_java_and_python_share_a_group(
    target: Target, java: None, properties: dict[str, str], unique: Unique
) -> None:
    topic, group = _filled(target, unique("java"), partitions=4, each=5), unique("group")
    settings: dict[str, Any] = {"group.protocol": "consumer"}
    if properties["group.protocol"] == "classic":
        settings = {
            "partition.assignment.strategy": "cooperative-sticky"
            if "partition.assignment.strategy" in properties
            else "range"
        }
    with (
        group_of(ConfluentMember(target.bootstrap, group, [topic], **settings)) as (member,),
        java_consumer(target.bootstrap, group, topic, **properties),
    ):
        wait_until(lambda: len(member.owned) == 2, "half for each")
    assert member.failed is None


def test_the_admin_client_sees_and_changes_groups(target: Target, unique: Unique) -> None:
    topic, group = _filled(target, unique("admin"), partitions=1, each=5), unique("group")
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    with group_of(ConfluentMember(target.bootstrap, group, [topic])) as (member,):
        wait_until(lambda: len(member.read) == 5, "everything read")
        described = admin.describe_consumer_groups([group])[group].result(60)
        assert described.state == confluent_kafka.ConsumerGroupState.STABLE
        assert len(described.members) == 1
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            admin.delete_consumer_groups([group])[group].result(60)
        assert caught.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    moved = confluent_kafka.ConsumerGroupTopicPartitions(group, [confluent_kafka.TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([moved])[group].result(60)
    assert committed(target.bootstrap, group, topic, 1) == [2]
    admin.delete_consumer_groups([group])[group].result(60)
    assert group not in {each.group_id for each in admin.list_consumer_groups().result().valid}


def _filled(target: Target, topic: str, partitions: int, each: int) -> str:
    Confluent(target.bootstrap).create(topic, partitions)
    _fill(target, topic, partitions, each)
    return topic


def _fill(target: Target, topic: str, partitions: int, each: int) -> None:
    client = Confluent(target.bootstrap)
    for partition in range(partitions):
        client.produce(topic, [Row(b"%d" % i) for i in range(each)], partition)
