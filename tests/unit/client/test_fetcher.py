import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla import errors
from ottla.client.core import fetcher as fetcher_module
from ottla.client.core.cluster import Cluster
from ottla.client.core.fetcher import Fetcher
from ottla.client.errors import NoOffset
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataResponsePartition
from ottla.wire.schema import Message
from tests.unit.client.scripted import ScriptedBroker
from tests.unit.client.test_chunks import a_batch
from tests.unit.client.test_cluster import ID, told

P = TopicPartition("t", 0)
END = 20


class Log(ScriptedBroker):
    """One partition with 20 records, a batch each; begins at `start`."""

    def __init__(self, start: int = 0) -> None:
        super().__init__()
        self.start = start
        self.answers["FetchRequest"] = self._fetch
        self.answers["ListOffsetsRequest"] = self._list
        self.answers["MetadataRequest"] = lambda _: told(1, 0, port=self.port)
        self.remembered: dict[int, int] = {}
        self.fetched: list[int] = []

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        asked = {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}
        self.remembered = {**self.remembered, **asked} if request.session_id else asked
        for topic in request.forgotten_topics_data:
            for p in topic.partitions:
                self.remembered.pop(p, None)
        partitions = [self._partition(p, offset) for p, offset in self.remembered.items()]
        return FetchResponse(
            session_id=5, responses=[FetchableTopicResponse(topic_id=ID, topic="t", partitions=partitions)]
        )

    def _partition(self, index: int, offset: int) -> PartitionData:
        self.fetched.append(offset)
        found = PartitionData(partition_index=index, high_watermark=END, last_stable_offset=END)
        if not self.start <= offset <= END:
            found.error_code = errors.OffsetOutOfRange.code
        else:
            found.records = b"".join(a_batch(i, b"v%d" % i) for i in range(offset, min(offset + 5, END)))
        return found

    def _list(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        stamp = request.topics[0].partitions[0].timestamp
        at = ListOffsetsPartitionResponse(partition_index=0, offset=self.start if stamp == -2 else END)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[at])])


def run(log: Log, scenario: Callable[[Fetcher], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with log:
            given = {"bootstrap.servers": f"127.0.0.1:{log.port}", "retry.backoff.ms": 5, **settings}
            cluster = Cluster(ConsumerSettings.parse(given), LOOP)
            await cluster.refresh(["t"])
            fetcher = Fetcher(cluster)
            task = asyncio.ensure_future(fetcher.run())
            try:
                await scenario(fetcher)
            finally:
                task.cancel()
                for each in fetcher._tasks:
                    each.cancel()
                await asyncio.gather(task, *fetcher._tasks, return_exceptions=True)
                await cluster.close()

    asyncio.run(main())


async def read(fetcher: Fetcher, up_to: int) -> list[int]:
    offsets: list[int] = []
    while not offsets or offsets[-1] < up_to - 1:
        for chunk in await fetcher.take(5):
            offsets += [record.offset for _, record in chunk.records()]
    return offsets


def test_everything_is_read_once_and_in_order_through_a_session() -> None:
    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P])
        fetcher.seek(P, 3)
        assert await read(fetcher, END) == list(range(3, END))

    run(Log(), scenario)


def test_an_answer_to_a_place_that_was_left_is_dropped() -> None:
    """A member read again what another had committed: its first fetch had begun elsewhere."""

    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P])
        fetcher.seek(P, 0)
        fetcher._pump()  # the fetch of offset 0 is under way, its task has not run yet
        fetcher.seek(P, 10)
        assert await read(fetcher, END) == list(range(10, END))
        fetcher.assign([])
        fetcher.assign([P])
        fetcher.seek(P, 15)
        assert await read(fetcher, END) == list(range(15, END))

    run(Log(), scenario)


def test_reading_ahead_is_bounded() -> None:
    log = Log()

    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P])
        fetcher.seek(P, 0)
        while fetcher.places[P].ahead < 2:
            await asyncio.sleep(0.001)
        for _ in range(20):
            fetcher._wake.set()
            await asyncio.sleep(0.001)
        assert log.fetched == [0, 5]

    run(log, scenario)


def test_a_fetch_that_leaves_a_partition_out_does_not_wait_at_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waited for another partition's records: those of the one that was left out came half a second late."""
    monkeypatch.setattr(fetcher_module, "_LOOK_S", 1e6)
    log = Log()
    other, asked = TopicPartition("t", 1), list[tuple[int, list[int]]]()
    answer = log.answers["FetchRequest"]

    def metadata(_: object) -> Message:
        both = told(1, 0, port=log.port)
        both.topics[0].partitions.append(
            MetadataResponsePartition(partition_index=1, leader_id=1, leader_epoch=0)
        )
        return both

    def fetch(request: FetchRequest) -> Message:
        answered = answer(request)
        asked.append((request.max_wait_ms, sorted(log.remembered)))
        return answered

    log.answers |= {"MetadataRequest": metadata, "FetchRequest": fetch}

    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P, other])
        fetcher.seek(P, 0)
        fetcher.seek(other, END)  # there are no records behind it
        while (0, [1]) not in asked:
            await asyncio.sleep(0.001)
        assert asked == [(500, [0, 1]), (500, [0, 1]), (0, [1])]
        assert fetcher.places[P].ahead == 2
        while not fetcher._not_before:
            await asyncio.sleep(0.001)
        for _ in range(20):  # it found nothing, and is not asked again and again
            fetcher._wake.set()
            await asyncio.sleep(0.001)
        assert len(asked) == 3
        assert await fetcher.take(5)
        while len(asked) == 3:
            await asyncio.sleep(0.001)
        assert asked[3] == (500, [0, 1])  # at once, although the other partition has nothing yet

    run(log, scenario)


@pytest.mark.parametrize(("policy", "first"), [("earliest", 7), ("latest", END)])
def test_an_offset_out_of_range_is_reset_as_the_setting_says(policy: str, first: int) -> None:
    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P])
        fetcher.seek(P, 2)
        while fetcher.places[P].offset in (2, None):
            await asyncio.sleep(0.001)
        assert log.fetched[0] == 2
        fetched = [chunk.fetch_offset for chunk in await fetcher.take(0.05)]
        assert fetched[:1] == ([first] if first < END else [])

    log = Log(start=7)
    run(log, scenario, auto_offset_reset=policy)


def test_without_a_reset_policy_the_user_is_told() -> None:
    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P])
        with pytest.raises(NoOffset, match="t-0"):
            await fetcher.take(5)
        fetcher.seek(P, 2)
        with pytest.raises(errors.OffsetOutOfRange, match="t-0"):
            await fetcher.take(5)

    run(Log(start=7), scenario, auto_offset_reset="none")


def test_nothing_is_fetched_behind_the_end_of_a_partition() -> None:
    log = Log()

    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P], ends={P: 8})
        fetcher.seek(P, 0)
        assert await read(fetcher, 8) == list(range(10))  # whole answers: who asked cuts them
        assert await fetcher.take(0.05) == []
        assert log.fetched == [0, 5]
        fetcher.assign([P])
        assert await read(fetcher, END) == list(range(10, END))

    run(log, scenario)


def test_a_failure_of_a_place_that_was_left_is_not_told() -> None:
    """A reader that was busy was told twice, and took the second for a loss of what it read next."""

    async def scenario(fetcher: Fetcher) -> None:
        fetcher.assign([P])
        fetcher.seek(P, 2)
        while not fetcher._fetched:
            await asyncio.sleep(0.001)
        fetcher.seek(P, 8)
        assert await read(fetcher, END) == list(range(8, END))

    run(Log(start=7), scenario, auto_offset_reset="none")
