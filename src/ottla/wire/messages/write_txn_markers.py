"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class WritableTxnMarkerTopic(Message):
    __slots__ = ('name', 'partition_indexes')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('name', 'string', '1-2'),
        Field('partition_indexes', 'int32', '1-2', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is None else partition_indexes


class WritableTxnMarker(Message):
    __slots__ = ('producer_id', 'producer_epoch', 'transaction_result', 'topics', 'coordinator_epoch', 'transaction_version')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('producer_id', 'int64', '1-2'),
        Field('producer_epoch', 'int16', '1-2'),
        Field('transaction_result', 'bool', '1-2'),
        Field('topics', WritableTxnMarkerTopic, '1-2', array=True),
        Field('coordinator_epoch', 'int32', '1-2'),
        Field('transaction_version', 'int8', '2'),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] | None = None,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.transaction_result: bool = transaction_result
        self.topics: list[WritableTxnMarkerTopic] = [] if topics is None else topics
        self.coordinator_epoch: int = coordinator_epoch
        self.transaction_version: int = transaction_version


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    __slots__ = ('markers',)
    FLEXIBLE_FROM = 1
    API_KEY = 27
    VERSIONS = (1, 2)
    FIELDS = (
        Field('markers', WritableTxnMarker, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] | None = None,
    ) -> None:
        self.markers: list[WritableTxnMarker] = [] if markers is None else markers


class WritableTxnMarkerPartitionResult(Message):
    __slots__ = ('partition_index', 'error_code')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('partition_index', 'int32', '1-2'),
        Field('error_code', 'int16', '1-2'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code


class WritableTxnMarkerTopicResult(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('name', 'string', '1-2'),
        Field('partitions', WritableTxnMarkerPartitionResult, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[WritableTxnMarkerPartitionResult] = [] if partitions is None else partitions


class WritableTxnMarkerResult(Message):
    __slots__ = ('producer_id', 'topics')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('producer_id', 'int64', '1-2'),
        Field('topics', WritableTxnMarkerTopicResult, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] | None = None,
    ) -> None:
        self.producer_id: int = producer_id
        self.topics: list[WritableTxnMarkerTopicResult] = [] if topics is None else topics


class WriteTxnMarkersResponse(Message):
    __slots__ = ('markers',)
    FLEXIBLE_FROM = 1
    API_KEY = 27
    VERSIONS = (1, 2)
    FIELDS = (
        Field('markers', WritableTxnMarkerResult, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] | None = None,
    ) -> None:
        self.markers: list[WritableTxnMarkerResult] = [] if markers is None else markers
