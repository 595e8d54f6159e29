"""`app.store(name)`: a store read from its changelog and followed, from any process, whether the application runs."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from ottla.client import Admin
from ottla.client.session import EARLIEST, LATEST, Session, list_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.pipelines.cluster_log import SharedReader
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import DELETE_RETENTION_MS
from ottla.streams.errors import BadTopology
from ottla.streams.views import applied


class Follower:
    """The rows of a store as its changelog tells them. Each look reads what was committed since the last one.

    Rows of all partitions are in one store: a key is in one partition only. May be used from several threads.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        spec: StoreSpec,
        changelog: str,
        delete_retention_ms: int = DELETE_RETENTION_MS,
    ) -> None:
        self._spec, self._changelog = spec, changelog
        self._delete_retention_ms, self._looked_ms = delete_retention_ms, 0
        self._partitions = _partitions(client, changelog)
        self._reader = SharedReader(client)
        self._session = Session("store query", ConsumerSettings.parse(client))
        self._cluster = self._session.cluster()
        self._positions: dict[TopicPartition, int] = {}
        self._topic_id = ""
        self._store = KeyedStore(spec)
        self.lock = threading.RLock()

    def look(self) -> KeyedStore:
        """Up to date with what is committed now."""
        begins, ends = self._offsets(EARLIEST), self._offsets(LATEST)
        topic_id = self._reader.bounds(self._partitions[0])[2]
        now_ms = int(time.time() * 1000)
        # Positions that compaction has passed are fine as long as deletions stay readable, which is a day. A deletion
        # that is gone from the changelog would leave its row here for ever.
        is_old = now_ms - self._looked_ms >= self._delete_retention_ms
        is_cut = any(ends[where] < at for where, at in self._positions.items())
        if is_old or is_cut or topic_id != self._topic_id:
            self._positions, self._store, self._topic_id = {}, KeyedStore(self._spec), topic_id
        ranges = {
            where: (max(self._positions.get(where, 0), begins[where]), ends[where])
            for where in self._partitions
        }
        for rows in self._reader.read({where: pair for where, pair in ranges.items() if pair[0] < pair[1]}):
            applied(self._store, rows)
        self._store.forget_changes()
        self._positions, self._looked_ms = ends, now_ms
        return self._store

    def close(self) -> None:
        self._reader.close()
        self._session.close()

    def _offsets(self, at: int) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(self._partitions, at)
        offsets = self._session.run(list_offsets(self._cluster, asked, committed_only=True))
        return {where: answer.offset for where, answer in offsets.items()}


def _partitions(client: Mapping[str, Any], changelog: str) -> list[TopicPartition]:
    with Admin(client) as admin:
        topic = admin.list_topics().get(changelog)
    if topic is None:
        raise BadTopology(f"there is no topic {changelog} yet: the application has not run on this cluster")
    return [TopicPartition(changelog, partition) for partition in range(len(topic.partitions))]
