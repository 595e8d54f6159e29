"""A compacted topic as a table: the newest value of each key, up to the high watermark."""

from collections.abc import Mapping
from typing import Any

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.ranges import Range
from ottla.client.session import EARLIEST, LATEST, Session, list_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.connect.errors import ConfigError
from ottla.errors import TopicAlreadyExists

# The last stable offset may wait for a dead transaction of somebody else: these end after a minute.
_READ_TIMEOUT_MS = 120_000


class TopicTable:
    """Blocking. `catch_up` reads what has come since the last call."""

    def __init__(self, client: Mapping[str, Any], topic: str) -> None:
        self.topic = topic
        self.rows: dict[bytes, bytes] = {}
        self._session = Session("connect table", ConsumerSettings.parse(client))
        self._cluster = self._session.cluster()
        self._reader = ColumnarReader(client)
        self._positions: dict[TopicPartition, int] = {}

    def catch_up(self) -> list[tuple[bytes, bytes | None]]:
        """What is new, in the order of each partition. Open transactions before the end are waited for: the newest
        value of a key may lie behind somebody else's."""
        partitions = self._partitions()
        if not self._positions:
            begins = self._offsets(partitions, EARLIEST)
            self._positions = dict(begins)
        ends = self._offsets(partitions, LATEST)
        ranges = [
            Range(*where, self._positions.get(where, 0), end)
            for where, end in ends.items()
            if end > self._positions.get(where, 0)
        ]
        news: list[tuple[bytes, bytes | None]] = []
        if ranges:
            for rows in self._reader.read(ranges, idle_timeout_ms=_READ_TIMEOUT_MS):
                keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
                news += [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
        for key, value in news:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self._positions.update(ends)
        return news

    def close(self) -> None:
        self._reader.close()
        self._session.close()

    def _partitions(self) -> list[TopicPartition]:
        return self._session.run(self._known())

    async def _known(self) -> list[TopicPartition]:
        cluster = self._cluster
        if self.topic not in cluster.image.topics:
            await cluster.retrying(lambda: cluster.refresh([self.topic]), f"topic {self.topic} is not known")
        return [TopicPartition(self.topic, index) for index in cluster.image.topics[self.topic].partitions]

    def _offsets(self, partitions: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
        listed = self._session.run(list_offsets(self._cluster, dict.fromkeys(partitions, at)))
        return {where: entry.offset for where, entry in listed.items()}


def ensure_compacted(admin: Admin, topic: str, partitions: int, replication: int) -> None:
    """Creates a topic of the worker; refuses one that would forget."""
    if topic not in admin.list_topics():
        brokers = len(admin.describe_cluster().brokers)
        new = NewTopic(topic, partitions, min(replication, brokers), configs={"cleanup.policy": "compact"})
        try:
            admin.create_topics([new])
            return
        except TopicAlreadyExists:
            pass
    policy = admin.describe_configs("topic", topic)["cleanup.policy"].value
    if policy != "compact":
        raise ConfigError(
            f"topic {topic} has cleanup.policy={policy}: what connectors must remember would be deleted. "
            f"Set it to compact: ottla config alter topic {topic} cleanup.policy=compact"
        )
