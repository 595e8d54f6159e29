"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class CreatePartitionsAssignment(Message):
    __slots__ = ('broker_ids',)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('broker_ids', 'int32', '0-3', array=True),
    )

    def __init__(
        self,
        *,
        broker_ids: list[int] | None = None,
    ) -> None:
        self.broker_ids: list[int] = [] if broker_ids is None else broker_ids


class CreatePartitionsTopic(Message):
    __slots__ = ('name', 'count', 'assignments')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('name', 'string', '0-3'),
        Field('count', 'int32', '0-3'),
        Field('assignments', CreatePartitionsAssignment, '0-3', array=True, nullable='0-3'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = None,
    ) -> None:
        self.name: str = name
        self.count: int = count
        self.assignments: list[CreatePartitionsAssignment] | None = assignments


class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    __slots__ = ('topics', 'timeout_ms', 'validate_only')
    FLEXIBLE_FROM = 2
    API_KEY = 37
    VERSIONS = (0, 3)
    FIELDS = (
        Field('topics', CreatePartitionsTopic, '0-3', array=True),
        Field('timeout_ms', 'int32', '0-3'),
        Field('validate_only', 'bool', '0-3'),
    )

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] | None = None,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatePartitionsTopic] = [] if topics is None else topics
        self.timeout_ms: int = timeout_ms
        self.validate_only: bool = validate_only


class CreatePartitionsTopicResult(Message):
    __slots__ = ('name', 'error_code', 'error_message')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('name', 'string', '0-3'),
        Field('error_code', 'int16', '0-3'),
        Field('error_message', 'string', '0-3', nullable='0-3'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name: str = name
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class CreatePartitionsResponse(Message):
    __slots__ = ('throttle_time_ms', 'results')
    FLEXIBLE_FROM = 2
    API_KEY = 37
    VERSIONS = (0, 3)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-3'),
        Field('results', CreatePartitionsTopicResult, '0-3', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[CreatePartitionsTopicResult] = [] if results is None else results
