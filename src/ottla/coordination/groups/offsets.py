"""Offset commits, plain and transactional, and reading and deleting offsets.

OffsetCommit 2-10, TxnOffsetCommit 0-5, OffsetFetch 1-10, OffsetDelete 0. From version 10 on topics are
named by id. A fetch is answered for one group: the groups of a request may live on several shards.
"""

from collections.abc import Callable, Sequence

from ottla import errors
from ottla.coordination.groups.environment import Environment
from ottla.coordination.groups.offset_table import OffsetTable, Partition
from ottla.coordination.groups.records import NO_TOPIC_ID, OffsetCommit, OffsetCommitValue
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

PartitionCheck = Callable[[bytes, int], None]  # topic id, partition; raises what the request is answered


def anything(_topic_id: bytes, _partition: int) -> None:
    """No partition is special."""


class Offsets:
    def __init__(self, environment: Environment, table: OffsetTable) -> None:
        self._env = environment
        self.table = table

    # Commit

    def commit(
        self, request: OffsetCommitRequest, check: PartitionCheck, now_ms: int
    ) -> tuple[list[OffsetCommit], OffsetCommitResponse]:
        self._check_all(request.topics, check)
        expires = min(now_ms + request.retention_time_ms, 2**63 - 1) if request.retention_time_ms >= 0 else -1
        records: list[OffsetCommit] = []
        topics = []
        for topic in request.topics:
            name, topic_id = self._identify(topic.name, topic.topic_id)
            partitions = []
            for partition in topic.partitions:
                try:
                    value = self._value(name, topic_id, partition, now_ms, expires)
                    records.append(
                        OffsetCommit(request.group_id, name or "", partition.partition_index, value)
                    )
                    code = errors.NONE
                except errors.ProtocolError as error:
                    code = error.code
                answer = OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code
                )
                partitions.append(answer)
            topics.append(
                OffsetCommitResponseTopic(topic_id=topic.topic_id, name=topic.name, partitions=partitions)
            )
        return records, OffsetCommitResponse(topics=topics)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, check: PartitionCheck, now_ms: int
    ) -> tuple[list[OffsetCommit], TxnOffsetCommitResponse]:
        self._check_all(request.topics, check)
        records: list[OffsetCommit] = []
        topics = []
        for topic in request.topics:
            name, topic_id = self._identify(topic.name, NO_TOPIC_ID)
            partitions = []
            for partition in topic.partitions:
                try:
                    value = self._value(name, topic_id, partition, now_ms, -1)
                    records.append(
                        OffsetCommit(request.group_id, topic.name, partition.partition_index, value)
                    )
                    code = errors.NONE
                except errors.ProtocolError as error:
                    code = error.code
                partitions.append(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return records, TxnOffsetCommitResponse(topics=topics)

    def _check_all(
        self,
        topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic],
        check: PartitionCheck,
    ) -> None:
        """One partition that is not the member's any more spoils the request, as in Kafka."""
        for topic in topics:
            topic_id = topic.topic_id if isinstance(topic, OffsetCommitRequestTopic) else NO_TOPIC_ID
            name, topic_id = self._identify(topic.name, topic_id)
            for partition in topic.partitions:
                if name is not None:
                    check(topic_id, partition.partition_index)

    def _identify(self, name: str, topic_id: bytes) -> tuple[str | None, bytes]:
        """Name and id of a topic given by either; no name when it is unknown."""
        if topic_id != NO_TOPIC_ID:
            return self._env.topics.topic_name(topic_id), topic_id
        known = self._env.topics.topic_id(name)
        return (None, NO_TOPIC_ID) if known is None else (name, known)

    def _value(
        self,
        name: str | None,
        topic_id: bytes,
        partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
        now_ms: int,
        expires_ms: int,
    ) -> OffsetCommitValue:
        if name is None:
            raise errors.UnknownTopicId if topic_id != NO_TOPIC_ID else errors.UnknownTopicOrPartition
        if not 0 <= partition.partition_index < self._env.topics.partition_count(name):
            raise errors.UnknownTopicOrPartition
        metadata = partition.committed_metadata or ""
        if len(metadata) > self._env.settings.offset_metadata_max_bytes:
            raise errors.OffsetMetadataTooLarge
        return OffsetCommitValue(
            partition.committed_offset,
            metadata,
            now_ms,
            partition.committed_leader_epoch,
            expires_ms,
            topic_id,
        )

    # Fetch

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        unstable = self.table.pending_of(request.group_id) if require_stable else set()
        wanted = self._everything(request.group_id) if request.topics is None else request.topics
        topics = [self._fetch_topic(request.group_id, topic, unstable) for topic in wanted]
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def _everything(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        """A topic that is gone has no id to be named by, and nobody can read it: it is left out."""
        partitions: dict[str, list[int]] = {}
        for topic, partition in sorted(self.table.of_group(group_id)):
            partitions.setdefault(topic, []).append(partition)
        return [
            OffsetFetchRequestTopics(
                topic_id=self._env.topics.topic_id(topic) or NO_TOPIC_ID,
                name=topic,
                partition_indexes=indexes,
            )
            for topic, indexes in partitions.items()
        ]

    def _fetch_topic(
        self, group_id: str, topic: OffsetFetchRequestTopics, unstable: set[Partition]
    ) -> OffsetFetchResponseTopics:
        name, topic_id = topic.name, topic.topic_id
        unknown = errors.NONE
        if not name:
            name = self._env.topics.topic_name(topic_id) or ""
            unknown = errors.NONE if name else errors.UnknownTopicId.code
        elif topic_id == NO_TOPIC_ID:
            topic_id = self._env.topics.topic_id(name) or NO_TOPIC_ID
        partitions = [
            self._fetch_partition(group_id, (name, index), topic_id, unstable, unknown)
            for index in topic.partition_indexes
        ]
        return OffsetFetchResponseTopics(topic_id=topic.topic_id, name=name, partitions=partitions)

    def _fetch_partition(
        self, group_id: str, partition: Partition, topic_id: bytes, unstable: set[Partition], unknown: int
    ) -> OffsetFetchResponsePartitions:
        entry = self.table.of_group(group_id).get(partition)
        code = errors.UnstableOffsetCommit.code if partition in unstable else unknown
        if entry is None or code or _other_topic(entry.value.topic_id, topic_id):
            return OffsetFetchResponsePartitions(
                partition_index=partition[1], committed_offset=-1, metadata="", error_code=code
            )
        return OffsetFetchResponsePartitions(
            partition_index=partition[1],
            committed_offset=entry.value.offset,
            committed_leader_epoch=entry.value.leader_epoch,
            metadata=entry.value.metadata,
        )

    # Delete

    def delete(
        self, request: OffsetDeleteRequest, subscribed: Callable[[str], bool]
    ) -> tuple[list[OffsetCommit], OffsetDeleteResponse]:
        records: list[OffsetCommit] = []
        topics = []
        known = self.table.of_group(request.group_id)
        for topic in request.topics:
            in_use = errors.GroupSubscribedToTopic.code if subscribed(topic.name) else errors.NONE
            count = self._env.topics.partition_count(topic.name)
            partitions = []
            for partition in topic.partitions:
                there = 0 <= partition.partition_index < count
                code = in_use if there else errors.UnknownTopicOrPartition.code
                if not code and (topic.name, partition.partition_index) in known:
                    records.append(
                        OffsetCommit(request.group_id, topic.name, partition.partition_index, None)
                    )
                partitions.append(
                    OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return records, OffsetDeleteResponse(topics=topics)


def _other_topic(committed: bytes, asked: bytes) -> bool:
    """A commit for a topic that was deleted and re-created under the same name."""
    return committed != asked and NO_TOPIC_ID not in (committed, asked)


def refuse_commit(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def refuse_transactional(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
