"""When a new topic can be used: Apache Kafka's broker knows it, and leads it, a moment after its creator was answered."""

from __future__ import annotations

import time

from ottla import errors
from ottla.client import Admin
from ottla.client.errors import TimedOut
from ottla.client.values import TopicPartition

_PATIENCE_S = 120
_LATEST = -1
_NOT_YET = (
    errors.UnknownTopicOrPartition,
    errors.LeaderNotAvailable,
    errors.NotLeaderOrFollower,
    errors.UnknownLeaderEpoch,
    errors.FencedLeaderEpoch,
    TimedOut,
)


def wait_for_leaders(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Until every partition is led. Before, a record with acks=0 would be lost, a reader be told that there is no
    such topic, and a group be shared out a second time once the topic is there."""
    wanted = {TopicPartition(topic, partition): _LATEST for partition in range(partitions)}
    deadline = time.monotonic() + _PATIENCE_S
    while not _all_lead(bootstrap, wanted):
        assert time.monotonic() < deadline, f"{topic} has no leaders"
        time.sleep(0.01)


def _all_lead(bootstrap: str, wanted: dict[TopicPartition, int]) -> bool:
    """By a new client: librdkafka's, which knew a deleted topic of this name, keeps asking for its leader epochs."""
    try:
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.list_offsets(wanted)
    except _NOT_YET:
        return False
    return True


def wait_for_changes(bootstrap: str) -> None:
    """Until all earlier changes are known to every part of the broker.

    Changes travel in order, but Apache Kafka may publish several at once, to one part of a broker after another: once
    a second topic is seen, all parts have the first.
    """
    for _ in range(2):
        name = f"fence-{time.monotonic_ns()}"
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic(name, 1)
        wait_for_leaders(bootstrap, name)
