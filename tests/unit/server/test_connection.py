"""Connections of clients that behave badly: a closed connection and a reason, never more."""

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import sys
import time
import tracemalloc
import weakref

import pytest
import trustme

from ottla.config.settings import Config
from ottla.metadata.image import BROKER_RESOURCE
from ottla.metadata.records import ConfigSet
from ottla.server.connection import LARGE_BYTES, LARGE_READ_BYTES
from ottla.server.node import Node, memory_disk
from ottla.wire import codec
from ottla.wire.batch import build
from ottla.wire.frames import request_header, seal
from ottla.wire.messages import BY_NAME
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.records import Record

SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "node.id": "1"}


def with_node(scenario, loop_factory=None, **settings):
    async def main():
        node = Node(Config({**SETTINGS, **settings}), disks=[memory_disk()])
        await node.start()
        try:
            return await asyncio.wait_for(scenario(node), 60)
        finally:
            await node.stop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


def frame(name, version, request, correlation_id=1):
    header = request_header(BY_NAME[name], version, correlation_id, "test")
    return bytes(seal(codec.write(request, version, header)))


@contextlib.asynccontextmanager
async def connect(node):
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listeners[0].port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def answer(reader):
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    body = await reader.readexactly(size)
    return struct.unpack_from(">i", body)[0], body[4:]


async def is_alive(node):
    async with connect(node) as (reader, writer):
        writer.write(frame("ApiVersions", 0, BY_NAME["ApiVersions"].request()()))
        _, body = await answer(reader)
        return codec.read(ApiVersionsResponse, 0, body)[0].error_code == 0


async def make_topic(reader, writer, name="t"):
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    writer.write(frame("CreateTopics", 5, CreateTopicsRequest(topics=[topic], timeout_ms=5000)))
    await answer(reader)


def a_produce(value=b"v", acks=1, topic="t"):
    batch = build([Record(0, 1, b"k", value)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 8) + b"\xff" * 8,
        struct.pack(">ihhi", 8, 999, 0, 1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhih", 10, 3, 1, 1, 30000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        frame("Metadata", 1, MetadataRequest(topics=None))[:-4] + b"\x7f\xff\xff\xff",
    ],
    ids=[
        "negative",
        "empty",
        "huge",
        "noise",
        "unknown API",
        "unknown version",
        "client id",
        "HTTP",
        "count",
    ],
)
def test_garbage_closes_the_connection_and_harms_nobody_else(garbage):
    async def scenario(node):
        async with connect(node) as (reader, writer):
            writer.write(garbage)
            assert await reader.read() == b""
        assert await is_alive(node)

    with_node(scenario)


def test_a_frame_may_come_byte_by_byte():
    async def scenario(node):
        async with connect(node) as (reader, writer):
            for byte in frame("ApiVersions", 0, BY_NAME["ApiVersions"].request()()):
                writer.write(bytes([byte]))
                await writer.drain()
            correlation_id, _ = await answer(reader)
            assert correlation_id == 1

    with_node(scenario)


def test_an_announced_length_costs_nothing_until_its_bytes_arrive():
    async def scenario(node):
        async with connect(node) as (_, writer):
            writer.write(struct.pack(">i", 90 << 20) + b"x" * 1000)
            await writer.drain()
            assert await is_alive(node)
            assert node.listeners[0].budget.held_bytes <= 1 << 20

    with_node(scenario)


def test_pipelined_requests_are_answered_in_order():
    async def scenario(node):
        async with connect(node) as (reader, writer):
            await make_topic(reader, writer)
            requests = [frame("Produce", 8, a_produce(b"%d" % i, acks=-1), i) for i in range(200)]
            writer.write(b"".join(requests))
            answers = [await answer(reader) for _ in range(200)]
            assert [correlation_id for correlation_id, _ in answers] == list(range(200))
            offsets = [
                codec.read(ProduceResponse, 8, body)[0].responses[0].partition_responses[0].base_offset
                for _, body in answers
            ]
            assert offsets == list(range(200))

    with_node(scenario)


def test_an_error_with_acks_0_closes_the_connection():
    async def scenario(node):
        async with connect(node) as (reader, writer):
            writer.write(frame("Produce", 8, a_produce(acks=0, topic="missing")))
            assert await reader.read() == b""

    with_node(scenario)


def test_a_reader_that_never_reads_holds_a_bounded_amount():
    async def scenario(node):
        async with connect(node) as (reader, writer):
            await make_topic(reader, writer)
            for i in range(20):
                writer.write(frame("Produce", 8, a_produce(b"x" * 500_000), i))
                await answer(reader)
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10 << 20)
            topics = [FetchTopic(topic="t", partitions=[partition])]
            wanted = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=10 << 20, topics=topics)
            one = frame("Fetch", 4, wanted)
            for _ in range(200):  # 2 GB of answers, if they were all made
                writer.write(one)
            assert await is_alive(node)
            stuck = next(each for each in node.listeners[0].connections if not each.idle or not each._reading)
            assert stuck._transport.get_write_buffer_size() < 32 << 20
            assert not stuck._reading

    with_node(scenario)


def test_a_consumer_that_is_gone_takes_its_parked_fetch_with_it():
    async def scenario(node):
        async with connect(node) as (reader, writer):
            await make_topic(reader, writer)
        partition = node.broker.replicas.partition("t", 0)
        async with connect(node) as (_, writer):
            topics = [
                FetchTopic(topic="t", partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=1)])
            ]
            writer.write(frame("Fetch", 4, FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)))
            while not len(partition.committed):
                await asyncio.sleep(0)
        while len(partition.committed):
            await asyncio.sleep(0)

    with_node(scenario)


def test_a_client_that_is_gone_while_nothing_is_read_from_it_takes_its_requests_with_it():
    """More of the next requests has arrived than is read ahead: that the client closes is not read either."""

    async def scenario(node):
        async with connect(node) as (reader, writer):
            await make_topic(reader, writer)
        partition = node.broker.replicas.partition("t", 0)
        async with connect(node) as (_, writer):
            writer.write(
                frame("Fetch", 4, a_long_poll()) + frame("ApiVersions", 0, ApiVersionsRequest()) * 5000
            )
            while not len(partition.committed) or all(
                each.is_reading for each in node.listeners[0].connections
            ):
                await asyncio.sleep(0)
        while len(partition.committed):
            await asyncio.sleep(0.01)

    with_node(scenario)


def a_long_poll(wait_ms=60_000, topic="t", partitions=1):
    wanted = [
        FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=9999) for i in range(partitions)
    ]
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=9999, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )


def padded(data, size):
    """The same request with bytes behind it, which belong to its frame."""
    body = data[4:] + bytes(size)
    return struct.pack(">i", len(body)) + body


@contextlib.contextmanager
def without_the_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_parked_long_poll_holds_nothing_of_its_frame():
    async def scenario(node):
        budget = node.listeners[0].budget
        async with connect(node) as (reader, writer), connect(node) as (_, writer2):
            await make_topic(reader, writer)
            partition = node.broker.replicas.partition("t", 0)
            for parked, padding in enumerate((10_000, 2_000_000)):
                (writer, writer2)[parked].write(padded(frame("Fetch", 4, a_long_poll()), padding))
                while len(partition.committed) <= parked:
                    await asyncio.sleep(0)
            assert budget.held_bytes == 0

    with without_the_collector():
        with_node(scenario)


def test_a_fetch_waits_no_longer_than_the_setting_allows():
    async def scenario(node):
        async with connect(node) as (reader, writer):
            await make_topic(reader, writer)
            writer.write(frame("Fetch", 4, a_long_poll(wait_ms=2**31 - 1)))
            while not len(node.broker.replicas.partition("t", 0).committed):
                await asyncio.sleep(0)
            node.clock.advance(7001)
            _, body = await answer(reader)
            found = codec.read(FetchResponse, 4, body)[0].responses[0].partitions[0]
            assert found.error_code == 0 and not found.records

    with_node(scenario, **{"ottla.fetch.max.wait.ms": "7000"})


def test_large_long_polls_beyond_their_memory_are_answered_at_once():
    async def scenario(node):
        parked = node.listeners[0].budget.parked
        async with connect(node) as (reader, writer), connect(node) as (reader2, writer2):
            topic = CreatableTopic(name="many", num_partitions=1000, replication_factor=1)
            writer.write(frame("CreateTopics", 5, CreateTopicsRequest(topics=[topic], timeout_ms=5000)))
            await answer(reader)
            writer.write(frame("Fetch", 4, a_long_poll(topic="many", partitions=1000)))
            while not parked.held_bytes:
                await asyncio.sleep(0)
            writer2.write(frame("Fetch", 4, a_long_poll(topic="many", partitions=1000)))
            _, body = await answer(reader2)
            assert len(codec.read(FetchResponse, 4, body)[0].responses[0].partitions) == 1000
            writer2.write(frame("Fetch", 4, a_long_poll(topic="many")))  # a small one waits
            while len(node.broker.replicas.partition("many", 0).committed) != 2:
                await asyncio.sleep(0)
            writer.close()
            while parked.held_bytes:
                await asyncio.sleep(0)

    with_node(scenario, **{"ottla.requests.max.bytes": "1000000"})


def test_closed_connections_free_everything_without_the_collector():
    async def scenario(node):
        listener = node.listeners[0]
        async with connect(node) as (reader, writer):
            await make_topic(reader, writer)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(5):
            async with connect(node) as (_, writer), connect(node) as (_, parked):
                await until_connected(listener, 2)
                parked.write(padded(frame("Fetch", 4, a_long_poll()), 100_000))
                while not len(node.broker.replicas.partition("t", 0).committed):
                    await asyncio.sleep(0)
                gone = [weakref.ref(each) for each in listener.connections]
                pipelines = [weakref.ref(each._pipeline) for each in listener.connections]
                writer.write(struct.pack(">i", 100 << 20) + bytes(8 << 20))
                while listener.budget.held_bytes < 8 << 20:
                    await asyncio.sleep(0)
            while listener.connections:
                await asyncio.sleep(0)
            writer = parked = None
            await asyncio.sleep(0.01)  # asyncio's own handles go with the turns of the loop
            assert listener.budget.held_bytes == 0
            assert [each() for each in gone + pipelines] == [None] * 4
        assert tracemalloc.get_traced_memory()[0] - before < 4 << 20
        tracemalloc.stop()

    with without_the_collector():
        with_node(scenario)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_closed_connections_with_tls_free_everything_without_the_collector(tmp_path, loop):
    authority = trustme.CA()
    (tmp_path / "server.pem").write_bytes(
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes()
    )
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())

    async def scenario(node):
        listener = node.listeners[0]
        _, writer = await asyncio.open_connection(
            "127.0.0.1", listener.port, ssl=context, server_hostname="localhost"
        )
        await until_connected(listener, 1)
        (gone,) = (weakref.ref(each) for each in listener.connections)
        writer.write(struct.pack(">i", 100 << 20) + bytes(8 << 20))
        while listener.budget.held_bytes < 8 << 20:
            await asyncio.sleep(0)
        writer.transport.abort()
        while listener.connections or gone() is not None:
            await asyncio.sleep(0)
        assert listener.budget.held_bytes == 0

    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM"}
    with without_the_collector():
        with_node(scenario, factory, **settings, **{"ssl.keystore.location": str(tmp_path / "server.pem")})


def set_limit(node, value):
    """As a metadata log may hold it that was written before such a value was refused."""
    name = f"listener.name.{node.listeners[0].name.lower()}.max.connections"
    node.broker.image.apply(ConfigSet(BROKER_RESOURCE, "1", name, value))


LOGIN = 'PlainLoginModule required username="alice" password="secret" user_alice="secret";'
WITH_PLAIN = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
}


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_nobody_gets_past_the_login_by_a_limit_that_cannot_be_read(loop):
    async def ask(node):
        async with connect(node) as (reader, writer):
            writer.write(frame("Metadata", 1, MetadataRequest(topics=None)))
            with contextlib.suppress(ConnectionError):
                return await reader.read()
            return b""

    async def scenario(node):
        set_limit(node, "9" * 5000)
        assert await ask(node) == b""
        while node.listeners[0].connections:
            await asyncio.sleep(0)
        set_limit(node, "1")  # and every connection was counted out again
        async with connect(node) as (reader, writer):
            writer.write(frame("ApiVersions", 0, ApiVersionsRequest()))
            await answer(reader)
            assert await ask(node) == b""

    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with_node(scenario, factory, **WITH_PLAIN)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_listener_with_tls_survives_a_limit_that_cannot_be_read(tmp_path, loop):
    authority = trustme.CA()
    (tmp_path / "server.pem").write_bytes(
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes()
    )
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())

    async def scenario(node):
        set_limit(node, "9" * 5000)
        port = node.listeners[0].port
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        set_limit(node, None)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        writer.write(frame("ApiVersions", 0, ApiVersionsRequest()))
        await answer(reader)
        writer.close()

    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM"}
    with_node(scenario, factory, **settings, **{"ssl.keystore.location": str(tmp_path / "server.pem")})


async def until_connected(listener, count):
    while len(listener.connections) < count:
        await asyncio.sleep(0)


def test_the_name_of_a_clients_software_is_kept_only_in_part():
    async def scenario(node):
        async with connect(node) as (reader, writer):
            request = ApiVersionsRequest(client_software_name="x" * 30_000, client_software_version="1")
            writer.write(frame("ApiVersions", 3, request))
            await answer(reader)
            (connection,) = node.listeners[0].connections
            assert 0 < len(connection.client.software) <= 100

    with_node(scenario)


@pytest.mark.parametrize("connections", [100])
def test_requests_of_many_connections_leave_the_loop_its_turns(connections):
    """Else a broker would miss its session with ZooKeeper, whose pings wait for such a turn."""

    async def scenario(node):
        begun, most, seen = 0, 0, 0

        class Slow:
            def __init__(self, metrics):
                self.on_answer = metrics.on_answer

            def on_request(self, header, request, handler):
                nonlocal begun
                begun += 1
                time.sleep(0.01)
                return handler

        node.dispatcher.observer = Slow(node.broker.metrics)

        def tick():
            nonlocal most, seen
            most, seen = max(most, begun - seen), begun
            node.clock.call_later(1, tick)

        async with contextlib.AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(connect(node)) for _ in range(connections)]
            await until_connected(node.listeners[0], connections)
            tick()
            for _, writer in opened:
                writer.write(frame("ApiVersions", 0, ApiVersionsRequest()))
            for reader, _ in opened:
                await answer(reader)
        assert begun == connections
        assert most <= connections // 4

    with_node(scenario)


@pytest.mark.skipif(sys.platform == "win32", reason="needs uvloop")
def test_a_large_frame_that_comes_quickly_leaves_others_their_turns():
    """uvloop reads a socket up to 32 times before it looks at the next one."""
    import uvloop

    async def scenario(node):
        loop, steps = asyncio.get_running_loop(), []

        def look(connection, before=0):
            received = connection._lease.received if connection._lease is not None else before
            steps.append((before, received))
            loop.call_soon(look, connection, received)

        with socket.create_connection(("127.0.0.1", node.listeners[0].port)) as client:
            await until_connected(node.listeners[0], 1)
            (connection,) = node.listeners[0].connections
            look(connection)
            client.settimeout(60)
            data = struct.pack(">i", 64 << 20) + bytes(24 << 20)
            await loop.run_in_executor(None, client.sendall, data)
            while steps[-1][1] < 24 << 20:
                await asyncio.sleep(0)
        large = [after - before for before, after in steps if before >= LARGE_BYTES]
        assert sum(large) >= 22 << 20
        assert max(large) <= LARGE_READ_BYTES

    with_node(scenario, uvloop.new_event_loop)


def test_a_parked_fetch_is_answered_when_records_come():
    async def scenario(node):
        async with connect(node) as (reader, writer), connect(node) as (reader2, writer2):
            await make_topic(reader, writer)
            topics = [
                FetchTopic(topic="t", partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=9999)])
            ]
            writer.write(
                frame(
                    "Fetch", 4, FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=9999, topics=topics)
                )
            )
            writer2.write(frame("Produce", 8, a_produce()))
            await answer(reader2)
            _, body = await answer(reader)
            found = codec.read(FetchResponse, 4, body)[0].responses[0].partitions[0]
            assert len(found.records) > 0
            assert found.high_watermark == 1

    with_node(scenario)


def test_more_connections_than_allowed_are_refused():
    async def scenario(node):
        async with connect(node), connect(node), connect(node) as (reader, _):
            assert await reader.read() == b""

    with_node(scenario, **{"max.connections": "2"})


def test_a_connection_that_was_just_made_is_not_idle():
    async def scenario(node):
        listener = node.listeners[0]
        async with connect(node) as (reader, writer):
            while not listener.connections:
                await asyncio.sleep(0)
            listener._sweep()
            writer.write(frame("ApiVersions", 0, ApiVersionsRequest()))
            assert await answer(reader)

    with_node(scenario, **{"connections.max.idle.ms": "60000"})


def test_connections_have_the_socket_buffers_of_the_settings():
    async def scenario(node):
        async with connect(node):
            while not node.listeners[0].connections:
                await asyncio.sleep(0)
            (connection,) = node.listeners[0].connections
            accepted = connection._transport.get_extra_info("socket")
            sizes = [
                accepted.getsockopt(socket.SOL_SOCKET, option)
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
            ]
            assert sizes == [2 * 20_000, 2 * 30_000]  # Linux doubles them for its own use

    with_node(scenario, **{"socket.send.buffer.bytes": "20000", "socket.receive.buffer.bytes": "30000"})
