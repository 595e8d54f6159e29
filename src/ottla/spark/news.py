"""Waits until a partition has more than was read: long polls, one for each leader, which bring nothing but the news."""

import asyncio
from collections.abc import Mapping

from ottla.client.session import ZERO_ID, Cluster, by_topic
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

Positions = Mapping[TopicPartition, int]
_POLL_MS = 1_000


class News:
    """Needs a cluster of its own: long polls hold up their connections."""

    def __init__(self, polling: Cluster, *, read_committed: bool) -> None:
        self._polling, self._read_committed = polling, read_committed
        self._polls: dict[int, asyncio.Task[None]] = {}

    async def wait(self, positions: Positions) -> None:
        """Returns when one of the partitions has more than that, or after a second."""
        try:
            groups = await self._polling.by_leader(positions)
        except OttlaError as error:
            self._polling.forget_stale(error)
            await asyncio.sleep(0.1)
            return
        for node, partitions in groups.items():
            if node not in self._polls or self._polls[node].done():
                exact = {
                    TopicPartition(*partition): positions[TopicPartition(*partition)]
                    for partition in partitions
                }
                self._polls[node] = asyncio.ensure_future(self._poll(node, exact))
        polls = [self._polls[node] for node in groups]
        if polls:
            await asyncio.wait(polls, timeout=_POLL_MS / 1000, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0.1)

    async def _poll(self, node: int, positions: Positions) -> None:
        """A fetch that returns as soon as there is one byte; what it brings is of no interest."""
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=_POLL_MS,
            min_bytes=1,
            max_bytes=1,
            isolation_level=int(self._read_committed),
            session_epoch=-1,
            topics=[self._fetch_topic(topic, p, positions) for topic, p in by_topic(positions).items()],
        )
        without_ids = any(topic.topic_id == ZERO_ID for topic in request.topics)
        try:
            answer = await self._polling.ask(request, node, at_most=12 if without_ids else 32767)
            failed = answer.error_code or any(p.error_code for t in answer.responses for p in t.partitions)
            if failed:
                await self._polling.refresh(by_topic(positions))
                await asyncio.sleep(0.05)
        except OttlaError as error:
            self._polling.forget_stale(error)
            await asyncio.sleep(0.05)

    def _fetch_topic(self, topic: str, partitions: list[int], positions: Positions) -> FetchTopic:
        known = self._polling.image.topics[topic]
        return FetchTopic(
            topic=topic,
            topic_id=known.id,
            partitions=[
                FetchPartition(
                    partition=p,
                    current_leader_epoch=-1,
                    fetch_offset=positions[TopicPartition(topic, p)],
                    partition_max_bytes=1,
                )
                for p in partitions
            ],
        )
