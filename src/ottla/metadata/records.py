"""The records of the metadata log: everything the cluster knows is what these add up to."""

from ottla.frozen import frozen

NO_LEADER = -1
RECOVERED = 0
RECOVERING = 1

Ints = tuple[int, ...]


@frozen
class ClusterCreated:
    cluster_id: str


@frozen
class ControllerChanged:
    """The first record under each controller epoch."""

    controller_id: int
    epoch: int


@frozen
class FeatureSet:
    """A finalized feature; level 0 removes it."""

    name: str
    level: int


@frozen
class Endpoint:
    name: str
    host: str
    port: int
    security_protocol: int = 0


@frozen
class BrokerRegistered:
    """A broker is known, and fenced until it has caught up with this log."""

    broker_id: int
    epoch: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    directories: tuple[bytes, ...] = ()


@frozen
class BrokerUnregistered:
    broker_id: int


@frozen
class BrokerFenced:
    """Lost, or not there yet: leads nothing and is in no ISR."""

    broker_id: int


@frozen
class BrokerUnfenced:
    broker_id: int


@frozen
class BrokerStopping:
    """In a clean shutdown: may answer, but leads nothing new."""

    broker_id: int


@frozen
class TopicCreated:
    name: str
    topic_id: bytes


@frozen
class TopicDeleted:
    """The topic, its partitions and its settings."""

    topic_id: bytes


@frozen
class PartitionCreated:
    topic_id: bytes
    partition: int
    replicas: Ints
    isr: Ints
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: Ints = ()
    last_known_elr: Ints = ()
    adding: Ints = ()
    removing: Ints = ()
    directories: tuple[bytes, ...] = ()
    recovery_state: int = RECOVERED


@frozen
class PartitionChanged:
    """The whole new state of a partition, not a difference: a reader needs no earlier record."""

    topic_id: bytes
    partition: int
    replicas: Ints
    isr: Ints
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: Ints = ()
    last_known_elr: Ints = ()
    adding: Ints = ()
    removing: Ints = ()
    directories: tuple[bytes, ...] = ()
    recovery_state: int = RECOVERED


@frozen
class SoleReplicasRestarted:
    """A broker is back and leads, under new leader epochs, every partition that it alone holds.

    One record, so that a broker without a cluster starts quickly however many partitions it has.
    """

    broker_id: int


@frozen
class ConfigSet:
    """One setting of a resource (the protocol's resource types); None unsets it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@frozen
class ProducerIdsAllocated:
    """Ids below `next_producer_id` are given away; the block before it belongs to this broker."""

    broker_id: int
    next_producer_id: int


@frozen
class AclAdded:
    """A rule, in the protocol's numbers for resource type, pattern type, operation and permission."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


@frozen
class AclRemoved:
    """The rule with these fields is gone."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


@frozen
class ScramSet:
    """A user's credential for one SCRAM mechanism (the protocol's number): derived keys, never a password."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@frozen
class ScramRemoved:
    name: str
    mechanism: int


@frozen
class QuotaEntity:
    """Part of who a quota is for: `kind` is user, client-id or ip; `name` None is the default of the kind."""

    kind: str
    name: str | None


@frozen
class QuotaSet:
    """One quota, its number as text; None removes it."""

    entity: tuple[QuotaEntity, ...]
    key: str
    value: str | None


@frozen
class TokenSet:
    """A delegation token, created or renewed. Its secret is derived from the token id and a key that all
    brokers have: it is not written."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int


@frozen
class TokenRemoved:
    token_id: str


SecurityRecord = AclAdded | AclRemoved | ScramSet | ScramRemoved | QuotaSet | TokenSet | TokenRemoved

Record = (
    ClusterCreated
    | ControllerChanged
    | FeatureSet
    | BrokerRegistered
    | BrokerUnregistered
    | BrokerFenced
    | BrokerUnfenced
    | BrokerStopping
    | TopicCreated
    | TopicDeleted
    | PartitionCreated
    | PartitionChanged
    | SoleReplicasRestarted
    | ConfigSet
    | ProducerIdsAllocated
    | SecurityRecord
)
