"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class AlterReplicaLogDirTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('name', 'string', '1-2'),
        Field('partitions', 'int32', '1-2', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[int] = [] if partitions is None else partitions


class AlterReplicaLogDir(Message):
    __slots__ = ('path', 'topics')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('path', 'string', '1-2'),
        Field('topics', AlterReplicaLogDirTopic, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        path: str = "",
        topics: list[AlterReplicaLogDirTopic] | None = None,
    ) -> None:
        self.path: str = path
        self.topics: list[AlterReplicaLogDirTopic] = [] if topics is None else topics


class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    __slots__ = ('dirs',)
    FLEXIBLE_FROM = 2
    API_KEY = 34
    VERSIONS = (1, 2)
    FIELDS = (
        Field('dirs', AlterReplicaLogDir, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDir] | None = None,
    ) -> None:
        self.dirs: list[AlterReplicaLogDir] = [] if dirs is None else dirs


class AlterReplicaLogDirPartitionResult(Message):
    __slots__ = ('partition_index', 'error_code')
    FLEXIBLE_FROM = 2
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


class AlterReplicaLogDirTopicResult(Message):
    __slots__ = ('topic_name', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('topic_name', 'string', '1-2'),
        Field('partitions', AlterReplicaLogDirPartitionResult, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirPartitionResult] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[AlterReplicaLogDirPartitionResult] = [] if partitions is None else partitions


class AlterReplicaLogDirsResponse(Message):
    __slots__ = ('throttle_time_ms', 'results')
    FLEXIBLE_FROM = 2
    API_KEY = 34
    VERSIONS = (1, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-2'),
        Field('results', AlterReplicaLogDirTopicResult, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AlterReplicaLogDirTopicResult] = [] if results is None else results
