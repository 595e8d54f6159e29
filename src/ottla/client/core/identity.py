"""Who a producer is: its producer id and epoch, and whether it may send at all."""

from collections.abc import Callable, Iterable

from ottla.client.core.accumulator import Queue
from ottla.client.core.cluster import Cluster
from ottla.client.core.dialogue import check
from ottla.client.settings import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

NOBODY = (-1, -1)
EPOCH_MAX = 32766


class Identity:
    """A producer id from the cluster, a new epoch whenever sequences cannot go on."""

    transactional = False
    produce_version_max = 32767

    def __init__(self, cluster: Cluster, queues: Callable[[], Iterable[Queue]] = tuple) -> None:
        assert isinstance(cluster.settings, ProducerSettings)
        self._cluster = cluster
        self._queues = queues  # whose sequences it knows; none where another process sends
        self.producer = NOBODY
        self.failed: Exception | None = None
        self._needs_id = cluster.settings.idempotent
        self._needs_epoch = False

    @property
    def wanted(self) -> bool:
        """Whether a producer id must be asked for."""
        return self._needs_id

    @property
    def missing_partitions(self) -> bool:
        return False

    def ready(self, in_flight: int) -> bool:
        """Whether batches may be sent now. A new epoch begins when nothing of the old one is on the wire."""
        if self._needs_epoch and not in_flight:
            self._needs_epoch = False
            self._restart_sequences(same_id=self.producer[1] < EPOCH_MAX)
            if self.producer[1] < EPOCH_MAX:
                self.producer = (self.producer[0], self.producer[1] + 1)
            else:
                self._needs_id = True
        return not self._needs_id and not self._needs_epoch

    def may_send(self, partition: TopicPartition) -> bool:
        return True

    def sequence_lost(self) -> None:
        """A batch with a sequence was given up: what follows needs a new epoch."""
        self._needs_epoch = True

    def on_batch_failed(self, error: Exception, producer: tuple[int, int]) -> None:
        if producer == self.producer:
            self.sequence_lost()

    async def renew(self) -> None:
        answer = await self._cluster.ask(init_request(None, 0))
        check(answer)
        self.producer = (answer.producer_id, answer.producer_epoch)
        self._needs_id = False

    async def add_partitions(self) -> None:
        raise NotImplementedError

    def _restart_sequences(self, *, same_id: bool) -> None:
        """Under a new epoch; leaders that knew the producer take nothing but its beginning."""
        for queue in self._queues():
            queue.next_sequence = 0
            queue.is_known = queue.is_known and same_id
            queue.retrying = False
            for batch in list(queue.waiting):
                batch.sequence = -1
                batch.data = None


def init_request(transactional_id: str | None, timeout_ms: int) -> InitProducerIdRequest:
    request = InitProducerIdRequest(transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1)
    request.transactional_id = transactional_id
    return request
