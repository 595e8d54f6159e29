"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    __slots__ = ('transactional_ids',)
    FLEXIBLE_FROM = 0
    API_KEY = 65
    VERSIONS = (0, 0)
    FIELDS = (
        Field('transactional_ids', 'string', '0', array=True),
    )

    def __init__(
        self,
        *,
        transactional_ids: list[str] | None = None,
    ) -> None:
        self.transactional_ids: list[str] = [] if transactional_ids is None else transactional_ids


class TopicData(Message):
    __slots__ = ('topic', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic', 'string', '0'),
        Field('partitions', 'int32', '0', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is None else partitions


class TransactionState(Message):
    __slots__ = ('error_code', 'transactional_id', 'transaction_state', 'transaction_timeout_ms', 'transaction_start_time_ms', 'producer_id', 'producer_epoch', 'topics')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('error_code', 'int16', '0'),
        Field('transactional_id', 'string', '0'),
        Field('transaction_state', 'string', '0'),
        Field('transaction_timeout_ms', 'int32', '0'),
        Field('transaction_start_time_ms', 'int64', '0'),
        Field('producer_id', 'int64', '0'),
        Field('producer_epoch', 'int16', '0'),
        Field('topics', TopicData, '0', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.transactional_id: str = transactional_id
        self.transaction_state: str = transaction_state
        self.transaction_timeout_ms: int = transaction_timeout_ms
        self.transaction_start_time_ms: int = transaction_start_time_ms
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.topics: list[TopicData] = [] if topics is None else topics


class DescribeTransactionsResponse(Message):
    __slots__ = ('throttle_time_ms', 'transaction_states')
    FLEXIBLE_FROM = 0
    API_KEY = 65
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('transaction_states', TransactionState, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[TransactionState] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.transaction_states: list[TransactionState] = [] if transaction_states is None else transaction_states
