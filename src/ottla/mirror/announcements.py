"""MirrorMaker's topics, as its tools and clients read them: heartbeats, checkpoints, offset syncs."""

import time
from collections.abc import Iterable, Mapping

from ottla.client import Producer
from ottla.client.admin import Admin
from ottla.client.values import TopicPartition
from ottla.mirror import formats
from ottla.mirror.link import Link
from ottla.mirror.naming import HEARTBEATS, checkpoints_topic, offset_syncs_topic
from ottla.mirror.runs import Run
from ottla.mirror.topics import TopicKeeper

Records = Iterable[tuple[bytes, bytes | None]]


class Announcements:
    """Written without a transaction: what is lost or repeated is said again with the next round."""

    def __init__(self, link: Link, source: Admin, target: Admin) -> None:
        self._link = link
        self._admins = {"source": source, "target": target}
        self._producers: dict[str, Producer] = {}
        self._synced: dict[TopicPartition, int] = {}

    def ensure_topics(self, topics: TopicKeeper) -> None:
        if self._link.emit_heartbeats:
            topics.ensure_internal(self._admins["source"], HEARTBEATS)
            topics.ensure_internal(self._admins["target"], HEARTBEATS)
        if self._link.emit_checkpoints:
            topics.ensure_internal(self._admins["target"], checkpoints_topic(self._link.source))
        if self._link.emit_offset_syncs:
            topics.ensure_internal(self._admins[self._link.offset_syncs_at], self._offset_syncs)

    def heartbeat(self) -> None:
        """As MirrorMaker: at the target for this link, at the source for the way back, where this link copies it."""
        link, now_ms = self._link, int(time.time() * 1000)
        self.send("target", HEARTBEATS, [formats.heartbeat(link.source, link.target, now_ms)])
        self.send("source", HEARTBEATS, [formats.heartbeat(link.target, link.source, now_ms)])

    def checkpoints(self, records: Records) -> None:
        if self._link.emit_checkpoints:
            self.send("target", checkpoints_topic(self._link.source), records)

    def offset_syncs(self, runs: Mapping[TopicPartition, Run]) -> None:
        """The last run of each partition, if it is another than before."""
        if not self._link.emit_offset_syncs:
            return
        news = {where: run for where, run in runs.items() if self._synced.get(where) != run.source}
        self._synced.update((where, run.source) for where, run in news.items())
        records = [formats.offset_sync(where, run.source, run.target) for where, run in news.items()]
        self.send(self._link.offset_syncs_at, self._offset_syncs, records)

    def send(self, side: str, topic: str, records: Records) -> None:
        for key, value in records:
            if side not in self._producers:
                client = self._link.source_client if side == "source" else self._link.target_client
                self._producers[side] = Producer(client)
            self._producers[side].send(topic, value, key, partition=0)

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close(5)

    @property
    def _offset_syncs(self) -> str:
        other = self._link.target if self._link.offset_syncs_at == "source" else self._link.source
        return offset_syncs_topic(other)
