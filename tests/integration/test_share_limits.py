"""What members of share groups may cost the others: sessions, long polls, batches that are looked into, states."""

import asyncio
import contextlib
import random
import time
from collections import Counter

import pytest
import zstandard

from ottla import errors
from ottla.broker.sharing import delays
from ottla.broker.sharing.loaded import SharePartitions
from ottla.broker.sharing.persister import Persister
from ottla.broker.stepping import Turns
from ottla.broker.waits import Running, Wait
from ottla.server.node import memory_disk
from ottla.wire import batch, compression
from ottla.wire.batch import assemble, read_header
from ottla.wire.messages import alter_share_group_offsets as alter
from ottla.wire.messages import describe_share_group_offsets as offsets
from ottla.wire.messages import initialize_share_group_state as initialize
from ottla.wire.messages import share_acknowledge as ack
from ottla.wire.messages import share_fetch as fetch
from ottla.wire.messages import write_share_group_state as write
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.records import Record
from tests.integration.nodes import broker, connected, run

MIB = 1 << 20
FAR_MS = 4_000_000_000_000
SETTINGS = {"share_coordinator_state_topic_num_partitions": 1}


async def topic_id_of(client, topic="t"):
    answer = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return answer.topics[0].topic_id


def a_fetch(topic_id, indexes, *, epoch=0, group="g", member="m", wait_ms=0, **more):
    places = [fetch.FetchPartition(partition_index=index) for index in indexes]
    return fetch.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        max_bytes=8 * MIB,
        max_records=500,
        batch_size=500,
        topics=[fetch.FetchTopic(topic_id=topic_id, partitions=places)] if places else [],
        **more,
    )


def an_acknowledgement(topic_id, first, last, kind, *, epoch=1, group="g", member="m", index=0):
    decided = ack.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
    place = ack.AcknowledgePartition(partition_index=index, acknowledgement_batches=[decided])
    return ack.ShareAcknowledgeRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        topics=[ack.AcknowledgeTopic(topic_id=topic_id, partitions=[place])],
    )


def acquired_in(answer):
    """(partition, first offset, last offset) of what an answer brings."""
    return [
        (row.partition_index, run_.first_offset, run_.last_offset)
        for topic in answer.responses
        for row in topic.partitions
        for run_ in row.acquired_records
    ]


async def started(client, topic_id, group="g", index=0):
    """Until the share coordinator has the group's state of the partition."""
    while True:
        answer = await client.call(a_fetch(topic_id, [index], group=group), 1)
        rows = answer.responses[0].partitions if answer.responses else []
        if not answer.error_code and not any(row.error_code for row in rows):
            return
        await asyncio.sleep(0.01)


async def with_groups(client):
    """Until the broker coordinates groups."""
    await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    while (await client.call(ListGroupsRequest())).error_code:
        await asyncio.sleep(0.01)


async def produced(client, *packed, topic="t"):
    for each in packed:
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=each)])
        answer = await client.call(ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[data]))
        assert answer.responses[0].partition_responses[0].error_code == 0


def now_ms():
    return time.time_ns() // 1_000_000


def a_zipped_batch(megabytes):
    """One record of zeros."""
    record = batch.build([Record(-1, now_ms(), b"k", bytes(megabytes * MIB))])
    packed = zstandard.ZstdCompressor(level=1).compress(record[61:])
    header = read_header(batch.build([Record(-1, now_ms(), b"k", b"v")], codec=compression.ZSTD))
    return bytes(assemble(header, packed))


def delayed(count):
    when = (("ottla-deliver-at", str(FAR_MS).encode()),)
    return batch.build([Record(-1, now_ms(), None, b"v", when) for _ in range(count)])


@pytest.fixture
def looked_at(monkeypatch):
    """(bytes that were looked at, bounds) of each look for delays."""
    seen = []
    plain = delays.dues_in

    def dues_in(data, from_offset, wall_ms, bounds=delays.IN_A_THREAD):
        found = plain(data, from_offset, wall_ms, bounds)
        seen.append((found.bytes_, bounds))
        return found

    monkeypatch.setattr("ottla.broker.handlers.share_fetch.dues_in", dues_in)
    return seen


def test_batches_that_decompress_to_much_are_looked_into_one_by_one_in_a_thread(looked_at):
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            await produced(client, *[a_zipped_batch(8)] * 20)
            answer = await client.call(a_fetch(topic_id, [0], wait_ms=10_000), 1)
            (row,) = answer.responses[0].partitions
            assert row.acquired_records[0].first_offset == 0

    run(scenario())
    assert all(bounds is delays.IN_A_THREAD for _, bounds in looked_at if _ > delays.ON_THE_LOOP.batch_bytes)
    assert max(size for size, _ in looked_at) <= delays.IN_A_THREAD.bytes_ + 8 * MIB + 100


def test_a_fetch_looks_only_into_the_batches_that_it_takes(looked_at):
    """A megabyte was looked into for every fetch, however little it took."""

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            await produced(client, *[batch.build([Record(-1, now_ms(), None, bytes(1000))] * 50)] * 18)
            for epoch, records in enumerate((100, 120, 1)):
                request = a_fetch(topic_id, [0] if epoch == 0 else [], epoch=epoch + 1, wait_ms=10_000)
                request.max_records = records
                (topic,) = (await client.call(request, 1)).responses
                taken = [
                    row.last_offset - row.first_offset + 1 for row in topic.partitions[0].acquired_records
                ]
                assert taken == [{100: 100, 120: 150, 1: 50}[records]]

    run(scenario())
    assert [round(size / 50_000) for size, _ in looked_at if size] == [2, 3, 1]


def test_delayed_records_that_came_one_by_one_are_deferred_in_steps(looked_at):
    """All of a megabyte of them with each batch of it took seconds."""
    count = 3 * delays.DUES_AT_ONCE

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            await produced(client, delayed(count // 3), *[delayed(1)] * 200, delayed(count))
            await produced(client, batch.build([Record(-1, now_ms(), None, b"now")]))
            answer = await client.call(a_fetch(topic_id, [0], wait_ms=10_000), 1)
            (row,) = answer.responses[0].partitions
            end = count // 3 + 200 + count
            assert [(each.first_offset, each.last_offset) for each in row.acquired_records] == [(end, end)]

    run(scenario())
    assert len(looked_at) >= 4


def test_partitions_that_a_group_begins_to_share_are_loaded_a_few_at_a_time(monkeypatch):
    """Each writes its first state: a hundred of them took 7 ms of the loop, and everybody waited."""
    loaded_at: list[int] = []  # turns of the loop that were left to others before each load
    rests = 0
    rest, load = Turns.rest, SharePartitions._load

    async def counted_rest(*args, **options):
        nonlocal rests
        rests += 1
        await rest(*args, **options)

    async def counted_load(*args):
        loaded_at.append(rests)
        return await load(*args)

    monkeypatch.setattr(Turns, "rest", counted_rest)
    monkeypatch.setattr(SharePartitions, "_load", counted_load)

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t", 100)
            topic_id = await topic_id_of(client)
            await started(client, topic_id, group="other")
            loaded_at.clear()
            answer = await client.call(a_fetch(topic_id, range(100)), 1)
            assert answer.error_code == 0

    run(scenario())
    assert len(loaded_at) == 100
    assert max(Counter(loaded_at).values()) <= 11


def test_a_session_cannot_collect_partitions_that_do_not_exist():
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            answer = await client.call(a_fetch(topic_id, [0]), 1)
            codes = []
            for epoch in range(1, 40):
                first = 1 + epoch * 50
                request = a_fetch(topic_id, range(first, first + 50), epoch=epoch)
                answer = await client.call(request, 1)
                codes.append(answer.error_code)
                if answer.error_code:
                    break
            assert codes[:5] == [0] * 5
            assert codes[-1] == errors.InvalidRequest.code
            rows = (await client.call(a_fetch(topic_id, [], epoch=len(codes)), 1)).responses
            assert sum(len(topic.partitions) for topic in rows) < 1_200

    run(scenario())


def test_all_sessions_together_have_a_bound(monkeypatch):
    monkeypatch.setattr("ottla.broker.sharing.sessions.PLACES_MAX", 100)

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            codes = [
                (await client.call(a_fetch(topic_id, range(40), member=member), 1)).error_code
                for member in ("a", "b", "c")
            ]
            assert codes == [0, 0, errors.ShareSessionLimitReached.code]
            async with connected(node) as other:
                answer = await other.call(a_fetch(topic_id, range(30), member="d"), 1)
                assert answer.error_code == errors.ShareSessionLimitReached.code
            await client.call(a_fetch(topic_id, [], member="a", epoch=-1), 1)
            assert (await client.call(a_fetch(topic_id, range(30), member="d"), 1)).error_code == 0

    run(scenario())


def test_a_parked_fetch_of_many_partitions_looks_only_at_the_one_that_grew(monkeypatch):
    count, asked = 100, []

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client), connected(node) as other:
            await client.create("t", partitions=count)
            topic_id = await topic_id_of(client)
            for index in range(count):
                await started(client, topic_id, index=index)
            waiting = asyncio.create_task(client.call(a_fetch(topic_id, range(count), wait_ms=60_000), 1))
            share = next(iter(node.broker.sharing.partitions._loaded.values()))
            while not all(each._watchers for each in node.broker.sharing.partitions._loaded.values()):
                await asyncio.sleep(0.01)
            assert share._watchers
            plain = SharePartitions.get

            async def get(self, key, partition):
                asked.append(key)
                return await plain(self, key, partition)

            monkeypatch.setattr(SharePartitions, "get", get)
            await other.produce("t", b"v", partition=7)
            (topic,) = (await waiting).responses
            acquired = [row.partition_index for row in topic.partitions if row.acquired_records]
            assert acquired == [7]
            assert len(asked) == 1
            assert not any(each._watchers for each in node.broker.sharing.partitions._loaded.values())

    run(scenario())


def test_of_many_parked_fetches_one_is_woken_and_passes_on_what_it_leaves(monkeypatch):
    """All of them looked with every batch that came: twenty members cost twenty times as much as one."""
    count, looked = 10, []

    async def scenario():
        async with (
            broker([memory_disk()], **SETTINGS) as (node, client),
            contextlib.AsyncExitStack() as stack,
        ):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            (share,) = node.broker.sharing.partitions._loaded.values()
            members = [await stack.enter_async_context(connected(node)) for _ in range(count)]
            waiting = []
            for number, member in enumerate(members):
                request = a_fetch(topic_id, [0], member=f"m{number}", wait_ms=60_000)
                request.max_records = 1
                waiting.append(asyncio.create_task(member.call(request, 1)))
                while len(share._watchers) <= number:
                    await asyncio.sleep(0.001)
            plain = share.acquire
            monkeypatch.setattr(
                share, "acquire", lambda *given, **more: looked.append(1) or plain(*given, **more)
            )
            await client.produce("t", b"one")
            await asyncio.wait([waiting[0]])  # who waits longest
            assert not any(task.done() for task in waiting[1:]) and len(looked) == 1
            await members[1].close()  # the next one goes away: what comes is not for it
            while len(share._watchers) > count - 2:
                await asyncio.sleep(0.001)
            await produced(client, *[batch.build([Record(-1, now_ms(), None, b"v")])] * (count - 2))
            offsets = []
            for task in [waiting[0], *waiting[2:]]:
                (topic,) = (await task).responses
                offsets += [row.first_offset for row in topic.partitions[0].acquired_records]
            assert sorted(offsets) == list(range(count - 1))
            assert not share._watchers and share._log_ticket is None

    run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_no_parked_fetch_is_forgotten_whoever_comes_goes_or_releases(seed):
    """Fetches wait for a minute: a wake-up that is lost ends the time of the test. Nor does one wait while there is
    something to take."""
    chance, members, count = random.Random(seed), 6, 500
    limits = {
        "group_share_partition_max_record_locks": 100,
        "group_share_delivery_count_limit": 100,
        "group_share_max_delivery_count_limit": 100,
    }

    async def member(node, topic_id, name):
        while True:
            name, epoch, decided = (
                f"{name}'",
                0,
                [],
            )  # another one, after a connection that ended without a word
            async with connected(node) as client:
                for _ in range(chance.randint(1, 12)):
                    asked = asyncio.create_task(client.call(a_turn(topic_id, name, epoch, decided), 1))
                    await asyncio.wait([asked], timeout=chance.choice([0.02, 120]))
                    if not asked.done():
                        asked.cancel()
                        break
                    epoch, decided = epoch + 1, decisions(asked.result())
                    await asyncio.sleep(chance.choice([0, 0, 0.1]))

    def a_turn(topic_id, name, epoch, decided):
        request = a_fetch(topic_id, [0], member=name, epoch=epoch, wait_ms=60_000)
        request.max_records, request.share_acquire_mode = chance.randint(1, 20), chance.choice([0, 1])
        request.topics[0].partitions[0].acknowledgement_batches = [
            fetch.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
            for offset, kind in decided
        ]
        return request

    async def nobody_waits_in_vain(share):
        for _ in range(2_000):
            end = share.partition.leader_log().high_watermark
            if not share._watchers or not share.window.is_worth_fetching(end):
                return
            await asyncio.sleep(0)
        pytest.fail("a fetch waits though there is something to take")

    def decisions(answer):
        parts = [part for topic in answer.responses for part in topic.partitions]
        rows = [row for part in parts for row in part.acquired_records]
        offsets = [offset for row in rows for offset in range(row.first_offset, row.last_offset + 1)]
        return [(offset, 2 if chance.random() < 0.2 else 1) for offset in offsets]

    async def scenario():
        async with broker([memory_disk()], **SETTINGS, **limits) as (node, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            (share,) = node.broker.sharing.partitions._loaded.values()
            working = [asyncio.create_task(member(node, topic_id, f"m{n}")) for n in range(members)]
            sent = 0
            while sent < count:
                size = min(chance.randint(1, 15), count - sent)
                await produced(client, batch.build([Record(-1, now_ms(), None, b"v")] * size))
                sent += size
                await nobody_waits_in_vain(share)
                await asyncio.sleep(chance.choice([0, 0, 0.01]))
            while share.window.start_offset < count:
                await nobody_waits_in_vain(share)
                await asyncio.sleep(0.005)
            for task in working:
                task.cancel()
            await asyncio.wait(working)

    run(scenario(), 50)


def test_all_parked_fetches_are_told_when_their_partition_goes_away():
    async def scenario():
        async with (
            broker([memory_disk()], **SETTINGS) as (node, client),
            contextlib.AsyncExitStack() as stack,
        ):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            (share,) = node.broker.sharing.partitions._loaded.values()
            members = [await stack.enter_async_context(connected(node)) for _ in range(3)]
            requests = [a_fetch(topic_id, [0], member=f"m{number}", wait_ms=60_000) for number in range(3)]
            waiting = [
                asyncio.create_task(each.call(asked, 1))
                for each, asked in zip(members, requests, strict=True)
            ]
            while len(share._watchers) < 3:
                await asyncio.sleep(0.001)
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
            for task in waiting:
                (topic,) = (await task).responses
                assert topic.partitions[0].error_code

    run(scenario())


def test_a_share_fetch_for_no_bytes_gets_one_batch_and_does_not_spin():
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            request = a_fetch(topic_id, [0], wait_ms=200)
            request.max_bytes = 0
            answer = await client.call(request, 1)
            assert not any(row.acquired_records for topic in answer.responses for row in topic.partitions)
            await client.produce("t", b"v")
            request.share_session_epoch, request.topics = 1, []
            (topic,) = (await client.call(request, 1)).responses
            assert topic.partitions[0].acquired_records

    run(scenario())


def test_share_partitions_that_nobody_reads_from_make_room(monkeypatch):
    monkeypatch.setattr("ottla.broker.sharing.loaded.LOADED_MAX", 20)

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            for number in range(60):
                await started(client, topic_id, group=f"g{number}")
            assert len(node.broker.sharing.partitions._loaded) <= 20
            await client.produce("t", b"v")
            (topic,) = (await client.call(a_fetch(topic_id, [0], group="g0", wait_ms=10_000), 1)).responses
            assert topic.partitions[0].acquired_records, (
                "a group that made room does not begin again at the end"
            )

    run(scenario())


def test_share_groups_are_limited_like_others():
    async def scenario():
        async with broker([memory_disk()], ottla_groups_max=2, **SETTINGS) as (_, client):
            await client.create("t")
            await with_groups(client)
            codes = []
            for number in range(3):
                request = ShareGroupHeartbeatRequest(
                    group_id=f"g{number}", member_id="m", subscribed_topic_names=["t"]
                )
                while (code := (await client.call(request, 1)).error_code) in (
                    errors.CoordinatorLoadInProgress.code,
                    errors.NotCoordinator.code,
                    errors.CoordinatorNotAvailable.code,
                ):
                    await asyncio.sleep(0.01)
                codes.append(code)
            assert codes == [0, 0, errors.PolicyViolation.code]

    run(scenario())


def test_states_are_kept_of_partitions_that_exist_and_of_so_many_batches():
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)

            async def initialized(topic_id, number):
                part = initialize.PartitionData(partition=number, state_epoch=1, start_offset=0)
                topic = initialize.InitializeStateData(topic_id=topic_id, partitions=[part])
                request = initialize.InitializeShareGroupStateRequest(group_id="x", topics=[topic])
                return (await client.call(request)).results[0].partitions[0].error_code

            unknown = {errors.UnknownTopicOrPartition.code, errors.UnknownTopicId.code}
            assert await initialized(bytes(15) + b"x", 0) in unknown
            assert await initialized(topic_id, 1) in unknown
            assert await initialized(topic_id, 0) == 0

            async def written(first, count):
                batches = [
                    write.StateBatch(first_offset=at, last_offset=at, delivery_state=2, delivery_count=1)
                    for at in range(first, first + 2 * count, 2)
                ]
                part = write.PartitionData(
                    partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=batches
                )
                topic = write.WriteStateData(topic_id=topic_id, partitions=[part])
                request = write.WriteShareGroupStateRequest(group_id="x", topics=[topic])
                return (await client.call(request)).results[0].partitions[0].error_code

            assert await written(0, 20_001) == errors.InvalidRequest.code
            assert await written(0, 1_000) == 0

    run(scenario())


def test_a_group_that_is_named_very_often_is_described_once():
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (_, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            await with_groups(client)
            asked = offsets.DescribeShareGroupOffsetsRequestGroup(
                group_id="g",
                topics=[
                    offsets.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0] * 1_000)
                ],
            )
            answer = await client.call(offsets.DescribeShareGroupOffsetsRequest(groups=[asked] * 50))
            (group,) = answer.groups
            assert [row.partition_index for row in group.topics[0].partitions] == [0]

    run(scenario())


@pytest.fixture
def held_writes(monkeypatch):
    """Writes of states wait here once `hold` is set, until they are let go."""

    class Held:
        def __init__(self):
            self.hold, self.waits = False, []

    held, plain = Held(), Persister.write

    async def write(self, *args):
        if held.hold:
            wait: Wait[None] = Wait()
            held.waits.append(wait)
            await wait
        await plain(self, *args)

    monkeypatch.setattr(Persister, "write", write)
    return held


@pytest.mark.parametrize("kind", [1, 2], ids=["accepted", "released"])
def test_a_connection_that_ends_while_its_acknowledgement_is_written_locks_nothing_for_ever(
    held_writes, kind
):
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            await produced(client, batch.build([Record(-1, now_ms(), None, b"v")] * 5))
            async with connected(node) as other:
                answer = await other.call(a_fetch(topic_id, [0], member="x"), 1)
                assert acquired_in(answer) == [(0, 0, 4)]
                held_writes.hold = True
                acknowledging = asyncio.create_task(
                    other.call(an_acknowledgement(topic_id, 0, 4, kind, member="x"), 1)
                )
                while not held_writes.waits:
                    await asyncio.sleep(0.001)
                acknowledging.cancel()
            while len(node.broker.sharing.sessions) > 1:  # the broker has seen that the connection ended
                await asyncio.sleep(0.001)
            held_writes.hold = False
            for wait in held_writes.waits:
                wait.set(None)
            await client.produce("t", b"v")
            answer = await client.call(a_fetch(topic_id, [0], wait_ms=10_000), 1)
            assert acquired_in(answer)[0] == ((0, 5, 5) if kind == 1 else (0, 0, 4))
            (share,) = node.broker.sharing.partitions._loaded.values()
            assert share.window.start_offset == (5 if kind == 1 else 0)

    run(scenario())


def test_a_share_partition_that_another_broker_leads_now_does_not_refuse_new_sessions():
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t", partitions=2)
            topic_id = await topic_id_of(client)
            for index in range(2):
                await started(client, topic_id, index=index)
            await client.produce("t", b"v")
            answer = await client.call(a_fetch(topic_id, [0, 1], wait_ms=10_000), 1)
            assert acquired_in(answer) == [(0, 0, 0)]
            sharing, epochs = node.broker.sharing, []
            (key,) = [key for key in sharing.partitions._loaded if key.partition == 0]
            reading = sharing.persister.read(key, 99)  # as the next leader does
            Running(reading, lambda state, error: epochs.append(state.leader_epoch)).step()
            await client.produce("t", b"v", partition=1)
            assert epochs == [99]
            answer = await client.call(a_fetch(topic_id, [1], wait_ms=10_000), 1)
            assert (answer.error_code, acquired_in(answer)) == (0, [(1, 0, 0)])
            assert [share.is_closed for share in sharing.partitions._loaded.values()] == [True, False]
            await client.call(a_fetch(topic_id, [], epoch=-1), 1)
            assert not sharing.partitions._loaded

    run(scenario())


def an_alteration(start_offset, indexes=(0,), group="g"):
    parts = [
        alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start_offset)
        for index in indexes
    ]
    topic = alter.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=parts)
    return alter.AlterShareGroupOffsetsRequest(group_id=group, topics=[topic])


async def seen(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_a_leader_that_does_not_hear_of_altered_offsets_goes_by_them_with_the_next_session(monkeypatch):
    """The group's coordinator may be another broker than the partition's leader, which kept its window."""
    monkeypatch.setattr(SharePartitions, "forget_group", lambda self, group_id: None)

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await with_groups(client)
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            await client.produce("t", b"1", b"2")
            answer = await client.call(a_fetch(topic_id, [], epoch=1, wait_ms=10_000), 1)
            assert acquired_in(answer) == [(0, 0, 1)]
            (share,) = node.broker.sharing.partitions._loaded.values()
            # A watcher keeps it from being forgotten with the last session.
            watch = share.watch(lambda: None, read_committed=False)
            accepted = await client.call(an_acknowledgement(topic_id, 0, 1, 1, epoch=-1), 1)
            assert accepted.responses[0].partitions[0].error_code == 0
            altered = await client.call(an_alteration(0))
            assert altered.responses[0].partitions[0].error_code == 0
            assert list(node.broker.sharing.partitions._loaded.values()) == [share]
            answer = await client.call(a_fetch(topic_id, [0], member="n", wait_ms=10_000), 1)
            assert acquired_in(answer) == [(0, 0, 1)]
            assert share.is_closed
            watch.cancel()

    run(scenario())


@pytest.mark.parametrize("is_last", [True, False], ids=["last request", "disconnected"])
def test_share_partitions_leave_with_the_last_session_of_their_group(is_last):
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t", partitions=2)
            topic_id = await topic_id_of(client)
            loaded = node.broker.sharing.partitions._loaded
            await started(client, topic_id, group="other")
            async with connected(node) as first, connected(node) as second:
                await started(first, topic_id)
                await second.call(a_fetch(topic_id, [0, 1], member="n"), 1)
                await client.produce("t", b"v")
                answer = await first.call(a_fetch(topic_id, [0], epoch=1, wait_ms=10_000), 1)
                assert acquired_in(answer) == [(0, 0, 0)]
                await second.call(a_fetch(topic_id, [], member="n", epoch=-1), 1)
                assert len(loaded) == 3
                if is_last:
                    await first.call(a_fetch(topic_id, [], epoch=-1), 1)
                    assert [key.group_id for key in loaded] == ["other"]
            await seen(lambda: [key.group_id for key in loaded] == ["other"])
            assert list(node.broker.sharing.partitions._by_group) == ["other"]
            answer = await client.call(a_fetch(topic_id, [0], wait_ms=10_000), 1)
            (released,) = answer.responses[0].partitions[0].acquired_records
            assert (released.first_offset, released.delivery_count) == (0, 1)

    run(scenario())


def test_a_session_that_begins_while_the_last_one_still_releases_loads_nothing_that_is_old(held_writes):
    """What it loaded would not know what is being written: the accepted record came again."""

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            async with connected(node) as other:
                await started(other, topic_id)
                await produced(other, *[batch.build([Record(-1, now_ms(), None, b"v")])] * 2)
                answer = await other.call(a_fetch(topic_id, [], epoch=1, wait_ms=10_000), 1)
                assert acquired_in(answer) == [(0, 0, 1)]
                held_writes.hold = True
                request = an_acknowledgement(topic_id, 0, 0, 1, epoch=-1)
                ending = asyncio.create_task(other.call(request, 1))
                await seen(lambda: len(held_writes.waits) == 1)
                ending.cancel()
            await seen(
                lambda: len(held_writes.waits) == 2
            )  # the record that was not acknowledged is released
            fetching = asyncio.create_task(client.call(a_fetch(topic_id, [0], member="n", wait_ms=10_000), 1))
            await seen(lambda: len(node.broker.sharing.sessions) == 1)
            held_writes.hold = False
            for wait in held_writes.waits:
                wait.set(None)
            assert acquired_in(await fetching) == [(0, 1, 1)]
            assert node.broker.sharing.sessions.has_group("g")
            await client.call(a_fetch(topic_id, [], member="n", epoch=-1), 1)
            assert not node.broker.sharing.sessions.has_group("g")

    run(scenario())


def test_a_share_partition_that_still_writes_a_change_is_not_loaded_again(held_writes):
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t")
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            await client.produce("t", b"v")
            await client.call(a_fetch(topic_id, [], epoch=1, wait_ms=10_000), 1)
            shares = node.broker.sharing.partitions
            (share,) = shares._loaded.values()
            held_writes.hold = True
            written = share.carry_out(share.window.release("m"))
            shares.forget_settled("g")
            shares.forget_idle("g")
            assert not share.is_closed
            held_writes.waits[0].set(None)
            await seen(lambda: written.done)
            shares.forget_idle("g")
            assert share.is_closed and not shares._loaded

    run(scenario())


def test_offsets_that_are_altered_by_an_administrator_who_goes_away_midway_count(monkeypatch):
    initialized, plain = [], Persister.initialize

    async def initialize_first(self, key, *args):
        initialized.append(key.partition)
        if len(initialized) == 2:
            await Wait()
        await plain(self, key, *args)

    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await with_groups(client)
            await client.create("t", partitions=2)
            topic_id = await topic_id_of(client)
            await started(client, topic_id)
            shares = list(node.broker.sharing.partitions._loaded.values())
            monkeypatch.setattr(Persister, "initialize", initialize_first)
            async with connected(node) as administrator:
                altering = asyncio.create_task(administrator.call(an_alteration(0, (0, 1))))
                await seen(lambda: len(initialized) == 2)
                altering.cancel()
            await seen(lambda: all(share.is_closed for share in shares))
            assert not node.broker.sharing.partitions._loaded

    run(scenario())


def test_share_partitions_leave_with_their_topic():
    async def scenario():
        async with broker([memory_disk()], **SETTINGS) as (node, client):
            await client.create("t")
            await client.create("u")
            topic_id, other_id = await topic_id_of(client), await topic_id_of(client, "u")
            for group in ("g", "h"):
                await started(client, topic_id, group=group)
            await client.call(a_fetch(other_id, [0]), 1)
            shares = node.broker.sharing.partitions
            assert len(shares._loaded) == 3
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
            await seen(lambda: len(shares._loaded) == 1)
            assert (list(shares._by_group), list(shares._by_topic)) == (["g"], [other_id])

    run(scenario())
