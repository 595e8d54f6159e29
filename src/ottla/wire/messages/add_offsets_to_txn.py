"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    __slots__ = ('transactional_id', 'producer_id', 'producer_epoch', 'group_id')
    FLEXIBLE_FROM = 3
    API_KEY = 25
    VERSIONS = (0, 4)
    FIELDS = (
        Field('transactional_id', 'string', '0-4'),
        Field('producer_id', 'int64', '0-4'),
        Field('producer_epoch', 'int16', '0-4'),
        Field('group_id', 'string', '0-4'),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.group_id: str = group_id


class AddOffsetsToTxnResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code')
    FLEXIBLE_FROM = 3
    API_KEY = 25
    VERSIONS = (0, 4)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-4'),
        Field('error_code', 'int16', '0-4'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
