"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class TopicPartitions(Message):
    __slots__ = ('topic', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('topic', 'string', '0-2'),
        Field('partitions', 'int32', '0-2', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is None else partitions


class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    __slots__ = ('election_type', 'topic_partitions', 'timeout_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 43
    VERSIONS = (0, 2)
    FIELDS = (
        Field('election_type', 'int8', '1-2'),
        Field('topic_partitions', TopicPartitions, '0-2', array=True, nullable='0-2'),
        Field('timeout_ms', 'int32', '0-2'),
    )

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = None,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type: int = election_type
        self.topic_partitions: list[TopicPartitions] | None = topic_partitions
        self.timeout_ms: int = timeout_ms


class PartitionResult(Message):
    __slots__ = ('partition_id', 'error_code', 'error_message')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('partition_id', 'int32', '0-2'),
        Field('error_code', 'int16', '0-2'),
        Field('error_message', 'string', '0-2', nullable='0-2'),
    )

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_id: int = partition_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class ReplicaElectionResult(Message):
    __slots__ = ('topic', 'partition_result')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('topic', 'string', '0-2'),
        Field('partition_result', PartitionResult, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[PartitionResult] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partition_result: list[PartitionResult] = [] if partition_result is None else partition_result


class ElectLeadersResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'replica_election_results')
    FLEXIBLE_FROM = 2
    API_KEY = 43
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('error_code', 'int16', '1-2'),
        Field('replica_election_results', ReplicaElectionResult, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.replica_election_results: list[ReplicaElectionResult] = [] if replica_election_results is None else replica_election_results
