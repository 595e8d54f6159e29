"""A cluster at two moments, over the Kafka protocol, and what happened in between: rates and lag."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError

GROUPS_MAX = 1_000  # that are asked for: one request each


class Sample(NamedTuple):
    at_s: float
    cluster_id: str
    controller: int
    brokers: dict[int, str]  # address by id
    leaders: Counter[int]
    replicas: Counter[int]
    partitions: dict[str, int]  # by topic
    under_replicated: Counter[str]
    offline: Counter[str]
    ends: dict[TopicPartition, int]
    leader_of: dict[TopicPartition, int]
    topic_bytes: Counter[str]  # of the leaders' replicas
    broker_bytes: Counter[int]
    groups: dict[str, tuple[str, int]]  # state, members (-1: not asked)
    committed: dict[str, dict[TopicPartition, int]]


class BrokerRow(NamedTuple):
    broker: int
    address: str
    role: str
    leaders: int
    replicas: int
    messages_s: float | None
    bytes: int


class TopicRow(NamedTuple):
    topic: str
    partitions: int
    under_replicated: int
    offline: int
    messages: int
    messages_s: float | None
    bytes_s: float | None
    bytes: int


class GroupRow(NamedTuple):
    group: str
    state: str
    topics: int
    committed_s: float | None
    lag: int
    lag_s: float | None  # how it grows
    left_s: float | None  # until it has caught up, at these rates


def sample(admin: Admin) -> Sample:
    """A handful of requests, and one for each group."""
    info = admin.describe_cluster()
    topics = admin.list_topics()
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    under: Counter[str] = Counter()
    offline: Counter[str] = Counter()
    leader_of: dict[TopicPartition, int] = {}
    for name, topic in topics.items():
        for index, partition in topic.partitions.items():
            replicas.update(partition.replicas)
            under[name] += len(partition.isr) < len(partition.replicas)
            if partition.leader < 0:
                offline[name] += 1
            else:
                leaders[partition.leader] += 1
                leader_of[TopicPartition(name, index)] = partition.leader
    ends = {where: end.offset for where, end in admin.list_offsets(dict.fromkeys(leader_of, -1)).items()}
    topic_bytes, broker_bytes = _sizes(admin, leader_of)
    listed = [group for group in admin.list_groups() if group.type.lower() != "share"][:GROUPS_MAX]
    return Sample(
        time.monotonic(),
        info.id or "",
        info.controller,
        {broker.id: f"{broker.host}:{broker.port}" for broker in info.brokers},
        leaders,
        replicas,
        {name: len(topic.partitions) for name, topic in topics.items()},
        under,
        offline,
        ends,
        leader_of,
        topic_bytes,
        broker_bytes,
        {group.id: (group.state, -1) for group in listed},
        {group.id: _committed(admin, group.id) for group in listed},
    )


def _sizes(admin: Admin, leader_of: Mapping[TopicPartition, int]) -> tuple[Counter[str], Counter[int]]:
    """Zeros for one who may not see log folders."""
    by_topic: Counter[str] = Counter()
    by_broker: Counter[int] = Counter()
    try:
        folders = admin.log_dirs()
    except OttlaError:
        return by_topic, by_broker
    for folder in folders:
        for where, size in folder.sizes.items():
            by_broker[folder.broker] += size
            if leader_of.get(where) == folder.broker:
                by_topic[where.topic] += size
    return by_topic, by_broker


def _committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    try:
        return {where: committed.offset for where, committed in admin.group_offsets(group).items()}
    except OttlaError:
        return {}  # it went, or its coordinator moves


def broker_rows(now: Sample, before: Sample | None) -> list[BrokerRow]:
    appended: Counter[int] = Counter()
    for where, end in now.ends.items():
        appended[now.leader_of[where]] += _grown(where, end, before)
    return [
        BrokerRow(
            broker,
            address,
            "controller" if broker == now.controller else "",
            now.leaders[broker],
            now.replicas[broker],
            _rate(appended[broker], now, before),
            now.broker_bytes[broker],
        )
        for broker, address in sorted(now.brokers.items())
    ]


def topic_rows(now: Sample, before: Sample | None) -> list[TopicRow]:
    appended: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for where, end in now.ends.items():
        messages[where.topic] += end
        appended[where.topic] += _grown(where, end, before)
    return [
        TopicRow(
            name,
            count,
            now.under_replicated[name],
            now.offline[name],
            messages[name],
            _rate(appended[name], now, before),
            # What retention has deleted meanwhile is not seen: never below zero.
            _rate(max(now.topic_bytes[name] - (before.topic_bytes[name] if before else 0), 0), now, before),
            now.topic_bytes[name],
        )
        for name, count in sorted(now.partitions.items())
    ]


def group_rows(now: Sample, before: Sample | None) -> list[GroupRow]:
    rows = []
    for group, (state, _) in sorted(now.groups.items()):
        committed = now.committed[group]
        lag = _lag(committed, now)
        speed = lag_speed = seconds_left = None
        if before is not None and group in before.committed:
            earlier = before.committed[group]
            moved = sum(max(at - earlier.get(where, at), 0) for where, at in committed.items())
            speed = _rate(moved, now, before)
            lag_speed = _rate(lag - _lag(earlier, before), now, before)
            if lag_speed is not None and lag and lag_speed < 0:
                seconds_left = lag / -lag_speed
        topics = len({where.topic for where in committed})
        rows.append(GroupRow(group, state, topics, speed, lag, lag_speed, seconds_left))
    return rows


def _lag(committed: Mapping[TopicPartition, int], at: Sample) -> int:
    return sum(max(at.ends.get(where, offset) - offset, 0) for where, offset in committed.items())


def _grown(where: TopicPartition, end: int, before: Sample | None) -> int:
    return max(end - before.ends.get(where, 0), 0) if before is not None else 0


def _rate(count: int, now: Sample, before: Sample | None) -> float | None:
    return None if before is None or now.at_s <= before.at_s else count / (now.at_s - before.at_s)
