"""Who a producer is: its producer id and epoch, and whether it may send at all."""

from collections.abc import Callable, Iterable

from ottla.client.core.accumulator import Admission, Queue, always
from ottla.client.core.cluster import Cluster
from ottla.client.core.deliveries import Batch
from ottla.client.core.dialogue import check
from ottla.client.settings import ProducerSettings
from ottla.client.values import TopicPartition
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

NOBODY = (-1, -1)
EPOCH_MAX = 32766


class Identity:
    """A producer id from the cluster, and for every partition an epoch: a new one when its sequences cannot go on."""

    transactional = False
    produce_version_max = 32767

    def __init__(self, cluster: Cluster, queues: Callable[[], Iterable[Queue]] = tuple) -> None:
        assert isinstance(cluster.settings, ProducerSettings)
        self._cluster = cluster
        self._queues = queues  # whose sequences it knows; none where another process sends
        self.producer = NOBODY
        self.failed: Exception | None = None
        self._needs_id = cluster.settings.idempotent

    @property
    def wanted(self) -> bool:
        """Whether a producer id must be asked for."""
        return self._needs_id

    @property
    def missing_partitions(self) -> bool:
        return False

    @property
    def is_ready(self) -> bool:
        """Whether batches may be sent now."""
        return not self._needs_id

    def may_send(self, partition: TopicPartition) -> bool:
        return True

    def admission(self) -> Admission:
        """For a record that is being sent: raises when the record may no longer be taken."""
        return always

    def producer_of(self, queue: Queue) -> tuple[int, int]:
        """Under which producer id and epoch the queue's next sequence counts."""
        if queue.producer == NOBODY:
            queue.producer = self.producer
        return queue.producer

    def begin_epoch(self, queue: Queue) -> bool:
        """Begins the queue's sequences again. False: its epochs are used up, and it must wait for a new producer id.

        Leaders keep epochs by partition, so other partitions stay in theirs. If they had to follow, a batch whose
        answer was lost would be sent under an epoch in which its leader does not recognize it, and be written twice.
        """
        producer_id, epoch = queue.producer
        if epoch < EPOCH_MAX:
            queue.restart((producer_id, epoch + 1))
        elif producer_id != self.producer[0]:
            queue.restart(self.producer)
        else:
            self._needs_id = True
            return False
        return True

    def on_batch_failed(self, queue: Queue, batch: Batch, error: Exception) -> None:
        """A batch was given up or refused for good."""
        if batch.sequence >= 0:
            queue.miss(batch)

    async def renew(self) -> None:
        answer = await self._cluster.ask(init_request(None, 0))
        check(answer)
        self.producer = (answer.producer_id, answer.producer_epoch)
        self._needs_id = False

    async def add_partitions(self) -> None:
        """Only a transaction has partitions to register: see `Transactions`."""


def init_request(transactional_id: str | None, timeout_ms: int) -> InitProducerIdRequest:
    request = InitProducerIdRequest(transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1)
    request.transactional_id = transactional_id
    return request
