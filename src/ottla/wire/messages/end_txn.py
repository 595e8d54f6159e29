"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class EndTxnRequest(Request["EndTxnResponse"]):
    __slots__ = ('transactional_id', 'producer_id', 'producer_epoch', 'committed')
    FLEXIBLE_FROM = 3
    API_KEY = 26
    VERSIONS = (0, 5)
    FIELDS = (
        Field('transactional_id', 'string', '0-5'),
        Field('producer_id', 'int64', '0-5'),
        Field('producer_epoch', 'int16', '0-5'),
        Field('committed', 'bool', '0-5'),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.committed: bool = committed


class EndTxnResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'producer_id', 'producer_epoch')
    FLEXIBLE_FROM = 3
    API_KEY = 26
    VERSIONS = (0, 5)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-5'),
        Field('error_code', 'int16', '0-5'),
        Field('producer_id', 'int64', '5'),
        Field('producer_epoch', 'int16', '5'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
