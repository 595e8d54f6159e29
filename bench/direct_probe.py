"""One record after another to each of some partitions, and no pause after an error: what the cluster itself costs.

librdkafka waits `retry.backoff.ms` (100) after every refusal. This client asks the leader that the refusal names, at
once, so its silences are those of the brokers alone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from collections.abc import Sequence
from itertools import pairwise

from ottla.client.connections import Connection
from ottla.client.settings import Settings
from ottla.errors import OttlaError
from ottla.wire.batch import build
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record

_VERSION = 12  # names topics, and tells of the next leader
_METADATA_VERSION = 12
_LOST_PAUSE_S = 0.002
_FLOWING_S = 60.0


class DirectProbe:
    """`with DirectProbe(bootstrap, "t", range(12), pause_s=0.005) as probe:`; acks=all."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int], pause_s: float) -> None:
        self._bootstrap = [(host, int(port)) for host, port in (x.split(":") for x in bootstrap.split(","))]
        self._topic, self._pause_s = topic, pause_s
        self._times = {partition: array("d") for partition in partitions}
        self._settings = Settings(client_id="probe", socket_connection_setup_timeout_ms=1000)
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[int, int] = {}
        self.refusals = 0
        self._stopping = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> DirectProbe:
        self._thread.start()
        self.until_flowing()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()

    def until_flowing(self) -> None:
        """Until every partition has acknowledged something from now on."""
        since = time.monotonic()
        while not all(len(times) and times[-1] > since for times in self._times.values()):
            if time.monotonic() - since > _FLOWING_S:
                raise RuntimeError(f"some partition of {self._topic} took no record for {_FLOWING_S:.0f} s")
            time.sleep(0.01)

    def silence(self, partition: int, since: float) -> float:
        """The longest time between two acknowledgements, the last one before `since` included."""
        times = list(self._times[partition])
        first = max(0, sum(at <= since for at in times) - 1)
        return max(later - earlier for earlier, later in pairwise([*times[first:], time.monotonic()]))

    # -- on its loop -----------------------------------------------------------------------------

    async def _run(self) -> None:
        await self._learn()
        await asyncio.gather(*map(self._write_to, self._times))

    async def _write_to(self, partition: int) -> None:
        """Has connections of its own: what it waits for is this partition alone."""
        connections: dict[int, Connection] = {}
        while not self._stopping:
            leader = self._leaders.get(partition, -1)
            try:
                if leader not in connections or not connections[leader].is_open:
                    connections[leader] = await Connection.open(*self._addresses[leader], self._settings)
                if await self._write(connections[leader], partition):
                    await asyncio.sleep(self._pause_s)
            except (OttlaError, OSError, KeyError):
                await asyncio.sleep(_LOST_PAUSE_S)
                await self._learn()
        for connection in connections.values():
            connection.close()

    async def _write(self, connection: Connection, partition: int) -> bool:
        records = build([Record(0, int(time.time() * 1000), None, b"x" * 100)])
        data = PartitionProduceData(index=partition, records=records)
        topic = TopicProduceData(name=self._topic, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        answer = await connection.send(request, _VERSION)
        told = answer.responses[0].partition_responses[0]
        if told.error_code == 0:
            self._times[partition].append(time.monotonic())
            return True
        self.refusals += 1
        for endpoint in answer.node_endpoints:
            self._addresses[endpoint.node_id] = endpoint.host, endpoint.port
        if told.current_leader.leader_id in self._addresses and told.current_leader.leader_id >= 0:
            self._leaders[partition] = told.current_leader.leader_id
        else:
            await asyncio.sleep(_LOST_PAUSE_S)
        return False

    async def _learn(self) -> None:
        """From the first broker that answers."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
        for host, port in (*self._addresses.values(), *self._bootstrap):
            try:
                connection = await Connection.open(host, port, self._settings)
                answer = await connection.send(request, _METADATA_VERSION)
            except (OttlaError, OSError):
                continue
            connection.close()
            if answer.topics[0].partitions:
                self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
                self._leaders = {each.partition_index: each.leader_id for each in answer.topics[0].partitions}
                return
