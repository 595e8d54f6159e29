"""What replication promises, as courses tell it: acks, the high watermark, lost leaders, too few replicas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

import ottla
from ottla.client.errors import TimedOut
from ottla.errors import NotEnoughReplicas
from ottla.replication.fetcher import Fetcher
from tests.cluster.local import LocalCluster
from tests.course.faces import DEADLINE_S

Pause = Callable[[bool], None]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3) as running:
        yield running


@pytest.fixture
def replication(monkeypatch: pytest.MonkeyPatch) -> Pause:
    """`replication(False)`: followers go on asking and take nothing in, until `replication(True)`."""
    real, running = Fetcher._on_data, [True]

    def take_in(self: Fetcher, *arguments: object) -> None:
        if running[0]:
            real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Fetcher, "_on_data", take_in)
    return lambda on: running.__setitem__(0, on)


def create(cluster: LocalCluster, min_insync: int = 2) -> None:
    with ottla.Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("t", 1, 3, {"min.insync.replicas": str(min_insync)})
    cluster.until_in_sync("t")


def a_producer(cluster: LocalCluster, acks: str, **more: object) -> ottla.Producer:
    settings = {"acks": acks, "retry.backoff.ms": 20, "linger.ms": 0, **more}
    return ottla.Producer(settings, bootstrap_servers=cluster.bootstrap)


def values(cluster: LocalCluster) -> list[str]:
    """Everything that may be read now."""
    with ottla.Consumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", value_deserializer="str"
    ) as consumer:
        consumer.assign([("t", 0)])
        end = consumer.end_offsets()[ottla.TopicPartition("t", 0)]
        seen: list[str] = []
        deadline = time.monotonic() + DEADLINE_S
        while consumer.position(("t", 0)) < end:
            assert time.monotonic() < deadline
            seen += [record.value for record in consumer.poll(0.2)]
        return seen


def lose_leader(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    cluster.kill(leader)
    cluster.until(lambda: cluster.any().image.partition("t", 0).leader not in (leader, -1))


@pytest.mark.parametrize("acks", ["1", "all"])
def test_an_acknowledged_record_survives_a_leader_lost_after_replication(
    cluster: LocalCluster, acks: str
) -> None:
    create(cluster)
    with a_producer(cluster, acks) as producer:
        producer.send("t", "kept").result(DEADLINE_S)
        cluster.replicas_agree("t")
        lose_leader(cluster)
        producer.send("t", "next").result(DEADLINE_S)
    assert values(cluster) == ["kept", "next"]


def test_acks_1_loses_what_was_acknowledged_by_a_leader_lost_before_replication(
    cluster: LocalCluster, replication: Pause
) -> None:
    create(cluster)
    with a_producer(cluster, "1") as producer:
        producer.send("t", "safe").result(DEADLINE_S)
        cluster.replicas_agree("t")
        replication(False)
        assert producer.send("t", "lost").result(DEADLINE_S).offset == 1  # acknowledged
        lose_leader(cluster)
        replication(True)
    assert values(cluster) == ["safe"]


def test_acks_all_waits_for_replication_and_the_retry_brings_the_record_once(
    cluster: LocalCluster, replication: Pause
) -> None:
    create(cluster)
    with a_producer(cluster, "all") as producer:
        producer.send("t", "safe").result(DEADLINE_S)
        replication(False)
        delivery = producer.send("t", "late")
        with pytest.raises(TimedOut):
            delivery.result(0.5)  # no acknowledgement
        lose_leader(cluster)
        replication(True)
        delivery.result(DEADLINE_S)
    assert values(cluster) == ["safe", "late"]


def test_acks_0_tells_nothing(cluster: LocalCluster) -> None:
    create(cluster)
    with a_producer(cluster, "0") as producer:
        assert producer.send("t", "perhaps").result(DEADLINE_S).offset == -1


def test_nothing_is_readable_above_the_high_watermark(cluster: LocalCluster, replication: Pause) -> None:
    create(cluster)
    with a_producer(cluster, "1") as producer:
        producer.send("t", "below").result(DEADLINE_S)
        cluster.replicas_agree("t")
        replication(False)
        producer.send("t", "above").result(DEADLINE_S)  # the leader has it, nobody else
        with ottla.Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            while not (seen := consumer.poll(0.2)):
                pass
            assert [record.value for record in seen] == [b"below"]
            assert consumer.poll(0.5) == []
            replication(True)
            deadline = time.monotonic() + DEADLINE_S
            while not (seen := consumer.poll(0.2)):
                assert time.monotonic() < deadline
            assert [record.value for record in seen] == [b"above"]


def test_n_replicas_survive_n_minus_1_failures(cluster: LocalCluster) -> None:
    create(cluster, min_insync=1)
    with a_producer(cluster, "all") as producer:
        producer.send("t", "three").result(DEADLINE_S)
        lose_leader(cluster)
        producer.send("t", "two").result(DEADLINE_S)
        lose_leader(cluster)
        producer.send("t", "one").result(DEADLINE_S)
    assert values(cluster) == ["three", "two", "one"]


def test_too_few_replicas_is_an_error(cluster: LocalCluster) -> None:
    create(cluster, min_insync=2)
    others = [each for each in list(cluster.nodes) if each != cluster.leader()]
    for broker_id in others:
        cluster.kill(broker_id)
    cluster.until(lambda: len(cluster.any().image.partition("t", 0).isr) == 1)
    with a_producer(cluster, "all", retries=0, enable_idempotence=False) as producer:
        error = producer.send("t", "refused").exception(DEADLINE_S)
        assert isinstance(error, NotEnoughReplicas), error
    with a_producer(cluster, "1") as producer:
        producer.send("t", "taken").result(DEADLINE_S)  # who does not ask for replicas needs none


def test_too_few_replicas_is_an_error_with_confluent_kafka_too(cluster: LocalCluster) -> None:
    create(cluster, min_insync=2)
    for broker_id in [each for each in list(cluster.nodes) if each != cluster.leader()]:
        cluster.kill(broker_id)
    cluster.until(lambda: len(cluster.any().image.partition("t", 0).isr) == 1)
    told: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "retries": 0, "log_level": 0}
    )
    producer.produce("t", b"refused", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert told[0] is not None and told[0].code() == confluent_kafka.KafkaError.NOT_ENOUGH_REPLICAS


def test_every_broker_bootstraps_the_whole_cluster(cluster: LocalCluster) -> None:
    create(cluster)
    for port in cluster.ports.values():
        with ottla.Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            found = admin.describe_cluster()
            assert sorted(broker.id for broker in found.brokers) == [1, 2, 3]
        theirs = confluent_kafka.admin.AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        assert sorted(theirs.list_topics(timeout=DEADLINE_S).brokers) == [1, 2, 3]
        with ottla.Producer(bootstrap_servers=f"127.0.0.1:{port}") as producer:
            producer.send("t", str(port)).result(DEADLINE_S)
    assert values(cluster) == [str(port) for port in cluster.ports.values()]
