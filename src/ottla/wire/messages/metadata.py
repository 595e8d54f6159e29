"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class MetadataRequestTopic(Message):
    __slots__ = ('topic_id', 'name')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('topic_id', 'uuid', '10-13'),
        Field('name', 'string', '0-13', nullable='10-13'),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.name: str | None = name


class MetadataRequest(Request["MetadataResponse"]):
    __slots__ = ('topics', 'allow_auto_topic_creation', 'include_cluster_authorized_operations', 'include_topic_authorized_operations')
    FLEXIBLE_FROM = 9
    API_KEY = 3
    VERSIONS = (0, 13)
    FIELDS = (
        Field('topics', MetadataRequestTopic, '0-13', array=True, nullable='1-13'),
        Field('allow_auto_topic_creation', 'bool', '4-13'),
        Field('include_cluster_authorized_operations', 'bool', '8-10'),
        Field('include_topic_authorized_operations', 'bool', '8-13'),
    )

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = None,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics: list[MetadataRequestTopic] | None = topics
        self.allow_auto_topic_creation: bool = allow_auto_topic_creation
        self.include_cluster_authorized_operations: bool = include_cluster_authorized_operations
        self.include_topic_authorized_operations: bool = include_topic_authorized_operations


class MetadataResponseBroker(Message):
    __slots__ = ('node_id', 'host', 'port', 'rack')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('node_id', 'int32', '0-13'),
        Field('host', 'string', '0-13'),
        Field('port', 'int32', '0-13'),
        Field('rack', 'string', '1-13', nullable='1-13'),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.rack: str | None = rack


class MetadataResponsePartition(Message):
    __slots__ = ('error_code', 'partition_index', 'leader_id', 'leader_epoch', 'replica_nodes', 'isr_nodes', 'offline_replicas')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('error_code', 'int16', '0-13'),
        Field('partition_index', 'int32', '0-13'),
        Field('leader_id', 'int32', '0-13'),
        Field('leader_epoch', 'int32', '7-13'),
        Field('replica_nodes', 'int32', '0-13', array=True),
        Field('isr_nodes', 'int32', '0-13', array=True),
        Field('offline_replicas', 'int32', '5-13', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] | None = None,
        isr_nodes: list[int] | None = None,
        offline_replicas: list[int] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.partition_index: int = partition_index
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is None else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is None else isr_nodes
        self.offline_replicas: list[int] = [] if offline_replicas is None else offline_replicas


class MetadataResponseTopic(Message):
    __slots__ = ('error_code', 'name', 'topic_id', 'is_internal', 'partitions', 'topic_authorized_operations')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('error_code', 'int16', '0-13'),
        Field('name', 'string', '0-13', nullable='12-13'),
        Field('topic_id', 'uuid', '10-13'),
        Field('is_internal', 'bool', '1-13'),
        Field('partitions', MetadataResponsePartition, '0-13', array=True),
        Field('topic_authorized_operations', 'int32', '8-13'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] | None = None,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.name: str | None = name
        self.topic_id: bytes = topic_id
        self.is_internal: bool = is_internal
        self.partitions: list[MetadataResponsePartition] = [] if partitions is None else partitions
        self.topic_authorized_operations: int = topic_authorized_operations


class MetadataResponse(Message):
    __slots__ = ('throttle_time_ms', 'brokers', 'cluster_id', 'controller_id', 'topics', 'error_code', 'cluster_authorized_operations')
    FLEXIBLE_FROM = 9
    API_KEY = 3
    VERSIONS = (0, 13)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '3-13'),
        Field('brokers', MetadataResponseBroker, '0-13', array=True),
        Field('cluster_id', 'string', '2-13', nullable='2-13'),
        Field('controller_id', 'int32', '1-13'),
        Field('topics', MetadataResponseTopic, '0-13', array=True),
        Field('error_code', 'int16', '13'),
        Field('cluster_authorized_operations', 'int32', '8-10'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] | None = None,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] | None = None,
        error_code: int = 0,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.brokers: list[MetadataResponseBroker] = [] if brokers is None else brokers
        self.cluster_id: str | None = cluster_id
        self.controller_id: int = controller_id
        self.topics: list[MetadataResponseTopic] = [] if topics is None else topics
        self.error_code: int = error_code
        self.cluster_authorized_operations: int = cluster_authorized_operations
