"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class DeleteTopicState(Message):
    __slots__ = ('name', 'topic_id')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('name', 'string', '6', nullable='6'),
        Field('topic_id', 'uuid', '6'),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.name: str | None = name
        self.topic_id: bytes = topic_id


class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    __slots__ = ('topics', 'topic_names', 'timeout_ms')
    FLEXIBLE_FROM = 4
    API_KEY = 20
    VERSIONS = (1, 6)
    FIELDS = (
        Field('topics', DeleteTopicState, '6', array=True),
        Field('topic_names', 'string', '1-5', array=True),
        Field('timeout_ms', 'int32', '1-6'),
    )

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] | None = None,
        topic_names: list[str] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteTopicState] = [] if topics is None else topics
        self.topic_names: list[str] = [] if topic_names is None else topic_names
        self.timeout_ms: int = timeout_ms


class DeletableTopicResult(Message):
    __slots__ = ('name', 'topic_id', 'error_code', 'error_message')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('name', 'string', '1-6', nullable='6'),
        Field('topic_id', 'uuid', '6'),
        Field('error_code', 'int16', '1-6'),
        Field('error_message', 'string', '5-6', nullable='5-6'),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name: str | None = name
        self.topic_id: bytes = topic_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DeleteTopicsResponse(Message):
    __slots__ = ('throttle_time_ms', 'responses')
    FLEXIBLE_FROM = 4
    API_KEY = 20
    VERSIONS = (1, 6)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-6'),
        Field('responses', DeletableTopicResult, '1-6', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.responses: list[DeletableTopicResult] = [] if responses is None else responses
