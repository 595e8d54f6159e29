"""How far groups are behind: committed offsets from the coordinator's own state, ends of partitions from wherever.

The end of a partition that has no replica in sync here is asked of its leader, in the background: a scrape takes what
is known and only says what it would like to know.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ottla.broker.cluster.peers import Lane, Peers
from ottla.broker.coordinators.groups import Groups
from ottla.broker.partitions.replicas import Key, Replicas
from ottla.metadata.image import Image
from ottla.ports import Clock
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LIST_OFFSETS_VERSION, LATEST = 7, -1
REFRESH_MS = 5_000
ANSWER_MS = 5_000
PARTITIONS_AT_ONCE = 500  # of a request: a millisecond or so of the leader
PARTITIONS_MAX = 20_000  # that are asked for at all


class GroupOffset(NamedTuple):
    group: str
    topic: str
    partition: int
    committed: int
    lag: int | None  # None: nobody has told the end yet


class EndOffsets:
    def __init__(self, node_id: int, image: Image, clock: Clock, peers: Peers, replicas: Replicas) -> None:
        self._node_id, self._image, self._clock = node_id, image, clock
        self._peers, self._replicas = peers, replicas
        self._answered: dict[Key, int] = {}
        self._wanted: set[Key] = set()
        self._is_asking = False
        self._asked_ms: int | None = None

    def of(self, topic: str, partition: int) -> int | None:
        """The high watermark; None if it is not known yet. What is asked here is asked of the leader later."""
        here = self._replicas.partitions.get((topic, partition))
        if here is not None and here.log is not None and (here.is_leader or self._node_id in here.state.isr):
            return here.log.high_watermark
        if len(self._wanted) < PARTITIONS_MAX:
            self._wanted.add((topic, partition))
        return self._answered.get((topic, partition))

    def maybe_refresh(self) -> None:
        """After a scrape. Does nothing while an earlier refresh is under way or fresh."""
        now_ms = self._clock.monotonic_ms()
        if self._is_asking or (self._asked_ms is not None and now_ms < self._asked_ms + REFRESH_MS):
            return
        wanted, self._wanted = self._wanted, set()
        self._answered = {key: end for key, end in self._answered.items() if key in wanted}
        if wanted:
            self._is_asking, self._asked_ms = True, now_ms
            self._ask_next(self._requests(wanted))

    def _requests(self, wanted: set[Key]) -> Iterator[tuple[int, list[Key]]]:
        by_leader: dict[int, list[Key]] = defaultdict(list)
        for key in wanted:
            state = self._image.partition(*key)
            if state is not None and state.leader >= 0:
                by_leader[state.leader].append(key)
        for leader, keys in by_leader.items():
            rest = iter(keys)
            while part := list(islice(rest, PARTITIONS_AT_ONCE)):
                yield leader, part

    def _ask_next(self, requests: Iterator[tuple[int, list[Key]]]) -> None:
        """One request at a time, whatever it was answered."""
        leader, keys = next(requests, (-1, []))
        if not keys:
            self._is_asking = False
            return

        def answered(answer: object) -> None:
            if isinstance(answer, ListOffsetsResponse):
                self._take(answer)
            # On a timer: an answer that comes at once, of a broker that is not there, must not nest.
            self._clock.call_later(0, lambda: self._ask_next(requests))

        self._peers.ask(
            leader, Lane.OFFSETS, _request(keys), LIST_OFFSETS_VERSION, answered, timeout_ms=ANSWER_MS
        )

    def _take(self, answer: ListOffsetsResponse) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if not partition.error_code:
                    self._answered[topic.name, partition.partition_index] = partition.offset


def group_offsets(groups: Groups, ends: EndOffsets) -> Iterator[GroupOffset | None]:
    """Of all groups that this broker coordinates. A None now and then lets the loop rest."""
    for shard in list(groups.shards.values()):
        if not shard.is_loaded:
            continue
        for group, offsets in list(shard.machine.state.offsets.committed.items()):
            for (topic, partition), committed in list(offsets.items()):
                end = ends.of(topic, partition)
                offset = committed.value.offset
                lag = None if end is None else max(end - offset, 0)
                yield GroupOffset(group, topic, partition, offset, lag)
            yield None


def _request(keys: list[Key]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, index in keys:
        topics[topic].append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
