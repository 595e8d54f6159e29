"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DescribableLogDirTopic(Message):
    __slots__ = ('topic', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('topic', 'string', '1-5'),
        Field('partitions', 'int32', '1-5', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is None else partitions


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    __slots__ = ('topics',)
    FLEXIBLE_FROM = 2
    API_KEY = 35
    VERSIONS = (1, 5)
    FIELDS = (
        Field('topics', DescribableLogDirTopic, '1-5', array=True, nullable='1-5'),
    )

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | None = None,
    ) -> None:
        self.topics: list[DescribableLogDirTopic] | None = topics


class DescribeLogDirsPartition(Message):
    __slots__ = ('partition_index', 'partition_size', 'offset_lag', 'is_future_key')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('partition_index', 'int32', '1-5'),
        Field('partition_size', 'int64', '1-5'),
        Field('offset_lag', 'int64', '1-5'),
        Field('is_future_key', 'bool', '1-5'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index: int = partition_index
        self.partition_size: int = partition_size
        self.offset_lag: int = offset_lag
        self.is_future_key: bool = is_future_key


class DescribeLogDirsTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('name', 'string', '1-5'),
        Field('partitions', DescribeLogDirsPartition, '1-5', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[DescribeLogDirsPartition] = [] if partitions is None else partitions


class DescribeLogDirsResult(Message):
    __slots__ = ('error_code', 'log_dir', 'topics', 'total_bytes', 'usable_bytes', 'is_cordoned')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('error_code', 'int16', '1-5'),
        Field('log_dir', 'string', '1-5'),
        Field('topics', DescribeLogDirsTopic, '1-5', array=True),
        Field('total_bytes', 'int64', '4-5'),
        Field('usable_bytes', 'int64', '4-5'),
        Field('is_cordoned', 'bool', '5'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] | None = None,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code: int = error_code
        self.log_dir: str = log_dir
        self.topics: list[DescribeLogDirsTopic] = [] if topics is None else topics
        self.total_bytes: int = total_bytes
        self.usable_bytes: int = usable_bytes
        self.is_cordoned: bool = is_cordoned


class DescribeLogDirsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'results')
    FLEXIBLE_FROM = 2
    API_KEY = 35
    VERSIONS = (1, 5)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-5'),
        Field('error_code', 'int16', '3-5'),
        Field('results', DescribeLogDirsResult, '1-5', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.results: list[DescribeLogDirsResult] = [] if results is None else results
