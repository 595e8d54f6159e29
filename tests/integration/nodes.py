"""Whole brokers in this process, over real sockets, and a client that says exactly what a test wants said."""

import asyncio
import contextlib
import random
import struct
import threading

from ottla.broker.routes import ROUTES
from ottla.config.settings import Config
from ottla.server.disk import ThreadJobs
from ottla.server.node import Node
from ottla.storage.memory import MemoryDisk
from ottla.wire import batch, codec, records
from ottla.wire.frames import request_header, seal, skip_tags
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "node.id": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
TOPIC, BROKER = 2, 4


def run(scenario, timeout_s=120):
    return asyncio.run(asyncio.wait_for(scenario, timeout_s))


class SlowJobs:
    """Syncing takes its time, as it does on real disks: what is not waited for is not there yet."""

    def __init__(self, loop):
        self._loop = loop
        self._chance = random.Random(1)

    def submit(self, job, done):
        def run():
            try:
                result = job()
            except Exception as error:
                result = error
            done(result)

        self._loop.call_later(self._chance.choice((0.005, 0.01, 0.06)), run)

    def close(self):
        pass


class GatedJobs(ThreadJobs):
    """Threads wait while the gate is closed: what happens meanwhile happens beside them."""

    gate = threading.Event()

    def submit(self, job, done):
        def run():
            assert self.gate.wait(120), "the gate stayed closed"
            return job()

        super().submit(run, done)


def a_node(disks=None, slow=False, make_jobs=None, **settings):
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    make_jobs = make_jobs or (SlowJobs if slow else ThreadJobs)
    return Node(Config({**SETTINGS, **texts}), disks=disks, make_jobs=make_jobs)


@contextlib.asynccontextmanager
async def running(disks=None, *, crash=False, **settings):
    """A broker; stopped cleanly at the end, or as kill -9 does."""
    node = a_node(disks, **settings)
    await node.start()
    try:
        yield node
    finally:
        await (node.crash() if crash else node.stop())


@contextlib.asynccontextmanager
async def connected(node):
    client = await Client.connect(node.listeners[0].port)
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def broker(disks=None, *, crash=False, **settings):
    async with running(disks, crash=crash, **settings) as node, connected(node) as client:
        yield node, client


def power_cut(disk: MemoryDisk) -> MemoryDisk:
    """The disk as the next start finds it."""
    disk.crash()
    return disk


class Client:
    """One connection; requests one after the other."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self._turn = asyncio.Lock()
        self._number = 0

    @classmethod
    async def connect(cls, port):
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 26))

    async def close(self):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def frame(self, request, version=None):
        api = ROUTES[request.API_KEY].api
        version = min(ROUTES[api.key].version_max, self.newest(api)) if version is None else version
        self._number += 1
        header = request_header(api, version, self._number, "test")
        return api, version, bytes(seal(codec.write(request, version, header)))

    @staticmethod
    def newest(api):
        return {"Produce": 12, "Fetch": 12}.get(api.name, api.version_max)

    async def call(self, request, version=None):
        async with self._turn:
            api, version, frame = self.frame(request, version)
            self.writer.write(frame)
            return await self.answer(api, version)

    async def answer(self, api, version):
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        body = await self.reader.readexactly(size)
        position = 4
        if version >= api.flexible_from and api.name != "ApiVersions":
            position = skip_tags(body, position)
        return codec.read(api.response(), version, body, position)[0]

    # -- what tests ask most ---------------------------------------------------------------------

    async def create(self, topic, partitions=1, **configs):
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        for name, value in configs.items():
            wanted.configs.append(CreatableTopicConfig(name=name.replace("_", "."), value=str(value)))
        response = await self.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
        (topic_result,) = response.topics
        assert topic_result.error_code == 0, (
            f"error_code={topic_result.error_code}: {topic_result.error_message}"
        )

    async def produce(self, topic, *values, partition=0, acks=-1, key=b"k", timestamp=None):
        """The partition's part of the answer."""
        import time

        now_ms = time.time_ns() // 1_000_000 if timestamp is None else timestamp
        made = batch.build([Record(-1, now_ms, key, value) for value in values])
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=partition, records=made)]
        )
        response = await self.call(ProduceRequest(acks=acks, timeout_ms=20_000, topic_data=[data]))
        return response.responses[0].partition_responses[0]

    async def fetch(self, topic, offset=0, partition=0, max_bytes=16 << 20, max_wait_ms=0):
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        response = await self.call(
            FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=max_bytes,
                session_epoch=-1,
                topics=[FetchTopic(topic=topic, partitions=[wanted])],
            )
        )
        return response.responses[0].partitions[0]

    async def read_all(self, topic, partition=0, offset=None):
        """Values in order, and every offset one more than the last."""
        start, end = await self.bounds(topic, partition)
        offset, values = start if offset is None else offset, []
        while offset < end:
            found = await self.fetch(topic, offset, partition)
            assert found.error_code == 0, found
            data = bytes(found.records)
            assert data, f"nothing at {offset}, the log ends at {end}"
            for position, _ in batch.headers(data):
                for record in records.read(data, position):
                    if record.offset >= offset:
                        values.append(record.value)
                        offset = record.offset + 1
        return values

    async def bounds(self, topic, partition=0):
        found = []
        for timestamp in (-2, -1):
            wanted = ListOffsetsPartition(
                partition_index=partition, timestamp=timestamp, current_leader_epoch=-1
            )
            response = await self.call(
                ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]),
                7,
            )
            answer = response.topics[0].partitions[0]
            assert answer.error_code == 0, answer
            found.append(answer.offset)
        return tuple(found)

    async def delete_before(self, topic, offset, partition=0):
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=10_000
        )
        return (await self.call(request)).topics[0].partitions[0]

    async def configure(self, kind, name, **configs):
        entries = [
            AlterableConfig(name=each.replace("_", "."), config_operation=0, value=str(value))
            for each, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
        response = await self.call(IncrementalAlterConfigsRequest(resources=[resource]))
        return response.responses[0]

    async def topic(self, name):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return (await self.call(request)).topics[0]

    async def move(self, topic, path, partition=0):
        wanted = AlterReplicaLogDir(
            path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
        )
        response = await self.call(AlterReplicaLogDirsRequest(dirs=[wanted]))
        return response.results[0].partitions[0].error_code

    async def folders(self):
        """path -> (error code, {(topic, partition): its entries})."""
        found = {}
        for each in (await self.call(DescribeLogDirsRequest(topics=None))).results:
            entries = {}
            for topic in each.topics:
                for partition in topic.partitions:
                    entries.setdefault((topic.name, partition.partition_index), []).append(partition)
            found[each.log_dir] = each.error_code, entries
        return found


async def until(condition, timeout_s=60):
    """Polls: for what happens by itself, on the clock of the broker."""
    async with asyncio.timeout(timeout_s):
        while not (found := condition()):
            await asyncio.sleep(0.005)
        return found
