"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    __slots__ = ('broker_id', 'broker_epoch')
    FLEXIBLE_FROM = 0
    API_KEY = 67
    VERSIONS = (0, 0)
    FIELDS = (
        Field('broker_id', 'int32', '0'),
        Field('broker_epoch', 'int64', '0'),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch


class AllocateProducerIdsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'producer_id_start', 'producer_id_len')
    FLEXIBLE_FROM = 0
    API_KEY = 67
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('producer_id_start', 'int64', '0'),
        Field('producer_id_len', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id_start: int = producer_id_start
        self.producer_id_len: int = producer_id_len
