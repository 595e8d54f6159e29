"""What a fetch waits for, what it costs while it waits, and what it leaves behind."""

import asyncio
import contextlib
from random import Random

import pytest

from ottla import errors
from ottla.broker.fetching.readers import Reader
from ottla.broker.handlers import fetch as handler
from ottla.replication.waiters import Waiters
from ottla.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from ottla.security.administration import record_of
from ottla.security.operations import CLUSTER_NAME
from ottla.server.node import memory_disk
from ottla.storage import rolling
from ottla.storage.memory import MemoryFile
from ottla.wire import batch
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.integration.nodes import broker, connected, run, running, until

FOREVER_MS = 25_000_000
VALUE = b"v" * 1000
GUARDED = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
}


def a_fetch(*partitions, topic="t", min_bytes=1, **options):
    """`partitions` are (index, offset)."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in partitions
    ]
    topics = [FetchTopic(topic=topic, partitions=wanted)] if wanted else []
    options = {"max_wait_ms": FOREVER_MS, "max_bytes": 1 << 24, "session_epoch": -1} | options
    return FetchRequest(min_bytes=min_bytes, topics=topics, **options)


def found(response):
    """(topic, partition) -> (error code, whether records came)."""
    return {
        (topic.topic, data.partition_index): (data.error_code, bool(data.records))
        for topic in response.responses
        for data in topic.partitions
    }


@contextlib.contextmanager
def reads():
    """Counts the reads of all disks in memory."""
    counted = []
    with pytest.MonkeyPatch.context() as patch:
        real = MemoryFile.read

        def read(self, position, length):
            counted.append(length)
            return real(self, position, length)

        patch.setattr(MemoryFile, "read", read)
        yield counted


async def parked(node, client, request, *, waiters, topic="t", index=0):
    """The fetch, once it waits in the partition as the `waiters`th."""
    task = asyncio.create_task(client.call(request))
    await until(lambda: task.done() or len(node.broker.replicas.partition(topic, index).committed) == waiters)
    assert not task.done(), task.result()
    return task


# -- waiting for enough ----------------------------------------------------------------------------


def test_parked_fetches_read_nothing_until_there_is_enough_and_then_once():
    async def scenario():
        async with (
            running([memory_disk()]) as node,
            connected(node) as writer,
            contextlib.AsyncExitStack() as stack,
        ):
            await writer.create("t")
            for _ in range(2):  # the second append reads the first timestamp, once
                await writer.produce("t", VALUE)
            readers = [await stack.enter_async_context(connected(node)) for _ in range(20)]
            with reads() as counted:
                tasks = [
                    await parked(node, reader, a_fetch((0, 2), min_bytes=10_000), waiters=count)
                    for count, reader in enumerate(readers, 1)
                ]
                for _ in range(9):
                    await writer.produce("t", VALUE)
                await until(lambda: len(node.broker.replicas.partition("t", 0).committed) == len(readers))
                assert not any(task.done() for task in tasks)
                assert counted == []
                await writer.produce("t", VALUE)
                answers = await asyncio.gather(*tasks)
                assert len(counted) <= len(readers)
            sizes = {len(answer.responses[0].partitions[0].records) for answer in answers}
            assert len(sizes) == 1
            assert min(sizes) >= 10_000

    run(scenario())


def test_bytes_of_several_partitions_count_together():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t", partitions=3)
            await writer.produce("t", VALUE, partition=0)
            request = a_fetch((0, 0), (1, 0), (2, 0), min_bytes=3000)
            task = await parked(node, reader, request, waiters=1)
            await writer.produce("t", VALUE, partition=1)
            await until(lambda: len(node.broker.replicas.partition("t", 1).committed) == 1)
            assert not task.done()
            await writer.produce("t", VALUE, partition=2)
            assert found(await task) == {("t", index): (0, True) for index in range(3)}

    run(scenario())


def test_bytes_before_the_offset_do_not_count():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t")
            for _ in range(5):
                await writer.produce("t", VALUE)
            task = await parked(node, reader, a_fetch((0, 3), min_bytes=3000), waiters=1)
            await writer.produce("t", VALUE)
            assert len((await task).responses[0].partitions[0].records) >= 3000

    run(scenario())


def test_bytes_count_across_segments():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t", segment_bytes=1 << 20)
            log = node.broker.replicas.partition("t", 0).log
            await writer.produce("t", VALUE)
            task = await parked(node, reader, a_fetch((0, 0), min_bytes=3000), waiters=1)
            rolling.guarded_roll(log, log.end_offset, 0)
            await writer.produce("t", VALUE)
            await until(lambda: len(node.broker.replicas.partition("t", 0).committed) == 1)
            assert not task.done()
            await writer.produce("t", VALUE)
            assert found(await task) == {("t", 0): (0, True)}

    run(scenario())


def test_more_than_the_partitions_may_give_is_not_waited_for():
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t")
            await client.produce("t", VALUE * 10)
            request = a_fetch((0, 0), min_bytes=1 << 30)
            request.topics[0].partitions[0].partition_max_bytes = 5000
            assert found(await client.call(request)) == {("t", 0): (0, True)}

    run(scenario())


def test_a_fetch_that_waits_hears_that_its_topic_was_deleted():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t")
            task = await parked(node, reader, a_fetch((0, 0), min_bytes=1000), waiters=1)
            await writer.call(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=10_000)
            )
            assert found(await task) == {("t", 0): (errors.UnknownTopicOrPartition.code, False)}

    run(scenario())


def test_a_fetch_whose_time_is_up_gets_what_there_is():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t")
            await writer.produce("t", VALUE)
            task = await parked(node, reader, a_fetch((0, 0), min_bytes=5000, max_wait_ms=10_000), waiters=1)
            node.clock.advance(10_001)
            assert found(await task) == {("t", 0): (0, True)}
            assert len(node.broker.replicas.partition("t", 0).committed) == 0

    run(scenario())


def test_a_fetch_of_a_client_that_went_leaves_nothing_behind_even_when_it_was_just_woken():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer):
            await writer.create("t")
            partition = node.broker.replicas.partition("t", 0)
            async with connected(node) as reader:
                task = await parked(node, reader, a_fetch((0, 0), min_bytes=5000), waiters=1)
            with pytest.raises(asyncio.IncompleteReadError):
                await task
            await until(lambda: len(partition.committed) == 0)
            await writer.produce("t", VALUE)
            assert len(partition.committed) == 0

    run(scenario())


# -- what is answered at once ----------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_fetch_without_partitions_is_answered_at_once(epoch):
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            answer = await client.call(a_fetch(session_epoch=epoch))
            assert (answer.session_id, answer.responses) == (0, [])

    run(scenario())


def test_a_session_is_closed_at_once():
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            await client.create("t")
            opened = await client.call(a_fetch((0, 0), session_epoch=0, max_wait_ms=0))
            assert len(node.broker.sessions) == 1
            closed = await client.call(a_fetch(session_id=opened.session_id, session_epoch=-1))
            assert (closed.error_code, closed.session_id, len(node.broker.sessions)) == (0, 0, 0)

    run(scenario())


def test_a_session_from_which_all_was_taken_is_answered_at_once():
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t")
            opened = await client.call(a_fetch((0, 0), session_epoch=0, max_wait_ms=0))
            request = a_fetch(session_id=opened.session_id, session_epoch=1)
            request.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
            assert (await client.call(request)).session_id == 0

    run(scenario())


def test_partitions_that_do_not_exist_are_told_at_once_when_there_are_no_others():
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            answer = await client.call(a_fetch((0, 0), topic="nowhere"))
            assert found(answer) == {("nowhere", 0): (errors.UnknownTopicOrPartition.code, False)}

    run(scenario())


def test_the_others_are_waited_for_beside_partitions_that_do_not_exist():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t")
            task = await parked(node, reader, a_fetch((7, 0), (0, 0)), waiters=1)
            await writer.produce("t", VALUE)
            assert found(await task) == {
                ("t", 7): (errors.UnknownTopicOrPartition.code, False),
                ("t", 0): (0, True),
            }

    run(scenario())


def test_an_offset_out_of_range_is_told_at_once_whatever_the_others_have():
    async def scenario():
        async with broker([memory_disk()]) as (_, client):
            await client.create("t", partitions=2)
            answer = await client.call(a_fetch((0, 55), (1, 0)))
            assert found(answer) == {("t", 0): (errors.OffsetOutOfRange.code, False), ("t", 1): (0, False)}

    run(scenario())


# -- followers -------------------------------------------------------------------------------------


def test_a_follower_is_given_the_record_that_its_own_progress_set_off():
    """A coordinator appends the next record when the last one is committed. A follower that was parked behind
    it would not be heard of again before its fetch times out."""

    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            await client.create("t")
            await client.produce("t", VALUE)
            partition = node.broker.replicas.partition("t", 0)
            partition.on_state(partition.state._replace(replicas=[1, 2], isr=[1, 2]))
            await client.produce("t", VALUE, acks=1)
            assert partition.log.high_watermark == 1
            next_record = (await client.fetch("t")).records

            def append_next():
                partition.append(bytearray(next_record), acks=1, now_ms=node.clock.now_ms())

            partition.committed.add(2, append_next)
            answer = await client.call(a_fetch((0, 2), replica_id=2))
            assert partition.log.high_watermark == 2
            assert found(answer) == {("t", 0): (0, True)}

    run(scenario())


def test_the_progress_of_a_follower_in_one_partition_is_seen_by_those_asked_before():
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            await client.create("t", partitions=2)
            for index in (0, 1):
                await client.produce("t", VALUE, partition=index)
            first, last = (node.broker.replicas.partition("t", index) for index in (0, 1))
            last.on_state(last.state._replace(replicas=[1, 2], isr=[1, 2]))
            first.on_state(first.state._replace(replicas=[1, 2], isr=[1, 2]))
            await client.produce("t", VALUE, partition=1, acks=1)
            record = (await client.fetch("t")).records
            last.committed.add(2, lambda: first.append(bytearray(record), acks=1, now_ms=node.clock.now_ms()))
            answer = await client.call(a_fetch((0, 1), (1, 2), replica_id=2))
            assert found(answer) == {("t", 0): (0, True), ("t", 1): (0, False)}

    run(scenario())


# -- sessions of many partitions -------------------------------------------------------------------


class Fetching:
    """A client's side of a session: what it was told last of each partition."""

    def __init__(self, client, partitions, **options):
        self.client, self.options = client, options
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.told = {}
        self._session_id = self._epoch = 0
        self._changed = set(self.offsets)

    def request(self, **options):
        options = self.options | {"max_wait_ms": 0} | options
        changed = [(index, self.offsets[index]) for index in sorted(self._changed)]
        self._changed = set()
        return a_fetch(*changed, session_id=self._session_id, session_epoch=self._epoch, **options)

    async def fetch(self, **options):
        """The partitions that were in the answer."""
        return self.take(await self.client.call(self.request(**options)))

    def take(self, answer):
        assert answer.error_code == 0
        assert answer.session_id
        self._session_id, self._epoch = answer.session_id, self._epoch + 1
        answered = [data for topic in answer.responses for data in topic.partitions]
        for data in answered:
            self.told[data.partition_index] = (data.error_code, data.high_watermark, data.log_start_offset)
            if data.records:
                self.move_to(data.partition_index, batch.read_header(bytes(data.records)).last_offset + 1)
        return {data.partition_index for data in answered}

    def move_to(self, index, offset):
        self.offsets[index] = offset
        self._changed.add(index)


def test_a_session_of_a_consumer_does_not_become_one_of_a_follower_without_its_right():
    """What a follower asks for acknowledges records: a reader could bring a replica into the ISR that has none."""

    rule = Acl(
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        PatternType.LITERAL,
        "User:broker",
        "*",
        Operation.CLUSTER_ACTION,
        Permission.ALLOW,
    )

    async def scenario():
        async with broker([memory_disk()], **GUARDED) as (node, writer), connected(node) as reader:
            await writer.create("t")
            node.broker.image.apply(record_of(rule))
            session = Fetching(reader, 1)
            assert await session.fetch() == {0}
            assert await session.fetch() == set()
            assert await session.fetch(replica_id=2) == {0}
            assert session.told[0][0] == errors.TopicAuthorizationFailed.code
            assert not node.broker.replicas.partition("t", 0).followers

    run(scenario())


def test_a_fetch_of_a_session_looks_only_at_partitions_that_changed():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t", partitions=50)
            session = Fetching(reader, 50)
            assert len(await session.fetch()) == 50
            listened, checked = [], []
            with pytest.MonkeyPatch.context() as patch:
                add, log_of = Waiters.add, Reader.log_of
                patch.setattr(Waiters, "add", lambda *args: listened.append(args) or add(*args))
                patch.setattr(Reader, "log_of", lambda *args: checked.append(args) or log_of(*args))
                for expected in (50, 1, 1, 1):
                    listened.clear()
                    request = session.request(max_wait_ms=FOREVER_MS)
                    task = await parked(node, reader, request, waiters=1, index=7)
                    assert len(listened) == expected
                    checked.clear()
                    await writer.produce("t", VALUE, partition=7)
                    assert session.take(await task) == {7}
                    assert len(checked) == 1

    run(scenario())


@pytest.mark.parametrize("seed", range(8))
def test_a_session_is_told_all_that_a_fetch_without_one_is_told(seed):
    """Whatever happens to the partitions between two fetches."""

    async def scenario():
        random = Random(seed)
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t", partitions=6)
            session = Fetching(reader, 6, replica_id=2 if seed % 2 else -1)
            partitions = [node.broker.replicas.partition("t", index) for index in range(6)]
            for partition in partitions:
                partition.on_state(partition.state._replace(replicas=[1, 2, 3], isr=[1, 3]))
            for _ in range(120):
                index = random.randrange(6)
                partition = partitions[index]
                state = partition.state
                log, now_ms = partition.log, node.clock.monotonic_ms()
                match random.randrange(7):
                    case 0 | 1:
                        await writer.produce("t", VALUE, partition=index, acks=1)
                    case 2:
                        log.delete_records_before(log.high_watermark)
                        if session.offsets[index] < log.log_start_offset:
                            session.move_to(index, log.log_start_offset)
                    case 3:
                        partition.on_state(state._replace(leader_epoch=state.leader_epoch + 1))
                    case 4:
                        partition.on_state(state._replace(leader=-1 if state.leader == 1 else 1))
                    case 5:
                        session.move_to(index, log.end_offset)
                    case 6 if partition.is_leader:  # another follower has it all: the high watermark moves
                        partition.on_follower_fetch(3, log.end_offset, log.log_start_offset, 1, now_ms)
                await session.fetch()
                full = a_fetch(
                    *session.offsets.items(), max_wait_ms=0, replica_id=session.options["replica_id"]
                )
                answer = await writer.call(full)
                for data in answer.responses[0].partitions:
                    truth = (data.error_code, data.high_watermark, data.log_start_offset)
                    assert session.told[data.partition_index] == truth

    run(scenario())


def test_a_parked_fetch_of_a_session_hears_of_a_new_leader():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t", partitions=2)
            session = Fetching(reader, 2)
            await session.fetch()
            await session.fetch()
            task = await parked(node, reader, session.request(max_wait_ms=FOREVER_MS), waiters=1)
            partition = node.broker.replicas.partition("t", 1)
            partition.on_state(partition.state._replace(leader=-1))
            assert session.take(await task) == {1}

    run(scenario())


def test_a_fetch_whose_session_goes_while_it_waits_is_answered():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t")
            session = Fetching(reader, 1)
            await session.fetch()
            task = await parked(node, reader, session.request(max_wait_ms=FOREVER_MS), waiters=1)
            closing = a_fetch(session_id=session._session_id, session_epoch=-1)
            assert (await writer.call(closing)).error_code == 0
            await task
            assert len(node.broker.replicas.partition("t", 0).committed) == 0

    run(scenario())


def test_what_a_session_listens_to_goes_with_it():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer):
            await writer.create("t", partitions=3)
            waiting = [node.broker.replicas.partition("t", index).committed for index in range(3)]
            async with connected(node) as reader:
                session = Fetching(reader, 3)
                await session.fetch()
                task = await parked(node, reader, session.request(max_wait_ms=10_000), waiters=1)
                node.clock.advance(10_001)
                session.take(await task)
                assert [len(each) for each in waiting] == [1, 1, 1]
                request = session.request()
                request.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
                session.take(await reader.call(request))
                assert [len(each) for each in waiting] == [0, 1, 1]
            await until(lambda: [len(each) for each in waiting] == [0, 0, 0])

    run(scenario())


# -- bounds ----------------------------------------------------------------------------------------


def test_a_partition_that_is_named_many_times_is_read_and_waited_for_once():
    async def scenario():
        async with broker([memory_disk()]) as (node, writer), connected(node) as reader:
            await writer.create("t")
            task = await parked(node, reader, a_fetch(*[(0, 0)] * 90_000), waiters=1)
            await writer.produce("t", VALUE)
            assert [len(topic.partitions) for topic in (await task).responses] == [1]

    run(scenario())


def test_a_fetch_of_far_more_partitions_than_there_are_is_refused():
    async def scenario():
        async with broker([memory_disk()]) as (node, client):
            await client.create("t")
            allowed = node.broker.image.partition_count + handler.STRANGERS_MAX
            few, many = ([(index, 0) for index in range(count)] for count in (allowed, allowed + 1))
            assert len(found(await client.call(a_fetch(*few, max_wait_ms=0)))) == allowed
            refused = await client.call(a_fetch(*many, session_epoch=0))
            assert (refused.error_code, refused.responses) == (errors.InvalidRequest.code, [])
            assert len(node.broker.sessions) == 0

    run(scenario())


def test_the_sessions_of_a_connection_go_with_it():
    async def scenario():
        async with running([memory_disk()]) as node:
            async with connected(node) as client:
                await client.create("t")
                for _ in range(3):
                    opened = await client.call(a_fetch((0, 0), session_epoch=0, max_wait_ms=0))
                    assert opened.session_id != 0
                assert len(node.broker.sessions) == 3
            await until(lambda: len(node.broker.sessions) == 0)
            assert node.broker.sessions.partition_count == 0

    run(scenario())
