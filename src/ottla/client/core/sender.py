"""Takes batches to their leaders: in order, retried, each until it is acknowledged, refused or too late."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla import errors
from ottla.client.core.accumulator import Accumulator, Queue
from ottla.client.core.cluster import Cluster
from ottla.client.core.deliveries import Batch
from ottla.client.core.identity import Identity
from ottla.client.core.metrics import ProducerCounts
from ottla.client.core.retries import STALE_METADATA, is_retriable
from ottla.client.core.rounds import Rounds
from ottla.client.core.runtime import Connection, Task
from ottla.client.errors import TimedOut
from ottla.client.settings import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError, error_for
from ottla.ports import Buffer
from ottla.wire import compression
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

IDLE_S = 0.2  # how long the sender sleeps at most: expiry needs a look now and then


class Sender(Rounds):
    """One task on the loop; each request in flight is another."""

    def __init__(self, cluster: Cluster, accumulator: Accumulator[Any], identity: Identity) -> None:
        assert isinstance(cluster.settings, ProducerSettings)
        super().__init__(cluster.runtime, "sender", failure_pause_s=0.1)
        self._settings = cluster.settings
        self._cluster = cluster
        self._accumulator = accumulator
        self._identity = identity
        self._codec = compression.NAMES.index(self._settings.compression_type)
        self.wake_requested = False  # a wake is on its way: callers need not send another
        self._in_flight: dict[int, int] = {}
        self.counts = ProducerCounts()
        self._busy: set[object] = set()  # what is being looked up or connected to at the moment

    def wake(self) -> None:
        self.wake_requested = False
        self._wake.set()

    def send_now(self) -> None:
        """As `wake`, but in this turn of the loop: what the caller sends next follows in the same packet."""
        self._try_to_pump()

    @property
    def in_flight(self) -> int:
        return sum(self._in_flight.values())

    def fail_waiting(self, error: Exception, *, unsent_only: bool = False) -> None:
        """Drops all that is not on the wire (a transaction was given up, or the producer closed).

        `unsent_only`: not what must be sent again. The broker may have it already, and knows its sequence or
        waits for it: without it the next transaction would not fit behind this one.
        """
        for queue, batch in self._accumulator.waiting_batches():
            if not (unsent_only and batch.sequence >= 0):
                queue.waiting.remove(batch)
                self._settle(batch, error)

    # -- one round ---------------------------------------------------------------------------------

    def _pump(self) -> float:
        """Sends what can be sent; how long nothing needs a look."""
        now_ms = self._now_ms()
        due_ms = self._accumulator.close_due(now_ms)
        self._expire(now_ms)
        if self._identity.failed is not None:
            self.fail_waiting(self._identity.failed)
        elif self._identity.is_ready:
            while self._send_round(now_ms):
                pass
        elif self._identity.wanted:
            self._once("identity", self._identity.renew)
        held = [
            q.not_before_ms for q in self._accumulator.all_queues() if q.waiting and q.not_before_ms > now_ms
        ]
        soonest_ms = min(held if due_ms is None else [*held, due_ms], default=None)
        return IDLE_S if soonest_ms is None else max(0.0, min(IDLE_S, (soonest_ms - now_ms) / 1000))

    def _send_round(self, now_ms: int) -> bool:
        """At most one batch of every partition; whether another round may find more."""
        sent = False
        for node, ready in self._by_leader(now_ms).items():
            sent = self._send_to(node, ready) or sent
        return sent

    def _expire(self, now_ms: int) -> None:
        limit_ms = self._settings.delivery_timeout_ms
        for queue in self._accumulator.all_queues():
            while queue.waiting and now_ms - queue.waiting[0].created_ms >= limit_ms:
                batch = queue.waiting.popleft()
                text = f"{batch.partition}: not acknowledged within delivery.timeout.ms={limit_ms}"
                trouble = self._cluster.troubles.last
                self._give_up(queue, batch, TimedOut(f"{text}; last: {trouble}" if trouble else text))

    def _give_up(self, queue: Queue, batch: Batch, error: Exception) -> None:
        self._identity.on_batch_failed(queue, batch, error)
        self._settle(batch, error)

    def _by_leader(self, now_ms: int) -> dict[int, list[tuple[Queue, Batch]]]:
        groups: dict[int, list[tuple[Queue, Batch]]] = {}
        for partition, queue in self._accumulator.queues.copy().items():
            if not queue.waiting or not self._identity.may_send(partition):
                continue
            try:
                node = self._cluster.image.leader_of(*partition).leader
            except OttlaError:
                self._once(partition.topic, partial(self._cluster.refresh, [partition.topic]))
                continue
            if queue.needs_epoch and not self._identity.begin_epoch(queue):
                continue
            batch = queue.next_batch(now_ms, node, self._settings.in_flight)
            if batch is not None:
                groups.setdefault(node, []).append((queue, batch))
        if self._identity.missing_partitions:
            self._once("partitions", self._identity.add_partitions)
        return groups

    def _send_to(self, node: int, ready: list[tuple[Queue, Batch]]) -> bool:
        """Sends at most one batch of each partition; whether anything left."""
        connection = self._cluster.open_connection(node)
        if connection is None:
            topics = {batch.partition.topic for _, batch in ready}
            self._once(node, lambda: self._cluster.reach(node, topics))
            return False
        size = 0
        sent: list[tuple[Queue, Batch]] = []
        for queue, batch in ready:
            if self._in_flight.get(node, 0) >= self._settings.in_flight and self._settings.required_acks:
                break
            try:
                data = self._encode(queue, batch)
            except Exception as error:  # a value that no encoder takes must not hold up the others
                queue.waiting.remove(batch)
                self._give_up(queue, batch, error)
                continue
            if sent and size + len(data) > self._settings.max_request_size:
                self._start(node, connection, sent)
                sent, size = [], 0
            queue.sent(batch, node)
            sent.append((queue, batch))
            size += len(data)
        if sent:
            self._start(node, connection, sent)
        return bool(sent) and connection.is_open

    def _encode(self, queue: Queue, batch: Batch) -> Buffer:
        """Bytes with a sequence. Both stay for every try: by them a leader recognizes what it has appended already."""
        if batch.data is not None:
            return batch.data
        is_new = batch.sequence < 0  # halves of a batch that was too large have its sequences
        if is_new:
            batch.producer = self._identity.producer_of(queue)
            batch.sequence = queue.next_sequence if batch.producer[0] >= 0 else -1
        try:
            batch.data = batch.encode(
                self._codec, self._settings.level, transactional=self._identity.transactional
            )
        except Exception:
            if is_new:
                batch.sequence = -1  # the next batch takes it: brokers accept no gap
            raise
        if is_new and batch.sequence >= 0:
            queue.next_sequence = (queue.next_sequence + len(batch.rows)) & 0x7FFFFFFF
        return batch.data

    # -- one request -------------------------------------------------------------------------------

    def _start(self, node: int, connection: Connection, sent: list[tuple[Queue, Batch]]) -> None:
        request = self._request(sent)
        try:
            at_most = self._identity.produce_version_max
            version = connection.dialogue.version_for(ProduceRequest, at_most=at_most)
            if not self._settings.required_acks:
                connection.tell(request, version)
                for queue, batch in sent:
                    queue.in_flight.remove(batch)
                    self._settle(batch, None)
                return
            timeout_ms = self._settings.request_timeout_ms
            answer = connection.send(request, version, timeout_ms=timeout_ms)
        except OttlaError as error:
            for queue, batch in sent:
                self._on_error(queue, batch, error)
            return
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        self._spawn(self._finish(node, answer, sent))

    def _request(self, sent: list[tuple[Queue, Batch]]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for _, batch in sent:
            name, index = batch.partition
            if name not in topics:
                topics[name] = TopicProduceData(name=name, topic_id=self._cluster.image.topics[name].id)
            topics[name].partition_data.append(PartitionProduceData(index=index, records=batch.data))
        return ProduceRequest(
            transactional_id=self._settings.transactional_id,
            acks=self._settings.required_acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    async def _finish(
        self, node: int, answer: Task[ProduceResponse], sent: list[tuple[Queue, Batch]]
    ) -> None:
        pending = {batch.partition: (queue, batch) for queue, batch in sent}
        failure: OttlaError = errors.UnknownServerError("the broker did not answer for this partition")
        begun = self._runtime.now()
        try:
            produced = await answer
            self._count_throttle(produced.throttle_time_ms)
            self._cluster.image.add_brokers(produced.node_endpoints)
            for topic in produced.responses:
                name = topic.name or self._cluster.image.names.get(topic.topic_id, "")
                for response in topic.partition_responses:
                    batch_sent = pending.pop(TopicPartition(name, response.index), None)
                    if batch_sent is None:
                        continue
                    if response.error_code in (0, errors.DuplicateSequenceNumber.code):
                        self._done(*batch_sent, response.base_offset, response.log_append_time_ms)
                    else:
                        hint = response.current_leader
                        moved = self._cluster.image.moved(
                            batch_sent[1].partition, hint.leader_id, hint.leader_epoch
                        )
                        self._on_error(*batch_sent, _refusal(batch_sent[1].partition, response), moved=moved)
        except OttlaError as error:
            failure = error
        finally:
            self._in_flight[node] -= 1
            self._count_answer((self._runtime.now() - begun) * 1000)
            for queue, batch in pending.values():
                self._on_error(queue, batch, failure)
            self._wake.set()

    def _done(self, queue: Queue, batch: Batch, base_offset: int, log_append_time_ms: int | None) -> None:
        queue.in_flight.remove(batch)
        queue.is_known = True
        self._count_batch(batch)
        batch.succeed(base_offset, log_append_time_ms)
        self._accumulator.settled(batch)

    def _count_answer(self, took_ms: float) -> None:
        counts = self.counts
        counts.requests += 1
        counts.latency_ms += took_ms
        counts.latency_max_ms = max(counts.latency_max_ms, took_ms)

    def _count_throttle(self, throttle_ms: int) -> None:
        self.counts.throttle_ms += throttle_ms
        self.counts.throttle_max_ms = max(self.counts.throttle_max_ms, throttle_ms)

    def _on_error(self, queue: Queue, batch: Batch, error: OttlaError, *, moved: bool = False) -> None:
        """`moved`: the refusal has told who leads now, so the batch need not wait."""
        behind_another = queue.is_behind_another(batch)
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        if not moved:
            self._cluster.forget_stale(error)
        if isinstance(error, STALE_METADATA) and not moved:
            self._once(batch.partition.topic, lambda: self._cluster.refresh([batch.partition.topic]))
        if isinstance(error, errors.MessageTooLarge) and len(batch.rows) > 1:
            self._accumulator.split(queue, batch)
        elif self._may_retry(queue, batch, error, behind_another):
            if isinstance(error, errors.OutOfOrderSequenceNumber) and not behind_another:
                queue.is_stuck = True
            batch.attempts += 1
            self.counts.retries += len(batch.rows)
            queue.put_back(batch)
            queue.not_before_ms = 0 if moved else self._now_ms() + self._pause_ms(batch.attempts)
        else:
            self._give_up(queue, batch, error)

    def _may_retry(self, queue: Queue, batch: Batch, error: OttlaError, behind_another: bool) -> bool:
        if batch.attempts >= self._settings.retries or self._identity.failed is not None:
            return False
        if batch.sequence >= 0 and isinstance(error, errors.OutOfOrderSequenceNumber):
            # The batch before it comes again, and this one after it; or that one never comes, and this one goes under a
            # new epoch: what is refused for a missing sequence was not appended, nor was anything behind it.
            return behind_another or queue.is_behind_missing(batch)
        return is_retriable(error)

    def _pause_ms(self, attempts: int) -> int:
        backoff = self._cluster.backoff()
        backoff.attempts = attempts - 1
        return int(backoff.next_ms())

    def _settle(self, batch: Batch, error: Exception | None) -> None:
        if error is None:
            self._count_batch(batch)
            batch.succeed(-1, None)
        else:
            self.counts.errors += len(batch.rows)
            batch.fail(error)
        self._accumulator.settled(batch)

    def _count_batch(self, batch: Batch) -> None:
        self.counts.records += len(batch.rows)
        self.counts.batches += 1
        self.counts.batch_bytes += len(batch.data or b"")

    def _once(self, key: object, work: Callable[[], object]) -> None:
        """Starts `work` unless it is under way; a failure is waited out and tried again by a later round."""
        if key in self._busy:
            return
        self._busy.add(key)

        async def run() -> None:
            try:
                await work()  # type: ignore[misc]
            except OttlaError as error:
                self._cluster.troubles.report(error, "records are waiting to be sent")
                await self._runtime.sleep(self._settings.retry_backoff_ms / 1000)
            finally:
                self._busy.discard(key)
                self._wake.set()

        self._spawn(run())

    def _now_ms(self) -> int:
        return int(self._runtime.now() * 1000)


def _refusal(partition: TopicPartition, response: PartitionProduceResponse) -> OttlaError:
    """The broker's error with all that it says: which records, and why."""
    code, text = response.error_code, response.error_message
    details = [
        f"record {failed.batch_index}: {failed.batch_index_error_message}"
        for failed in response.record_errors
    ]
    parts = [text or errors.NAMES.get(code, str(code)), *details[:5]]
    return error_for(code, f"{partition}: " + "; ".join(parts))
