"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    __slots__ = ('group_ids', 'include_authorized_operations')
    FLEXIBLE_FROM = 0
    API_KEY = 89
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_ids', 'string', '0', array=True),
        Field('include_authorized_operations', 'bool', '0'),
    )

    def __init__(
        self,
        *,
        group_ids: list[str] | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is None else group_ids
        self.include_authorized_operations: bool = include_authorized_operations


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


class Subtopology(Message):
    __slots__ = ('subtopology_id', 'source_topics', 'repartition_sink_topics', 'state_changelog_topics', 'repartition_source_topics')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('subtopology_id', 'string', '0'),
        Field('source_topics', 'string', '0', array=True),
        Field('repartition_sink_topics', 'string', '0', array=True),
        Field('state_changelog_topics', TopicInfo, '0', array=True),
        Field('repartition_source_topics', TopicInfo, '0', array=True),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] | None = None,
        repartition_sink_topics: list[str] | None = None,
        state_changelog_topics: list[TopicInfo] | None = None,
        repartition_source_topics: list[TopicInfo] | None = None,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.source_topics: list[str] = [] if source_topics is None else source_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is None else repartition_sink_topics
        self.state_changelog_topics: list[TopicInfo] = [] if state_changelog_topics is None else state_changelog_topics
        self.repartition_source_topics: list[TopicInfo] = [] if repartition_source_topics is None else repartition_source_topics


class Topology(Message):
    __slots__ = ('epoch', 'subtopologies')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('epoch', 'int32', '0'),
        Field('subtopologies', Subtopology, '0', array=True, nullable='0'),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] | None = None,
    ) -> None:
        self.epoch: int = epoch
        self.subtopologies: list[Subtopology] | None = subtopologies


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


class Assignment(Message):
    __slots__ = ('active_tasks', 'standby_tasks', 'warmup_tasks')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('active_tasks', TaskIds, '0', array=True),
        Field('standby_tasks', TaskIds, '0', array=True),
        Field('warmup_tasks', TaskIds, '0', array=True),
    )

    def __init__(
        self,
        *,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
    ) -> None:
        self.active_tasks: list[TaskIds] = [] if active_tasks is None else active_tasks
        self.standby_tasks: list[TaskIds] = [] if standby_tasks is None else standby_tasks
        self.warmup_tasks: list[TaskIds] = [] if warmup_tasks is None else warmup_tasks


class Member(Message):
    __slots__ = ('member_id', 'member_epoch', 'instance_id', 'rack_id', 'client_id', 'client_host', 'topology_epoch', 'process_id', 'user_endpoint', 'client_tags', 'task_offsets', 'task_end_offsets', 'assignment', 'target_assignment', 'is_classic')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('member_id', 'string', '0'),
        Field('member_epoch', 'int32', '0'),
        Field('instance_id', 'string', '0', nullable='0'),
        Field('rack_id', 'string', '0', nullable='0'),
        Field('client_id', 'string', '0'),
        Field('client_host', 'string', '0'),
        Field('topology_epoch', 'int32', '0'),
        Field('process_id', 'string', '0'),
        Field('user_endpoint', Endpoint, '0', nullable='0'),
        Field('client_tags', KeyValue, '0', array=True),
        Field('task_offsets', TaskOffset, '0', array=True),
        Field('task_end_offsets', TaskOffset, '0', array=True),
        Field('assignment', Assignment, '0'),
        Field('target_assignment', Assignment, '0'),
        Field('is_classic', 'bool', '0'),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        is_classic: bool = False,
    ) -> None:
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.topology_epoch: int = topology_epoch
        self.process_id: str = process_id
        self.user_endpoint: Endpoint | None = user_endpoint
        self.client_tags: list[KeyValue] = [] if client_tags is None else client_tags
        self.task_offsets: list[TaskOffset] = [] if task_offsets is None else task_offsets
        self.task_end_offsets: list[TaskOffset] = [] if task_end_offsets is None else task_end_offsets
        self.assignment: Assignment = Assignment() if assignment is None else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is None else target_assignment
        self.is_classic: bool = is_classic


class DescribedGroup(Message):
    __slots__ = ('error_code', 'error_message', 'group_id', 'group_state', 'group_epoch', 'assignment_epoch', 'topology', 'members', 'authorized_operations')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('group_id', 'string', '0'),
        Field('group_state', 'string', '0'),
        Field('group_epoch', 'int32', '0'),
        Field('assignment_epoch', 'int32', '0'),
        Field('topology', Topology, '0', nullable='0'),
        Field('members', Member, '0', array=True),
        Field('authorized_operations', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: list[Member] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.group_id: str = group_id
        self.group_state: str = group_state
        self.group_epoch: int = group_epoch
        self.assignment_epoch: int = assignment_epoch
        self.topology: Topology | None = topology
        self.members: list[Member] = [] if members is None else members
        self.authorized_operations: int = authorized_operations


class StreamsGroupDescribeResponse(Message):
    __slots__ = ('throttle_time_ms', 'groups')
    FLEXIBLE_FROM = 0
    API_KEY = 89
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('groups', DescribedGroup, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is None else groups
