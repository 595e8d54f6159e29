"""The two clusters that are measured, with one face: brokers 1, 2, 3..., and signals for each of them."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ottla.client import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.core.cluster import Partition
from ottla.client.values import TopicPartition
from ottla.errors import UnknownTopicOrPartition
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tests.cluster.processes import ProcessCluster
from tests.oracle.cluster import Oracle

Assignments = list[tuple[int, ...]]
_GONE_S = 60.0
_IN_SYNC_S = 120.0
_END = -1  # for ListOffsets


class Cluster(Protocol):
    bootstrap: str

    def __enter__(self) -> Cluster: ...
    def __exit__(self, *_: object) -> None: ...
    def end(self, broker_id: int, number: signal.Signals) -> None:
        """Send it, and wait until the process is gone."""

    def start(self, broker_id: int) -> None:
        """Again, and wait until it serves."""

    def sessions_lost(self) -> int:
        """How often the cluster gave a broker up because it was not heard of, from its logs."""


class OttlaCluster:
    """Processes over one ZooKeeper server, with the session and the lag that `ottla start` has by default."""

    def __init__(self, brokers: int) -> None:
        self._cluster = ProcessCluster(
            brokers, session_ms=6000, proxied=False, replica_lag_time_max_ms=30_000
        )
        self.bootstrap: str = self._cluster.bootstrap

    def __enter__(self) -> OttlaCluster:
        self._cluster.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.__exit__()

    def end(self, broker_id: int, number: signal.Signals) -> None:
        self._cluster.kill(broker_id, number)

    def start(self, broker_id: int) -> None:
        self._cluster.start(broker_id)

    def sessions_lost(self) -> int:
        return _count("the session with the metadata log is over|it is lost", self._cluster.folder)


class KafkaCluster:
    """Apache Kafka over KRaft: the first three brokers are controllers too."""

    def __init__(self, brokers: int) -> None:
        self._cluster = Oracle(brokers=brokers, heap="512M", settings={"min.insync.replicas": 2})
        self.bootstrap = self._cluster.bootstrap

    def __enter__(self) -> KafkaCluster:
        self._cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def end(self, broker_id: int, number: signal.Signals) -> None:
        pid = self._cluster.pid(broker_id)
        os.kill(pid, number)
        deadline = time.monotonic() + _GONE_S
        while _is_running(pid):
            if time.monotonic() > deadline:
                raise RuntimeError(f"broker {broker_id} does not end")
            time.sleep(0.02)

    def start(self, broker_id: int) -> None:
        self._cluster.restart(broker_id)

    def sessions_lost(self) -> int:
        return _count("because its session has timed out", self._cluster.data)


def _is_running(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty when only its entry is left
    except OSError:
        return False


def _count(pattern: str, folder: Path) -> int:
    return sum(len(re.findall(pattern, path.read_text())) for path in folder.glob("broker-*.log"))


# -- what is asked of both, through the protocol ---------------------------------------------------


def spread(partitions: int, brokers: int = 3, replicas: int = 3) -> Assignments:
    """Round and round: everybody leads as many."""
    return [tuple(1 + (index + r) % brokers for r in range(replicas)) for index in range(partitions)]


def create(cluster: Cluster, topic: str, assignments: Assignments, **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    with Admin(bootstrap_servers=cluster.bootstrap, request_timeout_ms=120_000) as admin:
        admin.create_topics([NewTopic(topic, configs=settings, assignments=assignments)])
    until_in_sync(cluster, topic)


def describe(cluster: Cluster, topic: str) -> dict[int, Partition]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        return admin.describe_topics([topic])[topic].partitions


def controller(cluster: Cluster) -> int:
    """Who decides: the leader of the metadata. Metadata itself may tell any broker that passes requests on."""
    wanted = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        answer = admin._run(admin.cluster.ask(DescribeQuorumRequest(topics=[wanted])))
    return int(answer.topics[0].partitions[0].leader_id)


def until_in_sync(cluster: Cluster, *topics: str) -> None:
    deadline = time.monotonic() + _IN_SYNC_S
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        while not all(map(_is_in_sync, found := _partitions(admin, topics))) or not found:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not in sync: {[each for each in found if not _is_in_sync(each)][:3]}")
            time.sleep(0.2)


def _partitions(admin: Admin, topics: Iterable[str]) -> list[Partition]:
    try:
        described = admin.describe_topics(topics)
    except UnknownTopicOrPartition:
        return []  # not every broker has heard of a new topic
    return [each for topic in described.values() for each in topic.partitions.values()]


def _is_in_sync(partition: Partition) -> bool:
    return partition.leader >= 0 and set(partition.isr) == set(partition.replicas)


def give_back(cluster: Cluster) -> None:
    """Preferred replicas lead again, as they would by themselves within five minutes."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.elect_leaders()


def move(cluster: Cluster, topic: str, assignments: Assignments) -> None:
    """And wait until everything is there."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.reassign({TopicPartition(topic, index): to for index, to in enumerate(assignments)})
        while admin.reassignments():
            time.sleep(0.1)


def elections(cluster: Cluster, topic: str) -> int:
    """So far: every election is one leader epoch more."""
    return sum(each.leader_epoch for each in describe(cluster, topic).values())


def written(cluster: Cluster, topic: str) -> int:
    """How many committed records it has."""
    places = [TopicPartition(topic, index) for index in describe(cluster, topic)]
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        return sum(each.offset for each in admin.list_offsets(dict.fromkeys(places, _END)).values())
