"""Produce. v12 registers partitions with their transaction by itself; v13 names topics by id."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ottla import errors
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import CloseConnection, protocol_error
from ottla.broker.stepping import STEP_BYTES
from ottla.broker.transactions.admission import Admission
from ottla.broker.transactions.gates import TopicPartition
from ottla.broker.waits import woken
from ottla.metadata.names import is_internal
from ottla.ports import Buffer
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.mirroring import check_sender, validate_batches
from ottla.storage.validation import (
    RECORD_ERRORS_MAX,
    Accepted,
    NotOneBatch,
    RejectedRecords,
    RejectedTimestamps,
    accept,
    is_compressed,
    is_recompressed,
    unpacked_bytes_max,
)
from ottla.wire.compression import OverLimit, Scratch
from ottla.wire.corruption import CorruptBatch
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.mirror_frame import is_frame, unpack

if TYPE_CHECKING:
    from ottla.broker.contracts.checks import BatchCheck
    from ottla.config.contracts import Contract

ADMIN_CLIENT_ID = "__admin_client"
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
PARTITION_UNITS = 10_000  # what a partition costs beside its bytes: 10 microseconds
UNPACKED_AT_ONCE_MAX = STEP_BYTES  # what takes more goes to a thread
PACKED_AT_ONCE_MAX = STEP_BYTES // 64  # compressing takes up to 500 times as long
UNPACKED_RATIO_MAX = 32  # a large request may decompress to so many times its size
NOTHING: frozenset[TopicPartition] = frozenset()
CHECKED_BY_THE_LOG = (
    errors.InvalidRecord,
    errors.InvalidTimestamp,
    errors.OutOfOrderSequenceNumber,
    errors.InvalidProducerEpoch,
    errors.UnsupportedCompressionType,
    errors.InvalidTxnState,
)


@dataclass(slots=True)
class _Pending:
    """A partition's answer, and how far the high watermark must come before it may leave."""

    response: PartitionProduceResponse
    partition: Partition | None = None
    next_offset: int = -1
    tenure: int = -1


async def produce(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """Append all, then wait. Up to `appended` the next request of the connection is held back."""
    twice = _named_twice(request, context)
    admission = await context.transactions.admissions.admit(request, context.api_version, twice)
    deadline_ms = context.clock.monotonic_ms() + request.timeout_ms
    try:
        appending = _Appending(request, twice, admission, context)
        pending = [
            [await appending.append(topic, data) for data in topic.partition_data]
            for topic in request.topic_data
        ]
    finally:
        if admission is not None:
            admission.close()
    context.appended()  # from here on, waiting may overlap with the next request
    if request.acks == ACKS_NONE:
        _close_on_error(request, pending)
        return None
    responses = []
    for topic, of_topic in zip(request.topic_data, pending, strict=True):
        if request.acks == ACKS_ALL:
            for partition in of_topic:
                await _settle(partition, deadline_ms, context)
        partitions = [partition.response for partition in of_topic]
        responses.append(
            TopicProduceResponse(topic_id=topic.topic_id, name=topic.name, partition_responses=partitions)
        )
    return ProduceResponse(responses=responses, node_endpoints=_endpoints(responses, context))


def _named_twice(request: ProduceRequest, context: Context) -> frozenset[TopicPartition]:
    """Partitions with more than one entry: which of them would be meant, and was verified? Kafka drops all but
    the last without a word."""
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        return NOTHING
    counts = Counter(
        (topic.name or context.metadata.name_of(topic.topic_id), data.index)
        for topic in request.topic_data
        for data in topic.partition_data
    )
    return frozenset(key for key, count in counts.items() if count > 1)


def _check_writable(topic: str, context: Context) -> None:
    """Internal topics are written by coordinators; Kafka lets one client id in, and so do we."""
    if is_internal(topic) and context.client_id != ADMIN_CLIENT_ID:
        raise errors.InvalidTopicException(f"{topic} is written by the brokers alone")


class _Appending:
    """The way of one request's batches into their logs, and how much work they may make in sum."""

    def __init__(
        self,
        request: ProduceRequest,
        twice: frozenset[TopicPartition],
        admission: Admission | None,
        context: Context,
    ) -> None:
        self._acks, self._twice, self._admission, self._context = request.acks, twice, admission, context
        self._request = request
        self._record_errors_left = RECORD_ERRORS_MAX
        self._unpacked_bytes = 0  # of all compressed batches so far
        self._unpacked_at_once = 0  # of this one, on the loop

    async def append(self, topic: TopicProduceData, data: PartitionProduceData) -> _Pending:
        """One partition. An error is the answer for this partition alone."""
        records = data.records or b""
        log_start_offset = -1
        self._unpacked_at_once = 0
        try:
            partition, log = self._leader(topic, data)
            partition.traffic.produces += 1
            log_start_offset = log.log_start_offset
            if log.config.mirror_source or is_frame(records):
                pending = await self._append_mirrored(topic, data, records)
            else:
                self._check_writer(partition, log)
                contract = log.config.contract
                if contract is None:
                    accepted = self._accept_at_once(records, log)
                else:
                    accepted = self._accept_known(contract, partition.state.topic, records, log)
                if accepted is None:
                    if contract is None:
                        accepted = await self._accept_in_thread(records, log)
                    else:
                        accepted = await self._accept_by(contract, partition.state.topic, records, log)
                    partition, log = self._leader(topic, data)  # much may have happened
                    check_sender(log, partition.name, None)
                    self._check_writer(partition, log)
                pending = self._write(partition, log, topic, data, accepted)
        except Exception as failure:
            error = protocol_error(failure, f"produce to partition {data.index} of {topic.name}")
            response = self._failed(data.index, error, topic)
            self._context.replicas.traffic_of(topic.name or topic.topic_id).failed_produces += 1
            if _is_checked_by_the_log(error):
                response.log_start_offset = log_start_offset
            pending = _Pending(response)
        await self._context.pace(PARTITION_UNITS + len(records) + self._unpacked_at_once)
        return pending

    async def _append_mirrored(
        self, topic: TopicProduceData, data: PartitionProduceData, records: Buffer
    ) -> _Pending:
        """To a mirror: its link's batches, or nothing. Checked in a thread, since there may be many."""
        partition, log = self._leader(topic, data)
        frame = unpack(records) if is_frame(records) else None
        check_sender(log, partition.name, frame)
        assert frame is not None
        if self._acks != ACKS_ALL:
            raise errors.InvalidRequiredAcks("a mirror writes with acks=all")
        limit, batches = unpacked_bytes_max(log.config), frame.batches
        if len(batches) > UNPACKED_AT_ONCE_MAX or is_compressed(batches):
            await self._context.heavy_work.run(lambda: validate_batches(batches, limit=limit))
            partition, log = self._leader(topic, data)  # much may have happened
            check_sender(log, partition.name, frame)
        else:
            validate_batches(batches, limit=limit)
        end = partition.append_mirrored(frame, now_ms=self._context.clock.now_ms())
        response = PartitionProduceResponse(
            index=data.index, base_offset=end, log_start_offset=log.log_start_offset, log_append_time_ms=-1
        )
        return _Pending(response, partition, end, partition.tenure)

    def _accept_known(self, contract: "Contract", topic: str, records: Buffer, log: Log) -> Accepted | None:
        """Without a wait, where ids are all that is checked and all of them are known. None if not."""
        from ottla.broker.contracts.checks import UnknownSchemas

        check = self._context.contracts.check_at_once(topic, contract)
        if check is None or check.is_full:
            return None
        unpacked_bytes = self._unpacked_bytes
        try:
            return self._accept_at_once(records, log, check)
        except UnknownSchemas:
            self._unpacked_bytes = unpacked_bytes  # it is not counted twice
            return None

    async def _accept_by(self, contract: "Contract", topic: str, records: Buffer, log: Log) -> Accepted:
        """The records must have schemas. Before one that is not known is refused, the registry's topic is read on."""
        from ottla.broker.contracts.checks import UnknownSchemas

        contracts, unpacked_bytes = self._context.contracts, self._unpacked_bytes
        check = await contracts.check_of(topic, contract)
        try:
            accepted = await self._accept(records, log, check)
        except UnknownSchemas:
            self._unpacked_bytes = unpacked_bytes  # it is not counted twice
            await contracts.catch_up()
            check = await contracts.check_of(topic, contract)
            accepted = await self._accept(records, log, check)
        if check.is_full:
            await contracts.check_in_full(check)
        return accepted

    async def _accept(self, records: Buffer, log: Log, check: "BatchCheck") -> Accepted:
        """A full check keeps the records for longer than the shared scratch memory holds them: it goes to a thread."""
        if not check.is_full:
            accepted = self._accept_at_once(records, log, check)
            if accepted is not None:
                return accepted
        return await self._accept_in_thread(records, log, check)

    def _check_writer(self, partition: Partition, log: Log) -> None:
        """A topic may have one writer: the coordinator fences all but the last holder of its transactional id."""
        writer = log.config.writer_transactional_id
        if writer and self._request.transactional_id != writer:
            raise errors.PolicyViolation(
                f"{partition.name} is written only in transactions of {writer!r} (ottla.writer.transactional.id)"
            )

    def _leader(self, topic: TopicProduceData, data: PartitionProduceData) -> tuple[Partition, Log]:
        name = topic.name or self._context.metadata.topic_name(topic.topic_id)
        if self._acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            raise errors.InvalidRequiredAcks()
        if (name, data.index) in self._twice:
            raise errors.InvalidRequest("The request has several entries for this partition")
        if self._admission is not None:
            self._admission.check((name, data.index))
        _check_writable(name, self._context)
        partition = self._context.replicas.partition(name, data.index)
        log = partition.leader_log()
        if self._acks == ACKS_ALL:
            partition.check_enough_replicas(log)
        return partition, log

    def _accept_at_once(
        self, records: Buffer, log: Log, check: "BatchCheck | None" = None
    ) -> Accepted | None:
        """None when it takes too long for the loop."""
        at_once_max = PACKED_AT_ONCE_MAX if is_recompressed(records, log.config) else UNPACKED_AT_ONCE_MAX
        if len(records) > at_once_max and len(records) <= log.config.max_message_bytes:
            return None
        allowed = self._allowed(log)
        if not allowed and is_compressed(records):
            raise self._too_much(log, allowed)  # to begin with it takes its time, and memory
        limit, scratch = min(allowed, at_once_max), self._context.scratch
        scratch.unpacked_bytes = 0
        try:
            now_ms = self._context.clock.now_ms()
            return accept(records, log.config, now_ms, limit=limit, scratch=scratch, check=check)
        except OverLimit as error:
            if allowed > limit:
                self._unpacked_bytes -= scratch.unpacked_bytes  # the thread counts all of it
                return None
            raise self._too_much(log, allowed) from error
        finally:
            self._unpacked_at_once = scratch.unpacked_bytes
            self._unpacked_bytes += scratch.unpacked_bytes

    async def _accept_in_thread(
        self, records: Buffer, log: Log, check: "BatchCheck | None" = None
    ) -> Accepted:
        allowed, now_ms, scratch = self._allowed(log), self._context.clock.now_ms(), Scratch()
        try:
            return await self._context.heavy_work.run(
                lambda: accept(records, log.config, now_ms, limit=allowed, scratch=scratch, check=check)
            )
        except OverLimit as error:
            raise self._too_much(log, allowed) from error
        finally:
            self._unpacked_bytes += scratch.unpacked_bytes

    def _allowed(self, log: Log) -> int:
        """What the next batch may decompress to. The first one has only the bound of a batch."""
        of_batch = unpacked_bytes_max(log.config)
        if not self._unpacked_bytes:
            return of_batch
        return max(min(of_batch, self._allowed_in_all - self._unpacked_bytes), 0)

    @cached_property
    def _allowed_in_all(self) -> int:
        sent_bytes = sum(
            len(data.records or b"") for topic in self._request.topic_data for data in topic.partition_data
        )
        least = self._context.config.ottla_batch_uncompressed_max_bytes
        return max(least, UNPACKED_RATIO_MAX * sent_bytes)

    def _too_much(self, log: Log, allowed: int) -> errors.ProtocolError:
        if allowed < unpacked_bytes_max(log.config):
            return errors.MessageTooLarge(
                f"The batches of the request decompress to more than {self._allowed_in_all} bytes in all"
            )
        return OverLimit(f"The data decompresses to more than {allowed} bytes")

    def _write(
        self,
        partition: Partition,
        log: Log,
        topic: TopicProduceData,
        data: PartitionProduceData,
        accepted: Accepted,
    ) -> _Pending:
        key = topic.name or self._context.metadata.topic_name(topic.topic_id), data.index
        if self._admission is not None:
            self._admission.check_batch(key, accepted.header)
        elif accepted.header.is_transactional:
            raise errors.InvalidTxnState("the coordinator was not asked about the batch")
        if log.config.writer_transactional_id and not accepted.header.is_transactional:
            raise errors.PolicyViolation(f"{partition.name} is written only in transactions")
        appended = partition.append(accepted, acks=self._acks, now_ms=accepted.now_ms)
        if self._admission is not None:
            self._admission.on_appended(key)
        response = PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=log.log_start_offset,
        )
        return _Pending(response, partition, appended.next_offset, partition.tenure)

    def _failed(
        self, index: int, error: errors.ProtocolError, topic: TopicProduceData
    ) -> PartitionProduceResponse:
        response = PartitionProduceResponse(
            index=index, error_code=error.code, base_offset=-1, error_message=error.message
        )
        if isinstance(error, RejectedRecords | RejectedTimestamps):
            shown = error.record_errors[: self._record_errors_left]
            self._record_errors_left -= len(shown)
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
                for at, message in shown
                if at >= 0
            ]
        if isinstance(error, errors.NotLeaderOrFollower):
            leader, epoch = current_leader(self._context, topic.name or topic.topic_id, index)
            response.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        return response


def _is_checked_by_the_log(error: errors.ProtocolError) -> bool:
    """Whether Kafka would refuse after it opened the log: then the answer has the log's start offset."""
    if isinstance(error, errors.CorruptMessage):
        return not isinstance(error, CorruptBatch)  # its records cannot be unpacked
    return isinstance(error, CHECKED_BY_THE_LOG) and not isinstance(error, NotOneBatch)


async def _settle(pending: _Pending, deadline_ms: int, context: Context) -> None:
    """acks=all: waits until every in-sync replica has the batch, or the time is up. The batch stays in the log."""
    partition = pending.partition
    if partition is None:
        return
    waiters, next_offset = partition.committed, pending.next_offset
    try:
        while not partition.is_committed(next_offset, pending.tenure):
            # Woken by the high watermark, or by a change of leadership.
            if not await woken(context.clock, deadline_ms, lambda wake: [waiters.add(next_offset, wake)]):
                raise errors.RequestTimedOut()
    except Exception as failure:
        error = protocol_error(failure, f"waiting for the replicas of {partition.name}")
        pending.response.error_code = error.code
        pending.response.error_message = error.message
        pending.response.base_offset = -1


def _close_on_error(request: ProduceRequest, pending: list[list[_Pending]]) -> None:
    """Nobody reads an answer to acks=0: closing makes the client look up the leaders."""
    for topic, of_topic in zip(request.topic_data, pending, strict=True):
        for partition in of_topic:
            response = partition.response
            if response.error_code:
                raise CloseConnection(
                    f"acks=0 and {topic.name}-{response.index} failed: {response.error_message}"
                )


def _endpoints(responses: list[TopicProduceResponse], context: Context) -> list[NodeEndpoint]:
    leaders = {
        partition.current_leader.leader_id for topic in responses for partition in topic.partition_responses
    }
    return [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints_of(context, leaders - {-1})
    ]
