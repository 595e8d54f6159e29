"""`/metrics/partitions`: one series for each replica, and for each partition that a group has committed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.coordinators.lag import group_offsets
from ottla.exposition import Family, escaped
from ottla.replication.partition import Partition
from ottla.server.metrics.catalogue import family
from ottla.storage.log import Log

if TYPE_CHECKING:
    from ottla.server.node import Node

AT_ONCE = 100
OF_REPLICAS = (
    "kafka_log_log_size",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_logendoffset",
    "ottla_high_watermark",
)
OF_LEADERS = (
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_under_replicated_partition",
)


class Columns:
    """Series with the same labels. Texts and numbers in lists, no tuples: the collector would walk these, which takes
    longer than a step may."""

    def __init__(self, *names: str) -> None:
        self._labels: list[str] = []
        self._values: dict[str, list[int]] = {name: [] for name in names}

    def add(self, labels: str, *values: int) -> None:
        self._labels.append(labels)
        for column, value in zip(self._values.values(), values, strict=True):
            column.append(value)

    def families(self) -> Iterator[Family]:
        for name, values in self._values.items():
            yield family(name, zip(self._labels, values, strict=True))


def families(node: "Node") -> Iterator[Family | None]:
    """A family's lines stand together: so everything is gathered first, partition by partition."""
    replicas, leaders = Columns(*OF_REPLICAS), Columns(*OF_LEADERS)
    followers = Columns("ottla_follower_lag")
    for at, (topic, index) in enumerate(list(node.broker.replicas.partitions)):
        if not at % AT_ONCE:
            yield None
        partition = node.broker.replicas.partitions.get((topic, index))
        log = None if partition is None else partition.log
        if partition is None or log is None:
            continue  # it went, or its disk did
        text = f'{{topic="{escaped(topic)}",partition="{index}"}}'
        replicas.add(text, log.size_bytes, log.log_start_offset, log.end_offset, log.high_watermark)
        if partition.is_leader:
            leaders.add(text, *_leading(partition, log))
            for broker_id, follower in partition.followers.items():
                if follower.end_offset >= 0:
                    behind = max(log.end_offset - follower.end_offset, 0)
                    followers.add(f'{text[:-1]},follower="{broker_id}"}}', behind)
    for columns in (replicas, leaders, followers):
        yield from columns.families()
    yield from _groups(node)


def _leading(partition: Partition, log: Log) -> tuple[int, ...]:
    state, least = partition.state, partition.min_isr(log)
    in_sync, count = len(state.isr), len(state.replicas)
    return (
        int(in_sync == least),
        int(in_sync < least),
        log.high_watermark,
        log.log_start_offset,
        in_sync,
        count,
        state.leader,
        int(bool(state.replicas) and state.replicas[0] == state.leader),
        int(in_sync < count),
    )


def _groups(node: "Node") -> Iterator[Family | None]:
    broker = node.broker
    committed = Columns("kafka_consumergroup_current_offset")
    lags = Columns("kafka_consumergroup_lag")
    for offset in group_offsets(broker.groups, broker.end_offsets):
        if offset is None:
            yield None
            continue
        text = (
            f'{{consumergroup="{escaped(offset.group)}",topic="{escaped(offset.topic)}",'
            f'partition="{offset.partition}"}}'
        )
        committed.add(text, offset.committed)
        if offset.lag is not None:
            lags.add(text, offset.lag)
    broker.end_offsets.maybe_refresh()
    yield from committed.families()
    yield from lags.families()
