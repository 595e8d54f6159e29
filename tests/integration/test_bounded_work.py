"""What one request may cost the others: work in steps, answers within bounds, each partition its own true answer."""

import asyncio
import contextlib
import struct
import time

import pytest
import zstandard

from ottla.errors import (
    CoordinatorLoadInProgress,
    CorruptMessage,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTimestamp,
    MessageTooLarge,
    NotCoordinator,
    UnknownServerError,
)
from ottla.server.node import memory_disk
from ottla.storage.log import Log
from ottla.wire import batch, compression, records
from ottla.wire.batch import assemble, read_header
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.integration.nodes import GatedJobs, broker, connected, run

MIB = 1 << 20


def now_ms():
    return time.time_ns() // 1_000_000


def a_batch(*values, timestamp=None, **fields):
    when = now_ms() if timestamp is None else timestamp
    return batch.build([Record(at, when, b"k", value) for at, value in enumerate(values)], **fields)


def a_request(*entries, acks=-1, transactional_id=None):
    """Entries are (partition, records) of topic t."""
    data = [PartitionProduceData(index=index, records=records) for index, records in entries]
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        transactional_id=transactional_id,
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )


async def produced(client, *entries, **fields):
    return (await client.call(a_request(*entries, **fields))).responses[0].partition_responses


def a_bomb(size):
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    packed = b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()
    header = read_header(batch.build([Record(0, 1, None, b"v")], codec=compression.ZSTD))
    return bytes(assemble(header, packed))


# -- decompression -----------------------------------------------------------------------------------


def test_many_bombs_in_one_request_cost_as_much_as_one_and_others_are_served_meanwhile():
    bomb = a_bomb(64 * MIB + MIB)
    gate = GatedJobs.gate
    gate.set()

    async def scenario():
        async with (
            broker([memory_disk()], make_jobs=GatedJobs) as (node, client),
            connected(node) as other,
        ):
            await client.create("t", partitions=100)
            gate.clear()  # the first bomb stays in its thread
            attack = asyncio.create_task(produced(client, *((index, bomb) for index in range(100))))
            await asyncio.sleep(0)
            await other.call(MetadataRequest(topics=[]))
            assert not attack.done(), "the others had to wait for the attack"
            gate.set()
            first, *rest = await attack
            assert first.error_code == CorruptMessage.code
            assert {answer.error_code for answer in rest} == {MessageTooLarge.code}
            assert (await other.produce("t", b"v")).error_code == 0

    run(scenario())


@pytest.mark.parametrize("damage", ["none of it is records", "checksum"])
def test_bombs_within_the_bound_of_a_batch_count_although_they_are_refused(damage):
    if damage == "checksum":
        packed = bytearray(zstandard.ZstdCompressor(level=1, write_checksum=True).compress(bytes(30 * MIB)))
        packed[-1] ^= 1
        header = read_header(batch.build([Record(0, 1, None, b"v")], codec=compression.ZSTD))
        bomb = bytes(assemble(header, bytes(packed)))
    else:
        bomb = a_bomb(30 * MIB)

    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t", partitions=50)
            answers = await produced(client, *((index, bomb) for index in range(50)))
            codes = [answer.error_code for answer in answers]
            assert MessageTooLarge.code not in codes[:1]
            assert set(codes[3:]) == {MessageTooLarge.code}

    run(scenario())


def test_batches_that_decompress_to_too_much_in_sum_are_refused_one_by_one():
    value = bytes(3 * MIB)

    async def scenario():
        async with broker([memory_disk()], ottla_batch_uncompressed_max_bytes=10 * MIB) as (_, client):
            await client.create("t", partitions=5)
            packed = a_batch(value, codec=compression.ZSTD)
            answers = await produced(client, *((index, packed) for index in range(5)))
            codes = [answer.error_code for answer in answers]
            assert codes == [0, 0, 0, MessageTooLarge.code, MessageTooLarge.code]
            assert [await client.bounds("t", index) for index in range(5)] == [(0, 1)] * 3 + [(0, 0)] * 2
            assert [len(found) for found in await client.read_all("t", 2)] == [len(value)]
            (alone,) = await produced(client, (3, packed))  # the client's next try
            assert alone.error_code == 0

    run(scenario())


@pytest.mark.parametrize("codec", range(5), ids=compression.NAMES)
def test_what_is_checked_in_a_thread_keeps_the_order_of_its_connection(codec):
    """The next request waits until the large batch is in the log."""
    large = a_batch(*(b"%d" % at + bytes(20_000) for at in range(100)), codec=codec)

    async def scenario():
        async with broker([memory_disk()], message_max_bytes=4 * MIB) as (_, client):
            await client.create("t", partitions=2)
            for at in range(4):
                for records in (large, a_batch(b"small %d" % at)):
                    client.writer.write(client.frame(a_request((0, records), acks=1))[2])
            api, version, _ = client.frame(a_request())
            answers = [await client.answer(api, version) for _ in range(8)]
            offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
            assert offsets == [0, 100, 101, 201, 202, 302, 303, 403]

    run(scenario())


def test_nothing_that_is_stored_lies_in_memory_that_is_used_again():
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            for name, kind in (("t", "producer"), ("u", "uncompressed"), ("z", "zstd")):
                await client.create(name, compression_type=kind)
            for codec in range(5):
                packed = a_batch(*(b"%d %d" % (codec, at) for at in range(50)), codec=codec)
                for name in ("t", "u", "z"):
                    data = [PartitionProduceData(index=0, records=packed)]
                    topic = TopicProduceData(name=name, partition_data=data)
                    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
                    answer = (await client.call(request)).responses[0].partition_responses[0]
                    assert answer.error_code == 0
                    room = node.broker.scratch.room(0)
                    room[:] = b"\xff" * len(room)
            expected = [b"%d %d" % (codec, at) for codec in range(5) for at in range(50)]
            for name in ("t", "u", "z"):
                assert await client.read_all(name) == expected

    run(scenario())


# -- answers -----------------------------------------------------------------------------------------


def test_of_very_many_bad_records_only_the_first_are_named():
    old = now_ms() - 10_000_000
    records = [Record(at, old, b"k", b"") for at in range(80_000)]
    bad = batch.build(records, codec=compression.ZSTD)

    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t", partitions=30, message_timestamp_before_max_ms=1_000)
            answers = await produced(client, *((index, bad) for index in range(30)))
            assert {answer.error_code for answer in answers} == {InvalidTimestamp.code}
            assert [record.batch_index for record in answers[0].record_errors] == list(range(100))
            assert sum(len(answer.record_errors) for answer in answers) == 100
            assert all("80000 in total" in answer.error_message for answer in answers)

    run(scenario())


# -- each partition its own answer -------------------------------------------------------------------


def at_the_edge(base_timestamp, delta):
    """A batch whose one record has a timestamp that no int64 can hold."""
    good = bytearray(batch.build([Record(0, delta, b"k", b"v")]))
    payload = batch.build([Record(0, 0, b"k", b"v"), Record(1, delta, b"k", b"v")])[batch.HEADER_BYTES :]
    header = read_header(bytes(good))
    header.base_timestamp, header.max_timestamp = base_timestamp, base_timestamp
    header.count, header.last_offset_delta = 2, 1
    return bytes(assemble(header, payload))


@pytest.mark.parametrize("base, delta", [(-(2**63), -1), (2**63 - 1, 1), (-5, -(2**63)), (5, 2**63 - 1)])
def test_a_timestamp_out_of_range_is_refused_and_the_other_partitions_keep_their_answers(base, delta):
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t", partitions=3)
            good = a_batch(b"v")
            answers = await produced(client, (0, good), (1, at_the_edge(base, delta)), (2, good))
            assert [answer.error_code for answer in answers] == [0, InvalidTimestamp.code, 0]
            assert [await client.bounds("t", index) for index in range(3)] == [(0, 1), (0, 0), (0, 1)]

    run(scenario())


def test_a_bug_with_one_partition_is_told_of_that_one_alone(monkeypatch, caplog):
    append = Log.append

    def fails(self, *args, **fields):
        if self.folder == "t-1":
            raise struct.error("a bug")
        return append(self, *args, **fields)

    monkeypatch.setattr(Log, "append", fails)

    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t", partitions=3)
            answers = await produced(client, *((index, a_batch(b"v")) for index in range(3)))
            assert [answer.error_code for answer in answers] == [0, UnknownServerError.code, 0]
            assert [answer.base_offset for answer in answers] == [0, -1, 0]

    run(scenario())
    assert any("produce to partition 1 of t failed" in line.getMessage() for line in caplog.records)


# -- two entries for one partition -------------------------------------------------------------------


def test_two_entries_for_one_partition_are_refused_and_nothing_of_them_is_appended():
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t", partitions=2)
            good = a_batch(b"v")
            answers = await produced(client, (0, good), (1, good), (0, good))
            assert [answer.error_code for answer in answers] == [InvalidRequest.code, 0, InvalidRequest.code]
            assert [await client.bounds("t", index) for index in range(2)] == [(0, 0), (0, 1)]

    run(scenario())


async def a_transaction(client, transactional_id):
    await client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]))
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    while (answer := await client.call(request)).error_code:
        await asyncio.sleep(0.01)
    return answer.producer_id, answer.producer_epoch


def of_producer(producer, value=b"v"):
    return a_batch(
        value, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True
    )


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_foreign_producers_batch_does_not_slip_in_beside_a_verified_one(version):
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            await client.create("t", partitions=2)
            ours = await a_transaction(client, "ours")
            foreign = (ours[0] + 1_000, 0)

            async def send(*entries):
                request = a_request(*entries, transactional_id="ours")
                return [
                    answer.error_code
                    for answer in (await client.call(request, version)).responses[0].partition_responses
                ]

            twice = await send((0, of_producer(foreign)), (0, of_producer(ours)))
            assert twice == [InvalidRequest.code] * 2
            mixed = await send((0, of_producer(foreign)), (1, of_producer(ours)))
            assert mixed == [InvalidProducerIdMapping.code] * 2
            assert await client.bounds("t", 0) == (0, 0)
            log = node.broker.replicas.partition("t", 0).log
            assert not log.producers.open_transactions

    run(scenario())


def test_refused_transactional_batches_leave_nothing_behind():
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            await client.create("t")
            ours = await a_transaction(client, "ours")
            gate = node.broker.transactions.gates.of(("t", 0), ours[0])[0]
            for at in range(20):
                request = a_request(
                    (0, of_producer((ours[0] + 1_000 + at, 0))), transactional_id=f"nobody-{at}"
                )
                (answer,) = (await client.call(request, 11)).responses[0].partition_responses
                assert answer.error_code
            damaged = bytearray(of_producer(ours))
            damaged[-1] ^= 1
            request = a_request((0, bytes(damaged)), transactional_id="ours")
            (answer,) = (await client.call(request, 12)).responses[0].partition_responses
            assert answer.error_code == CorruptMessage.code
            assert len(gate) == 0
            request = a_request((0, of_producer(ours)), transactional_id="ours")
            (answer,) = (await client.call(request, 12)).responses[0].partition_responses
            assert answer.error_code == 0
            assert len(gate) == 0

    run(scenario())


# -- offsets by time ---------------------------------------------------------------------------------


def offsets_at(timestamp, partition=0):
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])])


@pytest.mark.parametrize("asked", [5, -3])
def test_a_search_over_many_batches_of_one_timestamp_lets_others_have_their_turn(asked):
    """The time index tells nothing of records that are all of one time."""
    base = now_ms()

    async def scenario():
        async with broker([memory_disk()]) as (node, client), connected(node) as other:
            await client.create("t")
            log = node.broker.replicas.partition("t", 0).log
            same = a_batch(b"v", timestamp=base)
            for _ in range(40_000):
                log.append(same, leader_epoch=0, now_ms=base)
            log.append(a_batch(b"last", timestamp=base + 10), leader_epoch=0, now_ms=base)
            if asked == -3:  # the newest is not committed yet: every header is looked at
                log.advance_high_watermark(40_000)
            else:
                log.advance_high_watermark(40_001)
            timestamp = asked if asked < 0 else base + asked
            search = asyncio.create_task(client.call(offsets_at(timestamp), 7))
            turns = 0
            await other.call(MetadataRequest(topics=[]))
            assert not search.done()
            while not search.done():
                await asyncio.sleep(0)
                turns += 1
            answer = (await search).topics[0].partitions[0]
            assert (answer.error_code, answer.offset) == (0, 0 if asked == -3 else 40_000)
            assert turns > 15

    run(scenario())


def test_a_search_looks_into_a_batch_that_was_compressed_to_very_little():
    base = now_ms()
    records = [Record(at, base + at // 100, b"k", bytes(30_000)) for at in range(300)]
    large = batch.build(records, codec=compression.ZSTD)

    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t")
            assert (await produced(client, (0, large)))[0].error_code == 0
            await client.delete_before("t", 150)
            for timestamp, offset in (
                (base, 150),
                (base + 1, 150),
                (base + 2, 200),
                (base + 3, -1),
                (-3, 200),
            ):
                answer = (await client.call(offsets_at(timestamp), 7)).topics[0].partitions[0]
                assert (answer.error_code, answer.offset) == (0, offset), timestamp

    run(scenario())


def test_the_newest_record_left_is_found_where_the_newest_was_deleted():
    base = now_ms()
    times = [base + 50, base + 10, base + 30, base + 20, base + 30]
    mixed = batch.build([Record(at, time, b"k", b"v") for at, time in enumerate(times)])

    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t")
            await produced(client, (0, mixed))
            for start, offset in ((1, 2), (3, 4)):
                await client.delete_before("t", start)
                answer = (await client.call(offsets_at(-3), 7)).topics[0].partitions[0]
                assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, base + 30)

    run(scenario())


# -- patterns ----------------------------------------------------------------------------------------


def test_a_costly_pattern_over_many_topics_lets_others_have_their_turn():
    long_names = ["ab" * 110 + f"{at:05}" for at in range(150)]
    pattern = "((a|b)?(.|a)?){200}c"  # six milliseconds for each name

    async def scenario():
        async with broker([memory_disk()]) as (node, client), connected(node) as other:
            topics = [a_topic(name) for name in (*long_names, "abc")]
            await client.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            join = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_regex=pattern,
                topic_partitions=[],
            )
            heartbeat = asyncio.create_task(client.call(join))
            turns = 0
            while not heartbeat.done():
                await other.call(MetadataRequest(topics=[]))
                turns += 1
            answer = await heartbeat
            assert answer.error_code == 0, answer
            abc = (await client.topic("abc")).topic_id
            assert [topic.topic_id for topic in answer.assignment.topic_partitions] == [abc]
            assert turns > 5

    run(scenario())


def a_topic(name):
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1)


def test_batches_that_are_each_within_a_step_are_worked_off_in_steps():
    """Sixty batches of a megabyte take sixty turns, not one."""
    value = bytes(900_000)

    async def scenario():
        async with broker([memory_disk()]) as (node, client), connected(node) as other:
            await client.create("t", partitions=60)
            packed = a_batch(value, codec=compression.LZ4)
            attack = asyncio.create_task(produced(client, *((index, packed) for index in range(60))))
            turns = 0
            while not attack.done():
                await other.call(MetadataRequest(topics=[]))
                turns += 1
            assert {answer.error_code for answer in await attack} == {0}
            assert turns > 5

    run(scenario())


def a_large_fetch(partitions, topic="nobody"):
    wanted = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(partitions)]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )


def a_large_list_offsets(partitions):
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="nobody", partitions=wanted)])


def a_large_metadata(topics):
    named = [MetadataRequestTopic(name=f"nobody-{number}") for number in range(topics)]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


@pytest.mark.parametrize(
    "large, least", [(a_large_fetch, 90), (a_large_list_offsets, 50), (a_large_metadata, 50)]
)
def test_a_request_with_very_many_elements_is_read_worked_off_and_answered_in_steps(large, least):
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            request = large(10_000)
            answer = asyncio.create_task(client.call(request))
            turns = 0
            while not answer.done():
                await asyncio.sleep(0)
                turns += 1
            assert not getattr(await answer, "error_code", 0)
            assert turns > least

    run(scenario())


def test_a_client_with_fifty_thousand_partitions_is_answered_for_each():
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            listed = await client.call(a_large_list_offsets(50_000))
            assert len(listed.topics[0].partitions) == 50_000

    run(scenario())


def test_however_many_connections_want_much_others_wait_for_few_steps():
    """Each turn of the loop is for one step of one of them."""

    async def scenario():
        async with broker([memory_disk()]) as (node, client), contextlib.AsyncExitStack() as stack:
            attackers = [await stack.enter_async_context(connected(node)) for _ in range(20)]
            attacks = [
                asyncio.create_task(attacker.call(a_large_list_offsets(10_000))) for attacker in attackers
            ]
            answered_while = 0
            while not all(attack.done() for attack in attacks):
                await client.call(MetadataRequest(topics=[]))
                answered_while += 1
            assert answered_while > 100
            for attack in attacks:
                assert len((await attack).topics[0].partitions) == 10_000

    run(scenario())


def test_a_fetch_of_many_megabytes_of_one_partition_is_read_in_pieces():
    values = [b"%d" % at + bytes(700_000) for at in range(15)]

    async def scenario():
        async with broker([memory_disk()], message_max_bytes=4 * MIB) as (_node, client):
            await client.create("t")
            for at, value in enumerate(values):
                assert (await produced(client, (0, a_batch(value))))[0].error_code == 0
                if at == 10:  # a batch that is larger than a piece
                    assert (await produced(client, (0, a_batch(bytes(3 * MIB)))))[0].error_code == 0
            fetched = asyncio.create_task(client.fetch("t", max_bytes=32 * MIB))
            turns = 0
            while not fetched.done():
                await asyncio.sleep(0)
                turns += 1
            data = bytes((await fetched).records)
            found = [
                record.value for position, _ in batch.headers(data) for record in records.read(data, position)
            ]
            assert found == [*values[:11], bytes(3 * MIB), *values[11:]]
            assert turns > 10
            short = bytes((await client.fetch("t", max_bytes=2 * MIB)).records)
            assert len(list(batch.headers(short))) == 2

    run(scenario())


# -- groups ------------------------------------------------------------------------------------------


def test_groups_that_could_not_be_deleted_are_told_beside_those_that_were(monkeypatch):
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            names = [f"g-{number}" for number in range(8)]
            found = await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=names))
            assert len(found.coordinators) == len(names)
            for name in names:
                while (await client.call(DeleteGroupsRequest(groups_names=[name]))).results[0].error_code in (
                    CoordinatorLoadInProgress.code,
                    NotCoordinator.code,
                ):
                    await asyncio.sleep(0.01)
            shards = node.broker.groups
            failing = shards.shard_of(names[0])

            def fails(*_):
                raise struct.error("a bug")

            monkeypatch.setattr(failing.machine, "on_delete_groups", fails)
            answer = await client.call(DeleteGroupsRequest(groups_names=names))
            codes = {result.group_id: result.error_code for result in answer.results}
            bad = {name for name in names if shards.shard_of(name) is failing}
            assert bad < set(names)
            assert {name for name, code in codes.items() if code == UnknownServerError.code} == bad

    run(scenario())
