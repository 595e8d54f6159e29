"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class PartitionData(Message):
    __slots__ = ('partition_index',)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0-2'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index: int = partition_index


class TopicData(Message):
    __slots__ = ('topic_name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0-2'),
        Field('partitions', PartitionData, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[PartitionData] = [] if partitions is None else partitions


class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    __slots__ = ('topics',)
    FLEXIBLE_FROM = 0
    API_KEY = 55
    VERSIONS = (0, 2)
    FIELDS = (
        Field('topics', TopicData, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.topics: list[TopicData] = [] if topics is None else topics


class ReplicaState(Message):
    __slots__ = ('replica_id', 'replica_directory_id', 'log_end_offset', 'last_fetch_timestamp', 'last_caught_up_timestamp')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('replica_id', 'int32', '0-2'),
        Field('replica_directory_id', 'uuid', '2'),
        Field('log_end_offset', 'int64', '0-2'),
        Field('last_fetch_timestamp', 'int64', '1-2'),
        Field('last_caught_up_timestamp', 'int64', '1-2'),
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id: int = replica_id
        self.replica_directory_id: bytes = replica_directory_id
        self.log_end_offset: int = log_end_offset
        self.last_fetch_timestamp: int = last_fetch_timestamp
        self.last_caught_up_timestamp: int = last_caught_up_timestamp


class ResponsePartitionData(Message):
    __slots__ = ('partition_index', 'error_code', 'error_message', 'leader_id', 'leader_epoch', 'high_watermark', 'current_voters', 'observers')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0-2'),
        Field('error_code', 'int16', '0-2'),
        Field('error_message', 'string', '2', nullable='2'),
        Field('leader_id', 'int32', '0-2'),
        Field('leader_epoch', 'int32', '0-2'),
        Field('high_watermark', 'int64', '0-2'),
        Field('current_voters', ReplicaState, '0-2', array=True),
        Field('observers', ReplicaState, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] | None = None,
        observers: list[ReplicaState] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.high_watermark: int = high_watermark
        self.current_voters: list[ReplicaState] = [] if current_voters is None else current_voters
        self.observers: list[ReplicaState] = [] if observers is None else observers


class ResponseTopicData(Message):
    __slots__ = ('topic_name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0-2'),
        Field('partitions', ResponsePartitionData, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[ResponsePartitionData] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[ResponsePartitionData] = [] if partitions is None else partitions


class Listener(Message):
    __slots__ = ('name', 'host', 'port')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '2'),
        Field('host', 'string', '2'),
        Field('port', 'uint16', '2'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name: str = name
        self.host: str = host
        self.port: int = port


class Node(Message):
    __slots__ = ('node_id', 'listeners')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('node_id', 'int32', '2'),
        Field('listeners', Listener, '2', array=True),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        listeners: list[Listener] | None = None,
    ) -> None:
        self.node_id: int = node_id
        self.listeners: list[Listener] = [] if listeners is None else listeners


class DescribeQuorumResponse(Message):
    __slots__ = ('error_code', 'error_message', 'topics', 'nodes')
    FLEXIBLE_FROM = 0
    API_KEY = 55
    VERSIONS = (0, 2)
    FIELDS = (
        Field('error_code', 'int16', '0-2'),
        Field('error_message', 'string', '2', nullable='2'),
        Field('topics', ResponseTopicData, '0-2', array=True),
        Field('nodes', Node, '2', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        topics: list[ResponseTopicData] | None = None,
        nodes: list[Node] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topics: list[ResponseTopicData] = [] if topics is None else topics
        self.nodes: list[Node] = [] if nodes is None else nodes
