"""The records of Apache Kafka's metadata log, `__cluster_metadata-0`, as messages of the wire's codec."""

from typing import ClassVar

from ottla.wire.schema import ZERO_UUID, Field, Message

_ALL = "0-9"


class KraftRecord(Message):
    """Every version is flexible. `DEFAULTS` are those that are not the type's zero."""

    __slots__ = ()
    FLEXIBLE_FROM: ClassVar[int] = 0
    DEFAULTS: ClassVar[dict[str, object]] = {}

    def __init__(self, **values: object) -> None:
        for field in self.FIELDS:
            value = values.pop(field.name, self.DEFAULTS.get(field.name, _zero(field)))
            setattr(self, field.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")


def _zero(field: Field) -> object:
    if field.array:
        return []
    zeros: dict[object, object] = {"string": "", "bytes": b"", "uuid": ZERO_UUID, "bool": False}
    return zeros.get(field.kind, 0)


class Endpoint(KraftRecord):
    __slots__ = ("host", "name", "port", "security_protocol")
    FIELDS = (
        Field("name", "string", _ALL),
        Field("host", "string", _ALL),
        Field("port", "uint16", _ALL),
        Field("security_protocol", "int16", _ALL),
    )
    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(KraftRecord):
    __slots__ = ("max_supported_version", "min_supported_version", "name")
    FIELDS = (
        Field("name", "string", _ALL),
        Field("min_supported_version", "int16", _ALL),
        Field("max_supported_version", "int16", _ALL),
    )


class RegisterBroker(KraftRecord):
    __slots__ = (
        "broker_epoch",
        "broker_id",
        "cordoned_log_dirs",
        "end_points",
        "features",
        "fenced",
        "in_controlled_shutdown",
        "incarnation_id",
        "is_migrating_zk_broker",
        "log_dirs",
        "rack",
    )
    DEFAULTS: ClassVar[dict[str, object]] = {"fenced": True, "rack": None, "cordoned_log_dirs": None}
    FIELDS = (
        Field("broker_id", "int32", _ALL),
        Field("is_migrating_zk_broker", "bool", "2-9"),
        Field("incarnation_id", "uuid", _ALL),
        Field("broker_epoch", "int64", _ALL),
        Field("end_points", Endpoint, _ALL, array=True),
        Field("features", FeatureRange, _ALL, array=True),
        Field("rack", "string", _ALL, nullable=_ALL),
        Field("fenced", "bool", _ALL),
        Field("in_controlled_shutdown", "bool", "1-9"),
        Field("log_dirs", "uuid", "3-9", array=True, tag=0, tagged="3-9"),
        Field("cordoned_log_dirs", "uuid", "4-9", array=True, nullable="4-9", tag=1, tagged="4-9"),
    )
    broker_id: int
    is_migrating_zk_broker: bool
    broker_epoch: int
    rack: str | None
    log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None


class UnregisterBroker(KraftRecord):
    __slots__ = ("broker_epoch", "broker_id")
    FIELDS = (Field("broker_id", "int32", _ALL), Field("broker_epoch", "int64", _ALL))
    broker_id: int


class TopicRecord(KraftRecord):
    __slots__ = ("name", "topic_id")
    FIELDS = (Field("name", "string", _ALL), Field("topic_id", "uuid", _ALL))
    name: str
    topic_id: bytes


class PartitionRecord(KraftRecord):
    __slots__ = (
        "adding_replicas",
        "directories",
        "eligible_leader_replicas",
        "isr",
        "last_known_elr",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "partition_epoch",
        "partition_id",
        "removing_replicas",
        "replicas",
        "topic_id",
    )
    DEFAULTS: ClassVar[dict[str, object]] = {"eligible_leader_replicas": None, "last_known_elr": None}
    FIELDS = (
        Field("partition_id", "int32", _ALL),
        Field("topic_id", "uuid", _ALL),
        Field("replicas", "int32", _ALL, array=True),
        Field("isr", "int32", _ALL, array=True),
        Field("removing_replicas", "int32", _ALL, array=True),
        Field("adding_replicas", "int32", _ALL, array=True),
        Field("leader", "int32", _ALL),
        Field("leader_recovery_state", "int8", _ALL, tag=0, tagged=_ALL),
        Field("leader_epoch", "int32", _ALL),
        Field("partition_epoch", "int32", _ALL),
        Field("directories", "uuid", "1-9", array=True),
        Field("eligible_leader_replicas", "int32", "2-9", array=True, nullable="2-9", tag=1, tagged="2-9"),
        Field("last_known_elr", "int32", "2-9", array=True, nullable="2-9", tag=2, tagged="2-9"),
    )
    partition_id: int
    topic_id: bytes
    replicas: list[int]
    isr: list[int]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: list[bytes]
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None


LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


class PartitionChange(KraftRecord):
    """What is None, or the value above, did not change."""

    __slots__ = (
        "adding_replicas",
        "directories",
        "eligible_leader_replicas",
        "isr",
        "last_known_elr",
        "leader",
        "leader_recovery_state",
        "partition_id",
        "removing_replicas",
        "replicas",
        "topic_id",
    )
    DEFAULTS: ClassVar[dict[str, object]] = {
        "isr": None,
        "leader": LEADER_UNCHANGED,
        "replicas": None,
        "removing_replicas": None,
        "adding_replicas": None,
        "leader_recovery_state": RECOVERY_UNCHANGED,
        "directories": None,
        "eligible_leader_replicas": None,
        "last_known_elr": None,
    }
    FIELDS = (
        Field("partition_id", "int32", _ALL),
        Field("topic_id", "uuid", _ALL),
        Field("isr", "int32", _ALL, array=True, nullable=_ALL, tag=0, tagged=_ALL),
        Field("leader", "int32", _ALL, tag=1, tagged=_ALL),
        Field("replicas", "int32", _ALL, array=True, nullable=_ALL, tag=2, tagged=_ALL),
        Field("removing_replicas", "int32", _ALL, array=True, nullable=_ALL, tag=3, tagged=_ALL),
        Field("adding_replicas", "int32", _ALL, array=True, nullable=_ALL, tag=4, tagged=_ALL),
        Field("leader_recovery_state", "int8", _ALL, tag=5, tagged=_ALL),
        Field("directories", "uuid", "1-9", array=True, nullable="1-9", tag=8, tagged="1-9"),
        Field("eligible_leader_replicas", "int32", "2-9", array=True, nullable="2-9", tag=6, tagged="2-9"),
        Field("last_known_elr", "int32", "2-9", array=True, nullable="2-9", tag=7, tagged="2-9"),
    )
    partition_id: int
    topic_id: bytes
    isr: list[int] | None
    leader: int
    replicas: list[int] | None
    removing_replicas: list[int] | None
    adding_replicas: list[int] | None
    leader_recovery_state: int
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None


class ConfigRecord(KraftRecord):
    __slots__ = ("name", "resource_name", "resource_type", "value")
    DEFAULTS: ClassVar[dict[str, object]] = {"value": None}
    FIELDS = (
        Field("resource_type", "int8", _ALL),
        Field("resource_name", "string", _ALL),
        Field("name", "string", _ALL),
        Field("value", "string", _ALL, nullable=_ALL),
    )
    resource_type: int
    resource_name: str
    name: str
    value: str | None


class RemoveTopic(KraftRecord):
    __slots__ = ("topic_id",)
    FIELDS = (Field("topic_id", "uuid", _ALL),)
    topic_id: bytes


class BrokerState(KraftRecord):
    """A broker is fenced or unfenced: who is alive does not outlast the migration."""

    __slots__ = ("epoch", "id")
    FIELDS = (Field("id", "int32", _ALL), Field("epoch", "int64", _ALL))


class BrokerRegistrationChange(KraftRecord):
    __slots__ = (
        "broker_epoch",
        "broker_id",
        "cordoned_log_dirs",
        "fenced",
        "in_controlled_shutdown",
        "log_dirs",
    )
    DEFAULTS: ClassVar[dict[str, object]] = {"cordoned_log_dirs": None}
    FIELDS = (
        Field("broker_id", "int32", _ALL),
        Field("broker_epoch", "int64", _ALL),
        Field("fenced", "int8", _ALL, tag=0, tagged=_ALL),
        Field("in_controlled_shutdown", "int8", "1-9", tag=1, tagged="1-9"),
        Field("log_dirs", "uuid", "2-9", array=True, tag=2, tagged="2-9"),
        Field("cordoned_log_dirs", "uuid", "3-9", array=True, nullable="3-9", tag=3, tagged="3-9"),
    )
    broker_id: int
    log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None


class DelegationToken(KraftRecord):
    __slots__ = (
        "expiration_timestamp",
        "issue_timestamp",
        "max_timestamp",
        "owner",
        "renewers",
        "requester",
        "token_id",
    )
    FIELDS = (
        Field("owner", "string", _ALL),
        Field("requester", "string", _ALL),
        Field("renewers", "string", _ALL, array=True),
        Field("issue_timestamp", "int64", _ALL),
        Field("max_timestamp", "int64", _ALL),
        Field("expiration_timestamp", "int64", _ALL),
        Field("token_id", "string", _ALL),
    )
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str


class RemoveDelegationToken(KraftRecord):
    __slots__ = ("token_id",)
    FIELDS = (Field("token_id", "string", _ALL),)
    token_id: str


class UserScramCredential(KraftRecord):
    __slots__ = ("iterations", "mechanism", "name", "salt", "server_key", "stored_key")
    FIELDS = (
        Field("name", "string", _ALL),
        Field("mechanism", "int8", _ALL),
        Field("salt", "bytes", _ALL),
        Field("stored_key", "bytes", _ALL),
        Field("server_key", "bytes", _ALL),
        Field("iterations", "int32", _ALL),
    )
    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class RemoveUserScramCredential(KraftRecord):
    __slots__ = ("mechanism", "name")
    FIELDS = (Field("name", "string", _ALL), Field("mechanism", "int8", _ALL))
    name: str
    mechanism: int


class FeatureLevel(KraftRecord):
    __slots__ = ("feature_level", "name")
    FIELDS = (Field("name", "string", _ALL), Field("feature_level", "int16", _ALL))
    name: str
    feature_level: int


class QuotaEntity(KraftRecord):
    __slots__ = ("entity_name", "entity_type")
    FIELDS = (
        Field("entity_type", "string", _ALL),
        Field("entity_name", "string", _ALL, nullable=_ALL),
    )
    entity_type: str
    entity_name: str | None


class ClientQuota(KraftRecord):
    __slots__ = ("entity", "key", "remove", "value")
    FIELDS = (
        Field("entity", QuotaEntity, _ALL, array=True),
        Field("key", "string", _ALL),
        Field("value", "float64", _ALL),
        Field("remove", "bool", _ALL),
    )
    entity: list[QuotaEntity]
    key: str
    value: float
    remove: bool


class ProducerIds(KraftRecord):
    __slots__ = ("broker_epoch", "broker_id", "next_producer_id")
    FIELDS = (
        Field("broker_id", "int32", _ALL),
        Field("broker_epoch", "int64", _ALL),
        Field("next_producer_id", "int64", _ALL),
    )
    next_producer_id: int


class AccessControlEntry(KraftRecord):
    __slots__ = (
        "host",
        "id",
        "operation",
        "pattern_type",
        "permission_type",
        "principal",
        "resource_name",
        "resource_type",
    )
    FIELDS = (
        Field("id", "uuid", _ALL),
        Field("resource_type", "int8", _ALL),
        Field("resource_name", "string", _ALL),
        Field("pattern_type", "int8", _ALL),
        Field("principal", "string", _ALL),
        Field("host", "string", _ALL),
        Field("operation", "int8", _ALL),
        Field("permission_type", "int8", _ALL),
    )
    id: bytes
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class RemoveAccessControlEntry(KraftRecord):
    __slots__ = ("id",)
    FIELDS = (Field("id", "uuid", _ALL),)
    id: bytes


class NoOp(KraftRecord):
    __slots__ = ()


class ZkMigrationState(KraftRecord):
    __slots__ = ("zk_migration_state",)
    FIELDS = (Field("zk_migration_state", "int8", _ALL),)
    zk_migration_state: int


class BeginTransaction(KraftRecord):
    __slots__ = ("name",)
    DEFAULTS: ClassVar[dict[str, object]] = {"name": None}
    FIELDS = (Field("name", "string", _ALL, nullable=_ALL, tag=0, tagged=_ALL),)


class EndTransaction(KraftRecord):
    __slots__ = ()


class AbortTransaction(KraftRecord):
    __slots__ = ("reason",)
    DEFAULTS: ClassVar[dict[str, object]] = {"reason": None}
    FIELDS = (Field("reason", "string", _ALL, nullable=_ALL, tag=0, tagged=_ALL),)


class RegisterController(KraftRecord):
    __slots__ = ("controller_id", "end_points", "features", "incarnation_id", "zk_migration_ready")
    FIELDS = (
        Field("controller_id", "int32", _ALL),
        Field("incarnation_id", "uuid", _ALL),
        Field("zk_migration_ready", "bool", _ALL),
        Field("end_points", Endpoint, _ALL, array=True),
        Field("features", FeatureRange, _ALL, array=True),
    )


class ClearElr(KraftRecord):
    """For one topic, or all when the name is empty."""

    __slots__ = ("topic_name",)
    FIELDS = (Field("topic_name", "string", _ALL),)
    topic_name: str


# Number in the log -> class and the newest version that Apache Kafka 4.3 knows.
RECORDS: dict[int, tuple[type[KraftRecord], int]] = {
    0: (RegisterBroker, 4),
    1: (UnregisterBroker, 0),
    2: (TopicRecord, 0),
    3: (PartitionRecord, 2),
    4: (ConfigRecord, 0),
    5: (PartitionChange, 2),
    7: (BrokerState, 0),
    8: (BrokerState, 0),
    9: (RemoveTopic, 0),
    10: (DelegationToken, 0),
    11: (UserScramCredential, 0),
    12: (FeatureLevel, 0),
    14: (ClientQuota, 0),
    15: (ProducerIds, 0),
    17: (BrokerRegistrationChange, 3),
    18: (AccessControlEntry, 0),
    19: (RemoveAccessControlEntry, 0),
    20: (NoOp, 0),
    21: (ZkMigrationState, 0),
    22: (RemoveUserScramCredential, 0),
    23: (BeginTransaction, 0),
    24: (EndTransaction, 0),
    25: (AbortTransaction, 0),
    26: (RemoveDelegationToken, 0),
    27: (RegisterController, 0),
    28: (ClearElr, 0),
}


# Control records of snapshots and of the raft log: their key says which.


class SnapshotHeader(KraftRecord):
    __slots__ = ("last_contained_log_timestamp", "version")
    FIELDS = (Field("version", "int16", _ALL), Field("last_contained_log_timestamp", "int64", _ALL))


class SnapshotFooter(KraftRecord):
    __slots__ = ("version",)
    FIELDS = (Field("version", "int16", _ALL),)


class KraftVersion(KraftRecord):
    __slots__ = ("kraft_version", "version")
    FIELDS = (Field("version", "int16", _ALL), Field("kraft_version", "int16", _ALL))


class VoterEndpoint(KraftRecord):
    __slots__ = ("host", "name", "port")
    FIELDS = (
        Field("name", "string", _ALL),
        Field("host", "string", _ALL),
        Field("port", "uint16", _ALL),
    )


class VersionRange(KraftRecord):
    __slots__ = ("max_supported_version", "min_supported_version")
    FIELDS = (Field("min_supported_version", "int16", _ALL), Field("max_supported_version", "int16", _ALL))


class Voter(KraftRecord):
    __slots__ = ("endpoints", "kraft_version_feature", "voter_directory_id", "voter_id")
    FIELDS = (
        Field("voter_id", "int32", _ALL),
        Field("voter_directory_id", "uuid", _ALL),
        Field("endpoints", VoterEndpoint, _ALL, array=True),
        Field("kraft_version_feature", VersionRange, _ALL),
    )
    voter_id: int


class Voters(KraftRecord):
    __slots__ = ("version", "voters")
    FIELDS = (Field("version", "int16", _ALL), Field("voters", Voter, _ALL, array=True))
    voters: list[Voter]


LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6
