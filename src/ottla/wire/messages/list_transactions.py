"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    __slots__ = ('state_filters', 'producer_id_filters', 'duration_filter', 'transactional_id_pattern')
    FLEXIBLE_FROM = 0
    API_KEY = 66
    VERSIONS = (0, 2)
    FIELDS = (
        Field('state_filters', 'string', '0-2', array=True),
        Field('producer_id_filters', 'int64', '0-2', array=True),
        Field('duration_filter', 'int64', '1-2'),
        Field('transactional_id_pattern', 'string', '2', nullable='2'),
    )

    def __init__(
        self,
        *,
        state_filters: list[str] | None = None,
        producer_id_filters: list[int] | None = None,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters: list[str] = [] if state_filters is None else state_filters
        self.producer_id_filters: list[int] = [] if producer_id_filters is None else producer_id_filters
        self.duration_filter: int = duration_filter
        self.transactional_id_pattern: str | None = transactional_id_pattern


class TransactionState(Message):
    __slots__ = ('transactional_id', 'producer_id', 'transaction_state')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('transactional_id', 'string', '0-2'),
        Field('producer_id', 'int64', '0-2'),
        Field('transaction_state', 'string', '0-2'),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.transaction_state: str = transaction_state


class ListTransactionsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'unknown_state_filters', 'transaction_states')
    FLEXIBLE_FROM = 0
    API_KEY = 66
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('error_code', 'int16', '0-2'),
        Field('unknown_state_filters', 'string', '0-2', array=True),
        Field('transaction_states', TransactionState, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] | None = None,
        transaction_states: list[TransactionState] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.unknown_state_filters: list[str] = [] if unknown_state_filters is None else unknown_state_filters
        self.transaction_states: list[TransactionState] = [] if transaction_states is None else transaction_states
