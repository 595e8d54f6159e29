"""A copy equals its source: records, order, timestamps, headers, compression, topics and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ottla.client import Admin, Producer
from ottla.client.columnar.reader import DataLost
from ottla.client.values import TopicPartition
from ottla.mirror.errors import PositionLost, SourceChanged, TargetMoved
from ottla.mirror.naming import Naming
from ottla.mirror.status import status
from ottla.mirror.topics import copied_rule
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.testing import Broker
from ottla.wire import compression
from tests.mirror.local import copy, link, raw, records, runner, with_offsets


@pytest.fixture
def sides() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        yield source, target


def test_records_cross_with_keys_headers_and_times(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=2)
    with Producer(bootstrap_servers=source.bootstrap) as producer:
        for i in range(1000):
            producer.send(
                "in", b"v%d" % i, b"k%d" % i, partition=i % 2, headers=[("h", b"%d" % i)], timestamp=1000 + i
            )
        producer.send("in", None, b"tombstone", partition=0)
    copy(link(source.bootstrap, target.bootstrap))
    for partition in (0, 1):
        copied = records(target.bootstrap, "A.in", partition)
        assert copied == records(source.bootstrap, "in", partition)
        assert len(copied) >= 500


def test_a_second_run_copies_only_what_is_new(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    for round_ in range(3):
        with Producer(bootstrap_servers=source.bootstrap) as producer:
            for i in range(50):
                producer.send("in", b"%d-%d" % (round_, i))
        copy(link(source.bootstrap, target.bootstrap))
    assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)
    assert len(records(target.bootstrap, "A.in", 0)) == 150


def test_only_committed_records_cross(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    with Producer(bootstrap_servers=source.bootstrap, transactional_id="t") as producer:
        producer.init_transactions()
        for i in range(20):
            producer.begin_transaction()
            for j in range(7):
                producer.send("in", b"%d-%d" % (i, j))
            producer.flush()
            if i % 3 == 0:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.begin_transaction()
        producer.send("in", b"open")
        producer.flush()
        copy(link(source.bootstrap, target.bootstrap))
        copied = records(target.bootstrap, "A.in", 0)
        assert copied == records(source.bootstrap, "in", 0)
        assert len(copied) == 13 * 7
        producer.commit_transaction()
    copy(link(source.bootstrap, target.bootstrap))
    assert records(target.bootstrap, "A.in", 0)[-1][1] == b"open"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_bodies_are_passed_on_as_they_are(sides: tuple[Broker, Broker], codec: str) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    with Producer(bootstrap_servers=source.bootstrap, compression_type=codec, linger_ms=50) as producer:
        for i in range(500):
            producer.send("in", b"value %d" % i, b"key")
    copy(link(source.bootstrap, target.bootstrap))
    bodies = [[(h.codec, bytes(body)) for h, body in raw(side, topic)] for side, topic in
              ((source, "in"), (target, "A.in"))]  # fmt: skip
    assert bodies[0] == bodies[1]
    assert {found for found, _ in bodies[0]} == {compression.NAMES.index(codec)}


def test_times_of_the_sources_clock_are_kept(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1, message_timestamp_type="LogAppendTime")
    with Producer(bootstrap_servers=source.bootstrap) as producer:
        for i in range(100):
            producer.send("in", b"%d" % i, timestamp=1)
    copy(link(source.bootstrap, target.bootstrap))
    copied = records(target.bootstrap, "A.in", 0)
    assert copied == records(source.bootstrap, "in", 0)
    assert all(timestamp > 1 for _, _, timestamp, _ in copied)


def test_partitions_and_settings_follow_the_source(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1, retention_ms=7_200_000, min_insync_replicas=1)
    with (
        Admin(bootstrap_servers=source.bootstrap) as here,
        Admin(bootstrap_servers=target.bootstrap) as there,
        runner(link(source.bootstrap, target.bootstrap, refresh_topics_s=0)) as running,
    ):
        running.round()
        told = there.describe_configs("topic", "A.in")
        assert told["retention.ms"].value == "7200000"
        assert told["min.insync.replicas"].source == "DEFAULT_CONFIG"
        here.add_partitions("in", 3)
        here.alter_configs("topic", "in", set_={"cleanup.policy": "compact"}, delete=["retention.ms"])
        source.send("in", "late", "key", partition=2)
        while not running.round():
            running.driver.wait()
        assert len(there.describe_topics(["A.in"])["A.in"].partitions) == 3
        told = there.describe_configs("topic", "A.in")
        assert told["cleanup.policy"].value == "compact"
        assert told["retention.ms"].source == "DEFAULT_CONFIG"
    assert [value for _, value, _, _ in records(target.bootstrap, "A.in", 2)] == [b"late"]


def test_a_topic_deleted_at_the_source_is_deleted_only_if_that_is_chosen(
    sides: tuple[Broker, Broker],
) -> None:
    source, target = sides
    for name in ("in-1", "in-2"):
        source.send(name, "v")
    copy(link(source.bootstrap, target.bootstrap))
    source.delete_topic("in-1")
    with Admin(bootstrap_servers=target.bootstrap) as there:
        copy(link(source.bootstrap, target.bootstrap))
        assert "A.in-1" in there.list_topics()
        copy(link(source.bootstrap, target.bootstrap, sync_topic_deletes=True))
        assert "A.in-1" not in there.list_topics()
        assert "A.in-2" in there.list_topics()


def test_deleted_records_are_deleted_at_the_target_if_that_is_chosen(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    for i in range(30):
        source.send("in", f"v{i}")
    copy(link(source.bootstrap, target.bootstrap))
    with Admin(bootstrap_servers=source.bootstrap) as here:
        here.delete_records({TopicPartition("in", 0): 12})
    copy(link(source.bootstrap, target.bootstrap, sync_record_deletes=True))
    where = TopicPartition("A.in", 0)
    with Admin(bootstrap_servers=target.bootstrap) as there:
        begin = there.list_offsets({where: -2})[where].offset
    assert with_offsets(target.bootstrap, "A.in", 0, begin)[0][1][1] == b"v12"


def test_a_source_that_was_re_created_stops_the_mirror(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    for i in range(5):
        source.send("in", f"v{i}")
    copy(link(source.bootstrap, target.bootstrap))
    source.delete_topic("in")
    for i in range(9):
        source.send("in", f"w{i}")
    with pytest.raises(SourceChanged, match="deleted and re-created"):
        copy(link(source.bootstrap, target.bootstrap))


def test_records_that_were_gone_before_they_were_copied_stop_the_mirror_or_are_counted(
    sides: tuple[Broker, Broker],
) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    with runner(link(source.bootstrap, target.bootstrap)) as running:
        running.round()
    for i in range(30):
        source.send("in", f"v{i}")
    with Admin(bootstrap_servers=source.bootstrap) as here:
        here.delete_records({TopicPartition("in", 0): 12})
    with pytest.raises(DataLost, match="gone"):
        copy(link(source.bootstrap, target.bootstrap))
    tolerant = link(source.bootstrap, target.bootstrap, tolerate_loss=True)
    copy(tolerant)
    assert len(records(target.bootstrap, "A.in", 0)) == 18
    assert status(tolerant).partitions[0].position.skipped == 12


def test_a_target_with_records_of_somebody_else_is_refused(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.send("in", "v")
    target.send("A.in", "somebody else's")
    with pytest.raises(PositionLost, match=r"A\.in-0 at B has records"):
        copy(link(source.bootstrap, target.bootstrap))


def test_several_sources_go_into_one_target(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    with Broker() as other:
        source.send("in", "a")
        other.send("in", "c")
        copy(link(source.bootstrap, target.bootstrap))
        copy(replace(link(other.bootstrap, target.bootstrap), source="C"))
    assert [r[1] for r in records(target.bootstrap, "A.in", 0)] == [b"a"]
    assert [r[1] for r in records(target.bootstrap, "C.in", 0)] == [b"c"]


def test_two_ways_with_prefixed_names_make_no_circle(sides: tuple[Broker, Broker]) -> None:
    a, b = sides
    there = link(a.bootstrap, b.bootstrap, topics=(".*",), emit_heartbeats=True)
    back = replace(
        there, source="B", target="A", source_client=there.target_client, target_client=there.source_client
    )
    for i in range(3):
        a.send("in", f"a{i}")
        b.send("in", f"b{i}")
        for each in (there, back, there, back):
            copy(each)
    assert [r[1] for r in records(b.bootstrap, "A.in", 0)] == [b"a0", b"a1", b"a2"]
    assert [r[1] for r in records(a.bootstrap, "B.in", 0)] == [b"b0", b"b1", b"b2"]
    with Admin(bootstrap_servers=a.bootstrap) as here, Admin(bootstrap_servers=b.bootstrap) as other:
        names = {*here.list_topics(), *other.list_topics()}
    assert not [name for name in names if name.startswith(("A.B.", "B.A."))], names


def test_identical_names_are_kept(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.send("in", "v")
    copy(link(source.bootstrap, target.bootstrap, naming=Naming(identical=True)))
    assert [r[1] for r in records(target.bootstrap, "in", 0)] == [b"v"]


def test_rules_cross_without_the_right_to_write() -> None:
    def rule(operation: Operation, permission: Permission = Permission.ALLOW, name: str = "in") -> Acl:
        return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", "*", operation, permission)

    names = {"in": "A.in"}
    assert copied_rule(rule(Operation.READ), names) == replace(rule(Operation.READ), name="A.in")
    assert copied_rule(rule(Operation.ALL), names) == replace(rule(Operation.READ), name="A.in")
    assert copied_rule(rule(Operation.WRITE), names) is None
    assert copied_rule(rule(Operation.WRITE, Permission.DENY), names) is not None
    assert copied_rule(rule(Operation.READ, name="other"), names) is None


def test_rules_are_carried_over_if_that_is_asked() -> None:
    with (
        Broker(security="SASL_PLAINTEXT", users={"admin": "secret"}, authorizer=True) as source,
        Broker(security="SASL_PLAINTEXT", users={"admin": "secret"}, authorizer=True) as target,
    ):
        source.create_topic("in")
        source.allow("alice", "READ", "WRITE", topic="in")
        clients = [side.client_settings("admin") for side in (source, target)]
        chosen = replace(link("", ""), source_client=clients[0], target_client=clients[1], sync_acls=True)
        copy(chosen)
        with Admin(clients[1]) as admin:
            rules = {(rule.name, rule.operation) for rule in admin.describe_acls(AclFilter())}
        assert rules == {("A.in", Operation.READ)}


def test_records_are_copied_between_clusters_that_ask_for_tls_and_a_login() -> None:
    with (
        Broker(security="SASL_SSL", users={"admin": "one"}, authorizer=True) as source,
        Broker(security="SASL_SSL", users={"admin": "two"}, authorizer=True) as target,
    ):
        source.create_topic("in", partitions=1)
        for i in range(20):
            source.send("in", f"v{i}")
        clients = [
            side.client_settings("admin", mechanism=mechanism)
            for side, mechanism in ((source, "SCRAM-SHA-256"), (target, "PLAIN"))
        ]
        copy(replace(link("", ""), source_client=clients[0], target_client=clients[1]))
        assert [record.value for record in target.records("A.in")] == [b"v%d" % i for i in range(20)]


def test_a_compacted_topic_keeps_its_tombstones_and_its_last_values(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1, cleanup_policy="compact")
    with Producer(bootstrap_servers=source.bootstrap) as producer:
        for i in range(300):
            producer.send("in", None if i % 7 == 0 else b"%d" % i, b"k%d" % (i % 20))
    copy(link(source.bootstrap, target.bootstrap))
    assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)
    with Admin(bootstrap_servers=target.bootstrap) as there:
        assert there.describe_configs("topic", "A.in")["cleanup.policy"].value == "compact"


def test_a_copy_that_is_deleted_while_the_mirror_runs_is_copied_again_from_the_start(
    sides: tuple[Broker, Broker],
) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    for i in range(10):
        source.send("in", f"v{i}")
    with runner(link(source.bootstrap, target.bootstrap, refresh_topics_s=0)) as running:
        running.round()
        target.delete_topic("A.in")
        running.driver.keep()  # makes it again
        source.send("in", "v10")
        with pytest.raises(TargetMoved, match="deleted and re-created"):
            running.round()
        while running.round():
            pass
    assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)


def test_batches_that_are_too_large_for_the_target_are_split() -> None:
    with Broker(message_max_bytes=8_000_000) as source, Broker() as target:
        source.create_topic("in", partitions=1)
        settings = {"max.request.size": 8_000_000, "batch.size": 4_000_000, "linger.ms": 60_000}
        with Producer({"bootstrap.servers": source.bootstrap, **settings}) as producer:
            for i in range(300):
                producer.send("in", b"%09000d" % i)
        assert max(header.size for header, _ in raw(source, "in")) > 1_048_588
        chosen = link(source.bootstrap, target.bootstrap)
        copy(chosen)
        assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)
        with runner(chosen) as running:
            running.driver.keep(whole=True)
            assert [running.driver.translate(TopicPartition("in", 0), at) for at in range(300)] == list(
                range(300)
            )
