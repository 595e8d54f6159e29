"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class DeleteShareGroupOffsetsRequestTopic(Message):
    __slots__ = ('topic_name',)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0'),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
    ) -> None:
        self.topic_name: str = topic_name


class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 92
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_id', 'string', '0'),
        Field('topics', DeleteShareGroupOffsetsRequestTopic, '0', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequestTopic] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DeleteShareGroupOffsetsRequestTopic] = [] if topics is None else topics


class DeleteShareGroupOffsetsResponseTopic(Message):
    __slots__ = ('topic_name', 'topic_id', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0'),
        Field('topic_id', 'uuid', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.topic_id: bytes = topic_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DeleteShareGroupOffsetsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'responses')
    FLEXIBLE_FROM = 0
    API_KEY = 92
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('responses', DeleteShareGroupOffsetsResponseTopic, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[DeleteShareGroupOffsetsResponseTopic] = [] if responses is None else responses
