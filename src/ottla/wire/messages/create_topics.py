"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class CreatableReplicaAssignment(Message):
    __slots__ = ('partition_index', 'broker_ids')
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field('partition_index', 'int32', '2-7'),
        Field('broker_ids', 'int32', '2-7', array=True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.broker_ids: list[int] = [] if broker_ids is None else broker_ids


class CreatableTopicConfig(Message):
    __slots__ = ('name', 'value')
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field('name', 'string', '2-7'),
        Field('value', 'string', '2-7', nullable='2-7'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
    ) -> None:
        self.name: str = name
        self.value: str | None = value


class CreatableTopic(Message):
    __slots__ = ('name', 'num_partitions', 'replication_factor', 'assignments', 'configs')
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field('name', 'string', '2-7'),
        Field('num_partitions', 'int32', '2-7'),
        Field('replication_factor', 'int16', '2-7'),
        Field('assignments', CreatableReplicaAssignment, '2-7', array=True),
        Field('configs', CreatableTopicConfig, '2-7', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] | None = None,
        configs: list[CreatableTopicConfig] | None = None,
    ) -> None:
        self.name: str = name
        self.num_partitions: int = num_partitions
        self.replication_factor: int = replication_factor
        self.assignments: list[CreatableReplicaAssignment] = [] if assignments is None else assignments
        self.configs: list[CreatableTopicConfig] = [] if configs is None else configs


class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    __slots__ = ('topics', 'timeout_ms', 'validate_only')
    FLEXIBLE_FROM = 5
    API_KEY = 19
    VERSIONS = (2, 7)
    FIELDS = (
        Field('topics', CreatableTopic, '2-7', array=True),
        Field('timeout_ms', 'int32', '2-7'),
        Field('validate_only', 'bool', '2-7'),
    )

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] | None = None,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatableTopic] = [] if topics is None else topics
        self.timeout_ms: int = timeout_ms
        self.validate_only: bool = validate_only


class CreatableTopicConfigs(Message):
    __slots__ = ('name', 'value', 'read_only', 'config_source', 'is_sensitive')
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field('name', 'string', '5-7'),
        Field('value', 'string', '5-7', nullable='5-7'),
        Field('read_only', 'bool', '5-7'),
        Field('config_source', 'int8', '5-7'),
        Field('is_sensitive', 'bool', '5-7'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name: str = name
        self.value: str | None = value
        self.read_only: bool = read_only
        self.config_source: int = config_source
        self.is_sensitive: bool = is_sensitive


class CreatableTopicResult(Message):
    __slots__ = ('name', 'topic_id', 'error_code', 'error_message', 'topic_config_error_code', 'num_partitions', 'replication_factor', 'configs')
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field('name', 'string', '2-7'),
        Field('topic_id', 'uuid', '7'),
        Field('error_code', 'int16', '2-7'),
        Field('error_message', 'string', '2-7', nullable='2-7'),
        Field('topic_config_error_code', 'int16', '5-7', tag=0, tagged='5-7'),
        Field('num_partitions', 'int32', '5-7'),
        Field('replication_factor', 'int16', '5-7'),
        Field('configs', CreatableTopicConfigs, '5-7', array=True, nullable='5-7'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: bytes = topic_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topic_config_error_code: int = topic_config_error_code
        self.num_partitions: int = num_partitions
        self.replication_factor: int = replication_factor
        self.configs: list[CreatableTopicConfigs] | None = configs


class CreateTopicsResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 5
    API_KEY = 19
    VERSIONS = (2, 7)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '2-7'),
        Field('topics', CreatableTopicResult, '2-7', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[CreatableTopicResult] = [] if topics is None else topics
