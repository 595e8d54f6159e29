"""The transactional producer's side of the protocol: both generations, fencing, errors to abort on."""

from collections.abc import Callable, Iterable, Mapping

from ottla import errors
from ottla.client.core.accumulator import Admission, Queue
from ottla.client.core.cluster import GROUP, TRANSACTION, Cluster
from ottla.client.core.deliveries import Batch
from ottla.client.core.dialogue import check
from ottla.client.core.identity import Identity, init_request
from ottla.client.core.offsets import by_topic
from ottla.client.errors import IllegalState
from ottla.client.settings import ProducerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import error_for
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

# After these the producer cannot go on: another one owns its transactional id, or it may not use one.
FATAL = (
    errors.ProducerFenced,
    errors.TransactionalIdAuthorizationFailed,
    errors.InvalidProducerIdMapping,
    errors.UnsupportedVersion,
    errors.ClusterAuthorizationFailed,
)


class Transactions(Identity):
    """One transaction at a time. An error in it can only be aborted; being fenced is the end."""

    transactional = True
    # The second generation ends a transaction with a new epoch: nobody but the producer itself can end it.
    generation_max = 2

    def __init__(
        self,
        cluster: Cluster,
        queues: Callable[[], Iterable[Queue]] = tuple,
        *,
        transactional_id: str | None = None,
    ) -> None:
        super().__init__(cluster, queues)
        assert isinstance(cluster.settings, ProducerSettings)
        chosen_id = transactional_id or cluster.settings.transactional_id
        assert chosen_id is not None
        self.id = chosen_id
        self._timeout_ms = cluster.settings.transaction_timeout_ms
        self._needs_id = False
        self._fenced: Exception | None = None
        self._second_generation = False
        self._lost = False  # sequences are lost: the first generation needs InitProducerId again
        self._added: set[TopicPartition] = set()
        self._missing: set[TopicPartition] = set()
        self._offsets_added = False
        self.offset_attempts = 0  # questions to coordinators about offsets, repeated ones too
        self._changes = 0  # how often a transaction has begun or ended
        self.open = False
        self.ending = False  # takes no more records
        self.initialized = False

    # -- what the user calls -----------------------------------------------------------------------

    async def init(self) -> None:
        """Ends what an earlier producer of this id left open, and fences it."""
        await self._init(first=True)
        self.initialized = True

    def resume(self, producer: tuple[int, int]) -> None:
        """Takes over an open transaction that another process has written, to end it."""
        self.producer = producer
        self.initialized = self.open = True
        self._offsets_added = True  # it was touched, though not by us

    def begin(self) -> None:
        self._ensure_alive()
        if not self.initialized:
            raise IllegalState("call init_transactions() first")
        if self.open:
            raise IllegalState("a transaction is open already; commit or abort it first")
        self._reset()
        self.open = True

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata
    ) -> None:
        """Commits a consumer's offsets with the transaction."""
        self.ensure_open()
        if not offsets:
            return
        try:
            if not self._second_generation:
                await self._cluster.retrying(
                    lambda: self._add_offsets(member.group_id),
                    "offsets could not be added to the transaction",
                )
            self._offsets_added = True
            await self._cluster.retrying(
                lambda: self._commit_offsets(offsets, member),
                "offsets could not be committed in the transaction",
            )
        except errors.OttlaError as error:
            self._on_failure(error)
            raise

    async def end(self, *, committed: bool) -> None:
        """Commits or aborts. The producer has flushed before: nothing is on the wire."""
        self._ensure_alive()
        if not self.open:
            raise IllegalState("no transaction is open")
        if committed and self.failed is not None:
            raise IllegalState(f"the transaction failed and must be aborted: {self.failed}") from self.failed
        touched = bool(self._added or self._missing or self._offsets_added)
        if touched:
            try:
                await self._cluster.retrying(
                    lambda: self._end(committed), "the transaction could not be ended"
                )
            except (*FATAL, errors.InvalidProducerEpoch, errors.InvalidTxnState) as error:
                self._fence(error)
                raise
            except errors.ProtocolError as error:
                if committed:
                    self._on_failure(error)  # a second commit could only be refused again
                raise
        if self._lost and not self._second_generation:
            await self._init(first=False)
        self.open = False
        self._reset()

    def ensure_open(self) -> None:
        self._ensure_alive()
        if not self.open:
            raise IllegalState("no transaction is open; call begin_transaction() first")
        if self.ending:
            raise IllegalState("the transaction is being ended; records belong in the next one")
        if self.failed is not None:
            raise IllegalState(f"the transaction failed and must be aborted: {self.failed}") from self.failed

    def admission(self) -> Admission:
        """A record may wait, for its topic or for room, until its transaction has ended: then no other takes it.

        An application that aborts a transaction sends its records again in the next one.
        """
        self.ensure_open()
        changes = self._changes

        def admit() -> None:
            if changes != self._changes:
                raise IllegalState(
                    "the transaction ended while the record waited for room in buffer.memory or for its topic; "
                    "send it in another one"
                )
            self.ensure_open()

        return admit

    # -- what the sender asks ----------------------------------------------------------------------

    @property
    def is_second_generation(self) -> bool:
        """Whether partitions and offsets are added to the transaction by the requests that write them."""
        return self._second_generation

    @property
    def missing_partitions(self) -> bool:
        return bool(self._missing)

    @property
    def produce_version_max(self) -> int:  # type: ignore[override]
        """From version 12 on a produce adds its partition to the transaction by itself."""
        return 32767 if self._second_generation else 11

    @property
    def is_ready(self) -> bool:
        return self.initialized

    def may_send(self, partition: TopicPartition) -> bool:
        if self._second_generation:
            self._added.add(partition)
        elif partition not in self._added:
            self._missing.add(partition)
        return partition in self._added

    def on_batch_failed(self, queue: Queue, batch: Batch, error: Exception) -> None:
        """Sent or not: a commit without this batch would lose records that `send` has accepted."""
        self._on_failure(error)

    async def add_partitions(self) -> None:
        """First generation: the coordinator must know a partition before its first record."""
        partitions = sorted(self._missing)
        topics = [AddPartitionsToTxnTopic(name=t, partitions=i) for t, i in by_topic(partitions).items()]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=topics,
        )
        try:
            answer = await self._cluster.ask_coordinator(TRANSACTION, self.id, request, at_most=3)
            for topic in answer.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    if result.partition_error_code:
                        raise error_for(result.partition_error_code, None)
        except errors.ConcurrentTransactions:
            # The one before is still being ended: a matter of milliseconds.
            await self._cluster.runtime.sleep(0.02)
            return
        except errors.OttlaError as error:
            self._cluster.forget_stale(error)
            if not (isinstance(error, errors.ProtocolError) and error.retriable):
                self._on_failure(error)
            raise
        self._added.update(partitions)
        self._missing.difference_update(partitions)

    # -- requests ----------------------------------------------------------------------------------

    async def _init(self, *, first: bool) -> None:
        request = init_request(self.id, self._timeout_ms)
        if not first:
            request.producer_id, request.producer_epoch = self.producer

        async def attempt() -> None:
            node = await self._cluster.coordinator(TRANSACTION, self.id)
            connection = await self._cluster.connection(node)
            answer = await connection.ask(request, at_most=5)
            check(answer)
            versions = connection.dialogue.versions
            self._second_generation = (
                self.generation_max >= 2
                and connection.dialogue.features.get("transaction.version", 0) >= 2
                and versions.get(0, (0, 0))[1] >= 12
                and versions.get(EndTxnRequest.API_KEY, (0, 0))[1] >= 5
            )
            self._become((answer.producer_id, answer.producer_epoch))

        try:
            await self._cluster.retrying(attempt, "transactions could not be initialized")
        except (*FATAL, errors.InvalidProducerEpoch) as error:
            self._fence(error)
            raise
        self._lost = False

    async def _add_offsets(self, group: str) -> None:
        self.offset_attempts += 1
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            group_id=group,
        )
        check(await self._cluster.ask_coordinator(TRANSACTION, self.id, request))

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata
    ) -> None:
        self.offset_attempts += 1
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[_offset(p, offsets[TopicPartition(topic, p)]) for p in indexes],
            )
            for topic, indexes in by_topic(offsets).items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=member.group_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            generation_id=member.generation_id,
            member_id=member.member_id,
            topics=topics,
        )
        request.group_instance_id = member.group_instance_id
        at_most = 5 if self._second_generation else 4
        answer = await self._cluster.ask_coordinator(GROUP, member.group_id, request, at_most=at_most)
        for topic in answer.topics:
            for result in topic.partitions:
                if result.error_code:
                    raise error_for(result.error_code, None)

    async def _end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=committed,
        )
        at_most = 5 if self._second_generation else 4
        answer = await self._cluster.ask_coordinator(TRANSACTION, self.id, request, at_most=at_most)
        check(answer)
        if self._second_generation and answer.producer_id >= 0:
            self._become((answer.producer_id, answer.producer_epoch))

    # -- state -------------------------------------------------------------------------------------

    def _become(self, producer: tuple[int, int]) -> None:
        if producer != self.producer:
            for queue in self._queues():
                queue.restart(producer)
            self.producer = producer

    def _reset(self) -> None:
        self.failed = self._fenced
        self.ending = False
        self._changes += 1
        self._added.clear()
        self._missing.clear()
        self._offsets_added = False

    def _on_failure(self, error: Exception) -> None:
        if isinstance(error, FATAL):
            self._fence(error)
        elif self.failed is None:
            self.failed = error
            self._lost = True

    def _fence(self, error: Exception) -> None:
        self._fenced = self.failed = error

    def _ensure_alive(self) -> None:
        if self._fenced is not None:
            raise IllegalState(f"this producer cannot go on, close it: {self._fenced}") from self._fenced


def _offset(partition: int, committed: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )
