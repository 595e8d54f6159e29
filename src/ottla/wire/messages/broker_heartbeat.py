"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message


class BrokerHeartbeatRequest(Message):
    __slots__ = ('broker_id', 'broker_epoch', 'current_metadata_offset', 'want_fence', 'want_shut_down', 'offline_log_dirs', 'cordoned_log_dirs')
    FLEXIBLE_FROM = 0
    API_KEY = 63
    VERSIONS = (0, 2)
    FIELDS = (
        Field('broker_id', 'int32', '0-2'),
        Field('broker_epoch', 'int64', '0-2'),
        Field('current_metadata_offset', 'int64', '0-2'),
        Field('want_fence', 'bool', '0-2'),
        Field('want_shut_down', 'bool', '0-2'),
        Field('offline_log_dirs', 'uuid', '1-2', array=True, tag=0, tagged='1-2'),
        Field('cordoned_log_dirs', 'uuid', '2', array=True, nullable='2', tag=1, tagged='2'),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[bytes] | None = None,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.current_metadata_offset: int = current_metadata_offset
        self.want_fence: bool = want_fence
        self.want_shut_down: bool = want_shut_down
        self.offline_log_dirs: list[bytes] = [] if offline_log_dirs is None else offline_log_dirs
        self.cordoned_log_dirs: list[bytes] | None = cordoned_log_dirs


class BrokerHeartbeatResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'is_caught_up', 'is_fenced', 'should_shut_down')
    FLEXIBLE_FROM = 0
    API_KEY = 63
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('error_code', 'int16', '0-2'),
        Field('is_caught_up', 'bool', '0-2'),
        Field('is_fenced', 'bool', '0-2'),
        Field('should_shut_down', 'bool', '0-2'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.is_caught_up: bool = is_caught_up
        self.is_fenced: bool = is_fenced
        self.should_shut_down: bool = should_shut_down
