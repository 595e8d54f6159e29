"""`TransactionOwner`: the only process that can write under its transactional id, until the next one takes over."""

from collections.abc import Iterable, Mapping

from ottla import errors
from ottla.client.columnar.producer import ColumnarProducer
from ottla.client.core.offsets import committed
from ottla.client.exactly_once.ender import OpenTransaction
from ottla.client.exactly_once.markers import Marker, place_of
from ottla.client.producer import Producer
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition


class TransactionOwner(ColumnarProducer):
    """`take_over` first. Then `write`, and `commit` with the positions of the records that were read for it."""

    def take_over(self, *, ended_elsewhere: bool = False) -> OpenTransaction:
        """Aborts what the previous owner left open, fences that owner, and begins a transaction.

        May be called again, for each attempt. `ended_elsewhere`: a `TransactionEnder` is to end the transaction.
        """
        self._drop_gathered()
        transactions = self._transactions
        # The second generation ends a transaction with a new epoch, which only the writer itself would learn.
        transactions.generation_max = 1 if ended_elsewhere else 2
        transactions.open = False
        self._engine.run(transactions.init())
        transactions.begin()
        return OpenTransaction(transactions.id, transactions.producer)

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions and their metadata, of some partitions or all; only what has a commit.

        Waits until no open transaction can change them. A fenced owner's transaction cannot: `take_over` aborted it.
        """
        return self._engine.run(committed(self._cluster, group, partitions, require_stable=True))

    def marker(self, group: str, topic: str) -> Marker | None:
        place = place_of(topic)
        position = self.committed(group, [place]).get(place)
        return None if position is None else Marker.read(position.metadata)

    def commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commits all rows with the positions, and begins the next transaction.

        With `consumer.group_metadata()` for a group, a member that has lost its partitions cannot commit them.
        """
        self.flush()
        self.send_offsets_to_transaction(positions, group)
        self.commit_transaction()
        self.begin_transaction()

    def abandon(self) -> None:
        """Drops what is not sent. The transaction stays as it is at the broker."""
        self._drop_gathered()
        self._engine.run(self._drop(errors.OperationNotAttempted("the rows were given up")))
        Producer.flush(self)  # whose futures tell what failed: the rows are given up anyhow
        self._outcomes.failures.clear()

    def abort(self) -> None:
        """Gives up the rows and the transaction they belong to."""
        self.abandon()
        if self._transactions.open:
            self.abort_transaction()
