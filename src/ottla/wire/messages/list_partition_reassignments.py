"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ListPartitionReassignmentsTopics(Message):
    __slots__ = ('name', 'partition_indexes')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('partition_indexes', 'int32', '0', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is None else partition_indexes


class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    __slots__ = ('timeout_ms', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 46
    VERSIONS = (0, 0)
    FIELDS = (
        Field('timeout_ms', 'int32', '0'),
        Field('topics', ListPartitionReassignmentsTopics, '0', array=True, nullable='0'),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.topics: list[ListPartitionReassignmentsTopics] | None = topics


class OngoingPartitionReassignment(Message):
    __slots__ = ('partition_index', 'replicas', 'adding_replicas', 'removing_replicas')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0'),
        Field('replicas', 'int32', '0', array=True),
        Field('adding_replicas', 'int32', '0', array=True),
        Field('removing_replicas', 'int32', '0', array=True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.replicas: list[int] = [] if replicas is None else replicas
        self.adding_replicas: list[int] = [] if adding_replicas is None else adding_replicas
        self.removing_replicas: list[int] = [] if removing_replicas is None else removing_replicas


class OngoingTopicReassignment(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('partitions', OngoingPartitionReassignment, '0', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OngoingPartitionReassignment] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[OngoingPartitionReassignment] = [] if partitions is None else partitions


class ListPartitionReassignmentsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 46
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('topics', OngoingTopicReassignment, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        topics: list[OngoingTopicReassignment] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topics: list[OngoingTopicReassignment] = [] if topics is None else topics
