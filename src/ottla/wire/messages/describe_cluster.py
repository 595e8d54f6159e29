"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    __slots__ = ('include_cluster_authorized_operations', 'endpoint_type', 'include_fenced_brokers')
    FLEXIBLE_FROM = 0
    API_KEY = 60
    VERSIONS = (0, 2)
    FIELDS = (
        Field('include_cluster_authorized_operations', 'bool', '0-2'),
        Field('endpoint_type', 'int8', '1-2'),
        Field('include_fenced_brokers', 'bool', '2'),
    )

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations: bool = include_cluster_authorized_operations
        self.endpoint_type: int = endpoint_type
        self.include_fenced_brokers: bool = include_fenced_brokers


class DescribeClusterBroker(Message):
    __slots__ = ('broker_id', 'host', 'port', 'rack', 'is_fenced')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('broker_id', 'int32', '0-2'),
        Field('host', 'string', '0-2'),
        Field('port', 'int32', '0-2'),
        Field('rack', 'string', '0-2', nullable='0-2'),
        Field('is_fenced', 'bool', '2'),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id: int = broker_id
        self.host: str = host
        self.port: int = port
        self.rack: str | None = rack
        self.is_fenced: bool = is_fenced


class DescribeClusterResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'endpoint_type', 'cluster_id', 'controller_id', 'brokers', 'cluster_authorized_operations')
    FLEXIBLE_FROM = 0
    API_KEY = 60
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('error_code', 'int16', '0-2'),
        Field('error_message', 'string', '0-2', nullable='0-2'),
        Field('endpoint_type', 'int8', '1-2'),
        Field('cluster_id', 'string', '0-2'),
        Field('controller_id', 'int32', '0-2'),
        Field('brokers', DescribeClusterBroker, '0-2', array=True),
        Field('cluster_authorized_operations', 'int32', '0-2'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] | None = None,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.endpoint_type: int = endpoint_type
        self.cluster_id: str = cluster_id
        self.controller_id: int = controller_id
        self.brokers: list[DescribeClusterBroker] = [] if brokers is None else brokers
        self.cluster_authorized_operations: int = cluster_authorized_operations
