"""Every bound of a broker: whoever goes beyond it is told or cut off, and nobody else notices."""

import asyncio
import contextlib
import gc
import logging
import struct
import time
import tracemalloc

import pytest

from ottla.errors import CorruptMessage, InvalidRequiredAcks, PolicyViolation, UnsupportedVersion
from ottla.server.node import memory_disk
from ottla.wire import batch, compression
from ottla.wire.batch import assemble, read_header
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.integration.nodes import BROKER, Client, broker, connected, run, running, until


def a_request(topic, records, acks=1):
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


async def is_closed(client):
    with contextlib.suppress(ConnectionError):
        return await client.reader.read(1) == b""
    return True


async def works(node, topic="t"):
    async with connected(node) as client:
        return (await client.produce(topic, b"v")).error_code == 0


# -- connections -----------------------------------------------------------------------------------


def test_connections_of_one_address_are_limited_and_the_limit_changes_while_running(caplog):
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            assert (await client.configure(BROKER, "", max_connections_per_ip=2)).error_code == 0
            async with connected(node), connected(node) as third:
                assert await is_closed(third)
                await client.configure(
                    BROKER, "", max_connections_per_ip=2, max_connections_per_ip_overrides="127.0.0.1:4"
                )
                async with connected(node) as fourth:
                    assert (await fourth.call(MetadataRequest(topics=[]))).brokers

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert any("max.connections.per.ip=2" in each.getMessage() for each in caplog.records)


def test_an_idle_connection_is_closed_and_one_at_work_is_not(caplog):
    async def scenario():
        settings = {"connections_max_idle_ms": 60_000}
        async with (
            running([memory_disk()], **settings) as node,
            connected(node) as idle,
            connected(node) as busy,
        ):
            await busy.create("t")
            parked = asyncio.create_task(busy.fetch("t", max_wait_ms=25_000_000))
            await until(lambda: len(node.broker.replicas.partition("t", 0).committed))
            node.clock.advance(71_000)
            assert await is_closed(idle)
            async with connected(node) as other:
                await other.produce("t", b"v")
            assert len((await parked).records) > 0

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert any("idle for 60000 ms" in each.getMessage() for each in caplog.records)


def test_a_client_that_stopped_reading_goes_with_the_idle_ones():
    async def scenario():
        async with running([memory_disk()], connections_max_idle_ms=60_000) as node:
            async with connected(node) as client:
                await client.create("t")
                for _ in range(12):
                    await client.produce("t", bytes(900_000))
            stuck = await stuck_reader(node)
            node.clock.advance(71_000)
            node.clock.advance(11_000)
            await until(lambda: not node.listeners[0].connections)
            await stuck.close()

    run(scenario())


async def stuck_reader(node, topic="t"):
    """Asks for all there is, many times, and reads nothing."""
    before = set(node.listeners[0].connections)
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listeners[0].port, limit=1)
    client = Client(reader, writer)
    from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    for _ in range(20):
        writer.write(client.frame(request)[2])
    await until(lambda: any(each.unsent_bytes > 1 << 20 for each in node.listeners[0].connections - before))
    return client


READING = {"ottla_requests_max_bytes": 40 << 20, "ottla_connection_responses_max_bytes": 10 << 20}


async def fill(node, records=20):
    async with connected(node) as client:
        await client.create("t")
        for _ in range(records):
            await client.produce("t", bytes(900_000))


def unsent(node):
    return sum(each.unsent_bytes for each in node.listeners[0].connections)


def test_what_all_clients_leave_unread_is_bounded_by_smaller_answers():
    async def scenario():
        async with running([memory_disk()], **READING) as node:
            await fill(node)
            stuck = [await stuck_reader(node) for _ in range(30)]  # 300 MB, if all were given what they want
            assert 20 << 20 < unsent(node) <= 75 << 20
            assert await works(node)
            for each in stuck:
                each.writer.transport.abort()
            await until(lambda: node.listeners[0].unsent.held_bytes == 0)
            assert node.listeners[0].unsent.answer_bytes_max() == 10 << 20

    run(scenario())


def test_of_clients_that_do_not_read_only_those_that_are_stuck_are_cut_off(caplog):
    async def scenario():
        async with running([memory_disk()], **READING) as node:
            await fill(node)
            readers = [await stuck_reader(node) for _ in range(30)]
            slow = readers[0]
            before = {each.client.port: each for each in node.listeners[0].connections}
            ours = before[slow.writer.get_extra_info("sockname")[1]]
            for _ in range(15):
                now = ours.unsent_bytes
                while now and ours.unsent_bytes == now:
                    await slow.reader.read(1 << 16)
                    await asyncio.sleep(0)
                node.clock.advance(1000)
            await until(lambda: unsent(node) <= 40 << 20)
            assert ours in node.listeners[0].connections and not ours.is_closing
            assert len(node.listeners[0].connections) < 30
            for each in readers:
                each.writer.transport.abort()

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert any("it has read nothing for" in each.getMessage() for each in caplog.records)


def test_a_client_that_reads_slowly_is_not_idle():
    async def scenario():
        async with running([memory_disk()], connections_max_idle_ms=30_000, **READING) as node:
            await fill(node)
            slow = await stuck_reader(node)
            (ours,) = node.listeners[0].connections
            for _ in range(6):
                now = ours.unsent_bytes
                while now and ours.unsent_bytes == now:
                    await slow.reader.read(1 << 16)
                    await asyncio.sleep(0)
                node.clock.advance(10_001)
            assert not ours.is_closing
            slow.writer.transport.abort()

    run(scenario())


# -- memory for requests ---------------------------------------------------------------------------


def test_requests_beyond_the_memory_for_them_wait_and_are_not_refused():
    async def scenario():
        async with running([memory_disk()], ottla_requests_max_bytes=2_000_000) as node:
            budget = node.listeners[0].budget
            async with connected(node) as client:
                await client.create("t")
            clients = [await Client.connect(node.listeners[0].port) for _ in range(12)]
            peak, waited, grow = 0, 0, budget.bulk.grow

            def watched(lease):
                nonlocal peak, waited
                taken = grow(lease)
                peak, waited = max(peak, budget.held_bytes), max(waited, budget.waiting)
                return taken

            budget.bulk.grow = watched

            async def one(client):
                _, _, frame = client.frame(a_request("t", batch.build([Record(0, 1, None, bytes(700_000))])))
                for start in range(0, len(frame), 50_000):
                    client.writer.write(frame[start : start + 50_000])
                    await client.writer.drain()
                (size,) = struct.unpack(">i", await client.reader.readexactly(4))
                await client.reader.readexactly(size)

            await asyncio.gather(*map(one, clients))
            assert peak <= 2_000_000 and waited > 0
            assert (budget.held_bytes, budget.waiting) == (0, 0)
            async with connected(node) as client:
                assert await client.bounds("t") == (0, 12)
            for client in clients:
                await client.close()

    run(scenario())


def test_a_request_larger_than_all_the_memory_passes_alone():
    async def scenario():
        async with broker([memory_disk()], ottla_requests_max_bytes=1000) as (_, client):
            await client.create("t")
            assert (await client.produce("t", bytes(500_000))).error_code == 0

    run(scenario())


def half_a_frame(size, sent):
    return struct.pack(">i", size) + bytes(sent)


def test_who_announces_much_and_sends_nothing_keeps_no_memory_from_others():
    async def scenario():
        async with running([memory_disk()], ottla_requests_max_bytes=20_000_000) as node:
            budget = node.listeners[0].budget
            silent = [await Client.connect(node.listeners[0].port) for _ in range(20)]
            for client in silent:
                client.writer.write(half_a_frame(100 << 20, 5000))
            await until(lambda: len(budget.bulk._incomplete) == 20)
            async with connected(node) as honest:
                await honest.create("t")
                for size in (10_000, 500_000, 900_000):
                    assert (await honest.produce("t", bytes(size))).error_code == 0
                assert len(node.listeners[0].connections) == 21  # nobody had to wait, so nobody had to go
            for client in silent:
                client.writer.transport.abort()
            await until(lambda: budget.held_bytes == 0)

    run(scenario())


def test_who_stops_in_the_middle_is_cut_off_when_others_need_the_memory(caplog):
    async def scenario():
        async with running([memory_disk()], ottla_requests_max_bytes=5_000_000) as node:
            budget = node.listeners[0].budget
            async with connected(node) as client:
                await client.create("t")
            async with connected(node) as slow:
                slow.writer.write(half_a_frame(4_900_000, 2_500_000))
                await until(lambda: budget.held_bytes > 2_400_000)
                async with connected(node) as honest:
                    waiting = asyncio.create_task(honest.produce("t", bytes(900_000)))
                    await until(lambda: budget.waiting)
                    async with connected(node) as small:  # small ones need none of it
                        assert (await small.produce("t", bytes(50_000))).error_code == 0
                    while not waiting.done():
                        node.clock.advance(1000)
                        await asyncio.sleep(0.001)
                    assert waiting.result().error_code == 0
                assert await is_closed(slow)
            await until(lambda: budget.held_bytes == 0)

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert any("while others wait for memory" in each.getMessage() for each in caplog.records)


def test_the_memory_of_clients_that_are_gone_is_free_again():
    async def scenario():
        async with running([memory_disk()], ottla_requests_max_bytes=5_000_000) as node:
            budget = node.listeners[0].budget
            clients = [await Client.connect(node.listeners[0].port) for _ in range(5)]
            for client in clients:
                client.writer.write(half_a_frame(4_000_000, 1_500_000))
            await until(lambda: budget.waiting >= 3)
            for client in clients:
                client.writer.transport.abort()
            await until(lambda: (budget.held_bytes, budget.waiting) == (0, 0))

    run(scenario())


# -- what is in a request --------------------------------------------------------------------------


def test_a_request_with_too_many_elements_is_refused_before_they_are_made(caplog):
    async def scenario():
        async with running([memory_disk()]) as node, connected(node) as client:
            names = [MetadataRequestTopic(name="x")] * 250_001
            client.writer.write(client.frame(MetadataRequest(topics=names), 9)[2])
            assert await is_closed(client)

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert any("too many elements" in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("acks", [2, -2, 1000])
def test_other_acks_than_0_1_and_all_are_refused(acks):
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t")
            assert (await client.produce("t", b"v", acks=acks)).error_code == InvalidRequiredAcks.code

    run(scenario())


def test_topics_and_partitions_are_limited():
    async def scenario():
        settings = {"ottla_topics_max": 3, "ottla_partitions_max": 10}
        async with broker([memory_disk()], **settings) as (_, client):
            await client.create("a", partitions=5)
            for name, partitions in (("b", 6), ("c", 100_000)):
                wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
                answer = (await client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000))).topics[0]
                assert answer.error_code == PolicyViolation.code and answer.error_message
            await client.create("b")
            await client.create("c")
            wanted = CreatableTopic(name="d", num_partitions=1, replication_factor=1)
            answer = (await client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000))).topics[0]
            assert answer.error_code == PolicyViolation.code

    run(scenario())


def test_groups_are_limited():
    async def scenario():
        async with broker([memory_disk()], ottla_groups_max=2, group_initial_rebalance_delay_ms=0) as (
            node,
            client,
        ):
            await client.call(FindCoordinatorRequest(key="a", coordinator_keys=["a"]))
            await until(lambda: len(node.broker.groups.shards) == 2)

            async def join(group):
                protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
                request = JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                    protocol_type="consumer",
                    protocols=[protocol],
                )
                return (await client.call(request, 3)).error_code

            assert [await join(name) for name in ("a", "b", "c")] == [0, 0, PolicyViolation.code]
            beat = ConsumerGroupHeartbeatRequest(
                group_id="d",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=1,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            assert (await client.call(beat, 1)).error_code == PolicyViolation.code

    run(scenario())


def test_the_consumer_protocol_can_be_left_out():
    async def scenario():
        settings = {"group_coordinator_rebalance_protocols": "classic"}
        async with broker([memory_disk()], **settings) as (_, client):
            beat = ConsumerGroupHeartbeatRequest(
                group_id="d",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=1,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            assert (await client.call(beat, 1)).error_code == UnsupportedVersion.code

    run(scenario())


# -- bad records -----------------------------------------------------------------------------------


def a_bomb(codec, size=256 << 20):
    """A batch that says it is small and unpacks to thirty times what is allowed."""
    honest = batch.build([Record(0, 1, None, b"v")], codec=codec)
    header = read_header(honest)
    match codec:
        case compression.GZIP:
            import zlib

            packer = zlib.compressobj(9, zlib.DEFLATED, 31)
            part = packer.compress(bytes(1 << 20))
            packed = (
                part + b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
            )
        case compression.ZSTD:
            import zstandard

            packer = zstandard.ZstdCompressor(level=1).compressobj()  # type: ignore[assignment]
            packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
        case compression.LZ4:
            import lz4.frame

            with lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB) as packer:
                packed = packer.begin() + b"".join(packer.compress(bytes(4 << 20)) for _ in range(size >> 22))
                packed += packer.flush()
        case _:
            import cramjam

            block = bytes(cramjam.snappy.compress_raw(bytes(16 << 20)))
            packed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
            packed += (struct.pack(">i", len(block)) + block) * (size >> 24)
    return assemble(header, packed)


def test_what_refused_batches_were_unpacked_to_is_free_without_the_collector():
    """An error that was kept kept its traceback, and that all that the frames held."""

    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            await client.create("t", partitions=4)
            bomb = bytes(a_bomb(compression.ZSTD, 8 << 20))
            data = [PartitionProduceData(index=index, records=bomb) for index in range(4)]
            request = ProduceRequest(
                acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=data)]
            )
            await client.call(request)
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(3):
                answers = (await client.call(request)).responses[0].partition_responses
                assert all(each.error_code for each in answers)
            assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
            assert node.listeners[0].budget.held_bytes == 0

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        run(scenario())
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("codec", [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD])
def test_a_decompression_bomb_is_refused_within_a_bound(codec):
    bomb = a_bomb(codec)

    async def scenario():
        import resource

        async with broker(
            [memory_disk()], message_max_bytes=90 << 20, ottla_batch_uncompressed_max_bytes=8 << 20
        ) as (node, client):
            await client.create("t", max_message_bytes=len(bomb) + 1)
            before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
            answer = (await client.call(a_request("t", bomb))).responses[0].partition_responses[0]
            assert answer.error_code == CorruptMessage.code, answer
            assert time.process_time() - begun < 3
            grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown_kib < (4 * len(bomb) >> 10) + (64 << 10)
            assert await works(node)

    run(scenario())


def damaged(what):
    good = bytearray(batch.build([Record(0, 1, b"k", b"v" * 50)]))
    match what:
        case "crc":
            good[17] ^= 1
        case "magic 0":
            good[16] = 0
        case "magic 9":
            good[16] = 9
        case "negative length":
            struct.pack_into(">i", good, 8, -5)
        case "absurd length":
            struct.pack_into(">i", good, 8, 2**31 - 1)
        case "cut off":
            del good[30:]
        case "negative count":
            struct.pack_into(">i", good, 57, -1)
        case "absurd count":
            struct.pack_into(">i", good, 57, 2**31 - 1)
        case "broken varint":
            good[61:66] = b"\xff" * 5
    if what in ("negative count", "absurd count", "broken varint"):
        from ottla.wire.kernel import crc32c

        struct.pack_into(">I", good, 17, crc32c(bytes(good[21:])))
    return bytes(good)


@pytest.mark.parametrize(
    "what",
    [
        "crc",
        "magic 0",
        "magic 9",
        "negative length",
        "absurd length",
        "cut off",
        "negative count",
        "absurd count",
        "broken varint",
    ],
)
def test_a_damaged_batch_is_refused_and_the_connection_goes_on(what):
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t")
            answer = (await client.call(a_request("t", damaged(what)))).responses[0].partition_responses[0]
            assert answer.error_code in (2, 42, 43, 76, 87), answer  # corrupt, invalid or not supported
            assert (await client.produce("t", b"v")).base_offset == 0

    run(scenario())
