"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class AddPartitionsToTxnTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('name', 'string', '0-5'),
        Field('partitions', 'int32', '0-5', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[int] = [] if partitions is None else partitions


class AddPartitionsToTxnTransaction(Message):
    __slots__ = ('transactional_id', 'producer_id', 'producer_epoch', 'verify_only', 'topics')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('transactional_id', 'string', '4-5'),
        Field('producer_id', 'int64', '4-5'),
        Field('producer_epoch', 'int16', '4-5'),
        Field('verify_only', 'bool', '4-5'),
        Field('topics', AddPartitionsToTxnTopic, '4-5', array=True),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.verify_only: bool = verify_only
        self.topics: list[AddPartitionsToTxnTopic] = [] if topics is None else topics


class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    __slots__ = ('transactions', 'v3_and_below_transactional_id', 'v3_and_below_producer_id', 'v3_and_below_producer_epoch', 'v3_and_below_topics')
    FLEXIBLE_FROM = 3
    API_KEY = 24
    VERSIONS = (0, 5)
    FIELDS = (
        Field('transactions', AddPartitionsToTxnTransaction, '4-5', array=True),
        Field('v3_and_below_transactional_id', 'string', '0-3'),
        Field('v3_and_below_producer_id', 'int64', '0-3'),
        Field('v3_and_below_producer_epoch', 'int16', '0-3'),
        Field('v3_and_below_topics', AddPartitionsToTxnTopic, '0-3', array=True),
    )

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] | None = None,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] | None = None,
    ) -> None:
        self.transactions: list[AddPartitionsToTxnTransaction] = [] if transactions is None else transactions
        self.v3_and_below_transactional_id: str = v3_and_below_transactional_id
        self.v3_and_below_producer_id: int = v3_and_below_producer_id
        self.v3_and_below_producer_epoch: int = v3_and_below_producer_epoch
        self.v3_and_below_topics: list[AddPartitionsToTxnTopic] = [] if v3_and_below_topics is None else v3_and_below_topics


class AddPartitionsToTxnPartitionResult(Message):
    __slots__ = ('partition_index', 'partition_error_code')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('partition_index', 'int32', '0-5'),
        Field('partition_error_code', 'int16', '0-5'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.partition_error_code: int = partition_error_code


class AddPartitionsToTxnTopicResult(Message):
    __slots__ = ('name', 'results_by_partition')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('name', 'string', '0-5'),
        Field('results_by_partition', AddPartitionsToTxnPartitionResult, '0-5', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] | None = None,
    ) -> None:
        self.name: str = name
        self.results_by_partition: list[AddPartitionsToTxnPartitionResult] = [] if results_by_partition is None else results_by_partition


class AddPartitionsToTxnResult(Message):
    __slots__ = ('transactional_id', 'topic_results')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('transactional_id', 'string', '4-5'),
        Field('topic_results', AddPartitionsToTxnTopicResult, '4-5', array=True),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.topic_results: list[AddPartitionsToTxnTopicResult] = [] if topic_results is None else topic_results


class AddPartitionsToTxnResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'results_by_transaction', 'results_by_topic_v3_and_below')
    FLEXIBLE_FROM = 3
    API_KEY = 24
    VERSIONS = (0, 5)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-5'),
        Field('error_code', 'int16', '4-5'),
        Field('results_by_transaction', AddPartitionsToTxnResult, '4-5', array=True),
        Field('results_by_topic_v3_and_below', AddPartitionsToTxnTopicResult, '0-3', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] | None = None,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.results_by_transaction: list[AddPartitionsToTxnResult] = [] if results_by_transaction is None else results_by_transaction
        self.results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = [] if results_by_topic_v3_and_below is None else results_by_topic_v3_and_below
