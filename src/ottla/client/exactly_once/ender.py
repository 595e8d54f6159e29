"""Ends transactions that other processes have written and left open, many of them at once."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla import errors
from ottla.client.core.transactions import Transactions
from ottla.client.errors import TimedOut
from ottla.client.session import Session
from ottla.client.settings import ProducerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError

T = TypeVar("T")
# The transaction is no longer this owner's, or no longer open: it timed out, or another owner took over.
FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch, errors.InvalidTxnState)


class OpenTransaction(NamedTuple):
    """All that another process needs to end a transaction."""

    transactional_id: str
    producer: tuple[int, int]  # id and epoch


class TransactionEnder:
    """One for each process and cluster; transactions of any number share its connections."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._session = Session("transaction ender", settings)
        self.cluster = self._session.cluster()

    def commit(
        self,
        transactions: Sequence[OpenTransaction],
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        *,
        group_of: Callable[[str], str] = str,
    ) -> None:
        """All offsets first, then the ends: what can go wrong should do so before anything is visible.

        The first transaction is committed before the others. If it is not committed, none is.
        `offsets` go with every transaction, for the group that `group_of` makes of its transactional id.
        """
        self._session.run(self._commit(transactions, offsets or {}, group_of))

    def abort(self, transactions: Sequence[OpenTransaction]) -> None:
        """As far as it works: what stays open is aborted by the next owner, or times out."""
        self._session.run(self._abort(transactions))

    def take_over(self, transactional_ids: Sequence[str]) -> None:
        """Aborts what the owners of these ids left open, and fences them."""
        self._session.run(self._take_over(transactional_ids))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for other work with the ender's cluster."""
        return self._session.run(work)

    def close(self) -> None:
        self._session.close()

    async def _commit(
        self,
        transactions: Sequence[OpenTransaction],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_of: Callable[[str], str],
    ) -> None:
        resumed = [self._resume(open_transaction) for open_transaction in transactions]
        gather = self.cluster.runtime.gather
        _raise_first(
            await gather(
                [_add_offsets(transaction, offsets, group_of(transaction.id)) for transaction in resumed]
            )
        )
        for together in (resumed[:1], resumed[1:]):
            _raise_first(await gather([transaction.end(committed=True) for transaction in together]))

    async def _take_over(self, transactional_ids: Sequence[str]) -> None:
        starts = [
            Transactions(self.cluster, transactional_id=transactional_id).init()
            for transactional_id in transactional_ids
        ]
        _raise_first(await self.cluster.runtime.gather(starts))

    async def _abort(self, transactions: Sequence[OpenTransaction]) -> None:
        ends = [self._resume(open_transaction).end(committed=False) for open_transaction in transactions]
        outcomes = await self.cluster.runtime.gather(ends)
        _raise_first([outcome for outcome in outcomes if not isinstance(outcome, OttlaError)])

    def _resume(self, open_transaction: OpenTransaction) -> Transactions:
        transactions = Transactions(self.cluster, transactional_id=open_transaction.transactional_id)
        transactions.resume(open_transaction.producer)
        return transactions


async def _add_offsets(
    transactions: Transactions, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: str
) -> None:
    try:
        await transactions.send_offsets(offsets, GroupMetadata(group))
    except TimedOut as error:
        raise TimedOut(f"the marker of {transactions.id} could not be written: {error}") from error


def _raise_first(outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
