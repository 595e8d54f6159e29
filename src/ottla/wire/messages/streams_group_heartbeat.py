"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class KeyValue(Message):
    __slots__ = ('key', 'value')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('key', 'string', '0'),
        Field('value', 'string', '0'),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key: str = key
        self.value: str = value


class TopicInfo(Message):
    __slots__ = ('name', 'partitions', 'replication_factor', 'topic_configs')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('partitions', 'int32', '0'),
        Field('replication_factor', 'int16', '0'),
        Field('topic_configs', KeyValue, '0', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[KeyValue] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: int = partitions
        self.replication_factor: int = replication_factor
        self.topic_configs: list[KeyValue] = [] if topic_configs is None else topic_configs


class CopartitionGroup(Message):
    __slots__ = ('source_topics', 'source_topic_regex', 'repartition_source_topics')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('source_topics', 'int16', '0', array=True),
        Field('source_topic_regex', 'int16', '0', array=True),
        Field('repartition_source_topics', 'int16', '0', array=True),
    )

    def __init__(
        self,
        *,
        source_topics: list[int] | None = None,
        source_topic_regex: list[int] | None = None,
        repartition_source_topics: list[int] | None = None,
    ) -> None:
        self.source_topics: list[int] = [] if source_topics is None else source_topics
        self.source_topic_regex: list[int] = [] if source_topic_regex is None else source_topic_regex
        self.repartition_source_topics: list[int] = [] if repartition_source_topics is None else repartition_source_topics


class Subtopology(Message):
    __slots__ = ('subtopology_id', 'source_topics', 'source_topic_regex', 'state_changelog_topics', 'repartition_sink_topics', 'repartition_source_topics', 'copartition_groups')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('subtopology_id', 'string', '0'),
        Field('source_topics', 'string', '0', array=True),
        Field('source_topic_regex', 'string', '0', array=True),
        Field('state_changelog_topics', TopicInfo, '0', array=True),
        Field('repartition_sink_topics', 'string', '0', array=True),
        Field('repartition_source_topics', TopicInfo, '0', array=True),
        Field('copartition_groups', CopartitionGroup, '0', array=True),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] | None = None,
        source_topic_regex: list[str] | None = None,
        state_changelog_topics: list[TopicInfo] | None = None,
        repartition_sink_topics: list[str] | None = None,
        repartition_source_topics: list[TopicInfo] | None = None,
        copartition_groups: list[CopartitionGroup] | None = None,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.source_topics: list[str] = [] if source_topics is None else source_topics
        self.source_topic_regex: list[str] = [] if source_topic_regex is None else source_topic_regex
        self.state_changelog_topics: list[TopicInfo] = [] if state_changelog_topics is None else state_changelog_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is None else repartition_sink_topics
        self.repartition_source_topics: list[TopicInfo] = [] if repartition_source_topics is None else repartition_source_topics
        self.copartition_groups: list[CopartitionGroup] = [] if copartition_groups is None else copartition_groups


class Topology(Message):
    __slots__ = ('epoch', 'subtopologies')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('epoch', 'int32', '0'),
        Field('subtopologies', Subtopology, '0', array=True),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] | None = None,
    ) -> None:
        self.epoch: int = epoch
        self.subtopologies: list[Subtopology] = [] if subtopologies is None else subtopologies


class TaskIds(Message):
    __slots__ = ('subtopology_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('subtopology_id', 'string', '0'),
        Field('partitions', 'int32', '0', array=True),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.partitions: list[int] = [] if partitions is None else partitions


class Endpoint(Message):
    __slots__ = ('host', 'port')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('host', 'string', '0'),
        Field('port', 'uint16', '0'),
    )

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host: str = host
        self.port: int = port


class TaskOffset(Message):
    __slots__ = ('subtopology_id', 'partition', 'offset')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('subtopology_id', 'string', '0'),
        Field('partition', 'int32', '0'),
        Field('offset', 'int64', '0'),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.partition: int = partition
        self.offset: int = offset


class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    __slots__ = ('group_id', 'member_id', 'member_epoch', 'endpoint_information_epoch', 'instance_id', 'rack_id', 'rebalance_timeout_ms', 'topology', 'active_tasks', 'standby_tasks', 'warmup_tasks', 'process_id', 'user_endpoint', 'client_tags', 'task_offsets', 'task_end_offsets', 'shutdown_application')
    FLEXIBLE_FROM = 0
    API_KEY = 88
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_id', 'string', '0'),
        Field('member_id', 'string', '0'),
        Field('member_epoch', 'int32', '0'),
        Field('endpoint_information_epoch', 'int32', '0'),
        Field('instance_id', 'string', '0', nullable='0'),
        Field('rack_id', 'string', '0', nullable='0'),
        Field('rebalance_timeout_ms', 'int32', '0'),
        Field('topology', Topology, '0', nullable='0'),
        Field('active_tasks', TaskIds, '0', array=True, nullable='0'),
        Field('standby_tasks', TaskIds, '0', array=True, nullable='0'),
        Field('warmup_tasks', TaskIds, '0', array=True, nullable='0'),
        Field('process_id', 'string', '0', nullable='0'),
        Field('user_endpoint', Endpoint, '0', nullable='0'),
        Field('client_tags', KeyValue, '0', array=True, nullable='0'),
        Field('task_offsets', TaskOffset, '0', array=True, nullable='0'),
        Field('task_end_offsets', TaskOffset, '0', array=True, nullable='0'),
        Field('shutdown_application', 'bool', '0'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.endpoint_information_epoch: int = endpoint_information_epoch
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.topology: Topology | None = topology
        self.active_tasks: list[TaskIds] | None = active_tasks
        self.standby_tasks: list[TaskIds] | None = standby_tasks
        self.warmup_tasks: list[TaskIds] | None = warmup_tasks
        self.process_id: str | None = process_id
        self.user_endpoint: Endpoint | None = user_endpoint
        self.client_tags: list[KeyValue] | None = client_tags
        self.task_offsets: list[TaskOffset] | None = task_offsets
        self.task_end_offsets: list[TaskOffset] | None = task_end_offsets
        self.shutdown_application: bool = shutdown_application


class Status(Message):
    __slots__ = ('status_code', 'status_detail')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('status_code', 'int8', '0'),
        Field('status_detail', 'string', '0'),
    )

    def __init__(
        self,
        *,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code: int = status_code
        self.status_detail: str = status_detail


class ResponseTaskIds(Message):
    __slots__ = ('subtopology_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('subtopology_id', 'string', '0'),
        Field('partitions', 'int32', '0', array=True),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.partitions: list[int] = [] if partitions is None else partitions


class ResponseEndpoint(Message):
    __slots__ = ('host', 'port')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('host', 'string', '0'),
        Field('port', 'uint16', '0'),
    )

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host: str = host
        self.port: int = port


class TopicPartition(Message):
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


class EndpointToPartitions(Message):
    __slots__ = ('user_endpoint', 'active_partitions', 'standby_partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('user_endpoint', ResponseEndpoint, '0'),
        Field('active_partitions', TopicPartition, '0', array=True),
        Field('standby_partitions', TopicPartition, '0', array=True),
    )

    def __init__(
        self,
        *,
        user_endpoint: ResponseEndpoint | None = None,
        active_partitions: list[TopicPartition] | None = None,
        standby_partitions: list[TopicPartition] | None = None,
    ) -> None:
        self.user_endpoint: ResponseEndpoint = ResponseEndpoint() if user_endpoint is None else user_endpoint
        self.active_partitions: list[TopicPartition] = [] if active_partitions is None else active_partitions
        self.standby_partitions: list[TopicPartition] = [] if standby_partitions is None else standby_partitions


class StreamsGroupHeartbeatResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'member_id', 'member_epoch', 'heartbeat_interval_ms', 'acceptable_recovery_lag', 'task_offset_interval_ms', 'status', 'active_tasks', 'standby_tasks', 'warmup_tasks', 'endpoint_information_epoch', 'partitions_by_user_endpoint')
    FLEXIBLE_FROM = 0
    API_KEY = 88
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('member_id', 'string', '0'),
        Field('member_epoch', 'int32', '0'),
        Field('heartbeat_interval_ms', 'int32', '0'),
        Field('acceptable_recovery_lag', 'int32', '0'),
        Field('task_offset_interval_ms', 'int32', '0'),
        Field('status', Status, '0', array=True, nullable='0'),
        Field('active_tasks', ResponseTaskIds, '0', array=True, nullable='0'),
        Field('standby_tasks', ResponseTaskIds, '0', array=True, nullable='0'),
        Field('warmup_tasks', ResponseTaskIds, '0', array=True, nullable='0'),
        Field('endpoint_information_epoch', 'int32', '0'),
        Field('partitions_by_user_endpoint', EndpointToPartitions, '0', array=True, nullable='0'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: list[Status] | None = None,
        active_tasks: list[ResponseTaskIds] | None = None,
        standby_tasks: list[ResponseTaskIds] | None = None,
        warmup_tasks: list[ResponseTaskIds] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.heartbeat_interval_ms: int = heartbeat_interval_ms
        self.acceptable_recovery_lag: int = acceptable_recovery_lag
        self.task_offset_interval_ms: int = task_offset_interval_ms
        self.status: list[Status] | None = status
        self.active_tasks: list[ResponseTaskIds] | None = active_tasks
        self.standby_tasks: list[ResponseTaskIds] | None = standby_tasks
        self.warmup_tasks: list[ResponseTaskIds] | None = warmup_tasks
        self.endpoint_information_epoch: int = endpoint_information_epoch
        self.partitions_by_user_endpoint: list[EndpointToPartitions] | None = partitions_by_user_endpoint
