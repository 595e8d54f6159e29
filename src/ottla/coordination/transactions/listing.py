"""DescribeTransactions and ListTransactions, for tools that look for hanging transactions."""

from collections.abc import Callable, Iterable

from ottla.coordination.transactions.records import by_topic
from ottla.coordination.transactions.transaction import BY_TITLE, TopicPartition, Transaction
from ottla.errors import InvalidRegularExpression, InvalidRequest, TransactionalIdNotFound
from ottla.patterns import BadPattern, compile_pattern
from ottla.wire.messages import describe_transactions, list_transactions
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

PATTERN_BYTES_MAX = 8 << 20  # compiled; it may name many ids


def describe(
    transactional_id: str, transaction: Transaction | None, missing: Iterable[TopicPartition]
) -> describe_transactions.TransactionState:
    """Of a transaction that is being completed, only the partitions without a marker are listed."""
    if not transactional_id:
        return _not_described(transactional_id, InvalidRequest.code)
    if transaction is None:
        return _not_described(transactional_id, TransactionalIdNotFound.code)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(missing).items()
        ],
    )


def list_matching(
    transactions: Iterable[Transaction], request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """Filters a shard's transactions. A state that is not known matches none, and is named in the answer."""
    try:
        matches_id = _id_filter(request.transactional_id_pattern)
    except InvalidRegularExpression as error:
        return ListTransactionsResponse(error_code=error.code)
    states = {BY_TITLE[title] for title in request.state_filters if title in BY_TITLE}
    producer_ids = set(request.producer_id_filters)
    matching = [
        transaction
        for transaction in transactions
        if (not request.state_filters or transaction.state in states)
        and (not producer_ids or transaction.producer_id in producer_ids)
        and (request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter)
        and matches_id(transaction.transactional_id)
    ]
    return ListTransactionsResponse(
        unknown_state_filters=[title for title in request.state_filters if title not in BY_TITLE],
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.title,
            )
            for transaction in matching
        ],
    )


def merged(responses: Iterable[ListTransactionsResponse]) -> ListTransactionsResponse:
    """The answer of a broker from those of its shards; an error of one is the answer of all."""
    whole = ListTransactionsResponse()
    for response in responses:
        if response.error_code:
            return response
        whole.unknown_state_filters = response.unknown_state_filters
        whole.transaction_states.extend(response.transaction_states)
    return whole


def _id_filter(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda _: True
    try:
        compiled = compile_pattern(pattern, PATTERN_BYTES_MAX)
    except BadPattern as error:
        raise InvalidRegularExpression(str(error)) from None
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None


def _not_described(transactional_id: str, code: int) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(transactional_id=transactional_id, error_code=code)
