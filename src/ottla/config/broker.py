"""The broker settings that we honour, under Kafka's names; ours alone begin with `ottla.`."""

from ottla.config.broker_log import LOG_KEYS
from ottla.config.coordinators import COORDINATOR_KEYS
from ottla.config.definitions import (
    INT_MAX,
    ConfigKey,
    Importance,
    Type,
    Update,
    Validator,
    Value,
    at_least,
    by_name,
)
from ottla.config.protection import DEFAULT_PROTOCOL_MAP


def _key(
    name: str,
    type: Type,
    default: Value,
    documentation: str,
    validator: Validator | None = None,
    importance: Importance = Importance.MEDIUM,
    update: Update = Update.READ_ONLY,
) -> ConfigKey:
    return ConfigKey(name, type, default, documentation, validator, importance, update)


HIGH, LOW, MEDIUM = Importance.HIGH, Importance.LOW, Importance.MEDIUM
CLUSTER, PER_BROKER = Update.CLUSTER_WIDE, Update.PER_BROKER
BOOLEAN, STRING, INT, LONG, LIST = Type.BOOLEAN, Type.STRING, Type.INT, Type.LONG, Type.LIST
PASSWORD = Type.PASSWORD

_NETWORK = (
    _key("listeners", LIST, ("PLAINTEXT://:9092",), "Where the broker listens.", None, HIGH),
    _key(
        "advertised.listeners", LIST, None, "The addresses that clients are told to connect to.", None, HIGH
    ),
    _key(
        "listener.security.protocol.map",
        STRING,
        DEFAULT_PROTOCOL_MAP,
        "Which protocol each listener speaks. Only PLAINTEXT is served; others are refused at the start.",
        None,
        LOW,
    ),
    _key("inter.broker.listener.name", STRING, None, "The listener that brokers use among themselves."),
    _key("socket.request.max.bytes", INT, 100 << 20, "The largest request taken.", at_least(1), HIGH),
    _key(
        "socket.send.buffer.bytes",
        INT,
        102_400,
        "SO_SNDBUF of a connection; -1 for the system's.",
        None,
        HIGH,
    ),
    _key(
        "socket.receive.buffer.bytes",
        INT,
        102_400,
        "SO_RCVBUF of a connection; -1 for the system's.",
        None,
        HIGH,
    ),
    _key("socket.listen.backlog.size", INT, 50, "Connections that may wait to be accepted.", at_least(1)),
    _key("connections.max.idle.ms", LONG, 600_000, "A connection silent for this long is closed."),
    _key("max.connections", INT, INT_MAX, "Connections at a time.", at_least(0), MEDIUM, CLUSTER),
    _key(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "Connections at a time of one address.",
        at_least(0),
        MEDIUM,
        CLUSTER,
    ),
    _key(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for some addresses, as address:limit pairs.",
        None,
        MEDIUM,
        CLUSTER,
    ),
    _key("queued.max.requests", INT, 500, "Requests held at a time.", at_least(1), HIGH),
    _key("queued.max.request.bytes", LONG, -1, "Bytes of requests held at a time; -1 for our own default."),
    _key("request.timeout.ms", INT, 30_000, "How long a request between brokers may take.", None, HIGH),
    _key("fetch.max.bytes", INT, 55 << 20, "The largest answer to a fetch.", at_least(1024)),
    _key(
        "max.incremental.fetch.session.cache.slots", INT, 1000, "Fetch sessions kept at a time.", at_least(0)
    ),
    _key("max.request.partition.size.limit", INT, 2000, "Partitions described in one answer.", at_least(1)),
)

_TOPICS = (
    _key("broker.id", INT, -1, "The number of this broker; node.id is its newer name.", None, HIGH),
    _key("node.id", INT, 1, "The number of this broker.", at_least(0), HIGH),
    _key("broker.rack", STRING, None, "Where the broker stands; replicas are spread over racks."),
    _key("num.partitions", INT, 1, "Partitions of a topic made without a number.", at_least(1)),
    _key("default.replication.factor", INT, 1, "Replicas of a topic made without a number."),
    _key("auto.create.topics.enable", BOOLEAN, True, "Whether asking for a topic may make it.", None, HIGH),
    _key("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.", None, HIGH),
)

_CLUSTER = (
    _key("broker.session.timeout.ms", INT, 9000, "A broker not heard of for this long is lost."),
    _key("broker.heartbeat.interval.ms", INT, 2000, "How often a broker shows that it lives."),
    _key("controlled.shutdown.enable", BOOLEAN, True, "Whether leaders move away before a clean stop."),
    _key("controller.socket.timeout.ms", INT, 30_000, "How long a request to the controller may take."),
    _key("auto.leader.rebalance.enable", BOOLEAN, True, "Whether preferred leaders get back.", None, HIGH),
    _key(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often that is looked at.",
        at_least(1),
        HIGH,
    ),
    _key("num.replica.fetchers", INT, 1, "Connections to one leader.", at_least(1), HIGH, CLUSTER),
    _key("replica.fetch.backoff.ms", INT, 1000, "A follower's pause after an error.", at_least(0)),
    _key("replica.fetch.max.bytes", INT, 1 << 20, "Bytes asked of one partition.", at_least(0)),
    _key("replica.fetch.min.bytes", INT, 1, "A leader answers when it has this much.", None, HIGH),
    _key("replica.fetch.response.max.bytes", INT, 10 << 20, "Bytes asked for in one fetch.", at_least(0)),
    _key("replica.fetch.wait.max.ms", INT, 500, "A leader answers after this long at most.", None, HIGH),
    _key(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "How often high watermarks are written down.",
        None,
        HIGH,
    ),
    _key(
        "replica.lag.time.max.ms", LONG, 30_000, "A follower behind for this long leaves the ISR.", None, HIGH
    ),
    _key(
        "follower.replication.throttled.rate",
        LONG,
        2**63 - 1,
        "Bytes a second for replicas that are listed as throttled and not in sync yet.",
        at_least(0),
        MEDIUM,
        PER_BROKER,
    ),
    _key(
        "leader.replication.throttled.rate",
        LONG,
        2**63 - 1,
        "Bytes a second to followers not in sync yet, of partitions that are listed as throttled.",
        at_least(0),
        MEDIUM,
        PER_BROKER,
    ),
    _key(
        "replica.selector.class", STRING, None, "Names a RackAwareReplicaSelector to read from the nearest."
    ),
    _key("replica.socket.timeout.ms", INT, 30_000, "A leader silent for this long is left.", None, HIGH),
    _key(
        "zookeeper.connect",
        STRING,
        None,
        "The ensemble of a cluster; without it the broker is alone.",
        None,
        HIGH,
    ),
    _key("zookeeper.session.timeout.ms", INT, 6000, "The session of a broker.", at_least(1), HIGH),
    _key(
        "zookeeper.set.acl", BOOLEAN, False, "Whether only our credentials get at what we write.", None, HIGH
    ),
    _key("zookeeper.ssl.client.enable", BOOLEAN, False, "Whether ZooKeeper is spoken to over TLS."),
    _key("zookeeper.ssl.truststore.location", STRING, None, "A PEM file: whom to trust."),
    _key("zookeeper.ssl.keystore.location", STRING, None, "A PEM file: our own key and certificate."),
    _key("ottla.zookeeper.auth", PASSWORD, None, "digest:USER:PASSWORD, to authenticate with ZooKeeper."),
)

_OURS = (
    _key("ottla.requests.max.bytes", LONG, 256 << 20, "Memory for requests in flight.", at_least(1)),
    _key(
        "ottla.fetch.max.wait.ms",
        INT,
        300_000,
        "A fetch is answered after this time even if the client would wait longer.",
        at_least(0),
    ),
    _key(
        "ottla.connection.responses.max.bytes",
        LONG,
        16 << 20,
        "The largest answer to a fetch, which is what may wait on a connection.",
        at_least(1),
    ),
    _key("ottla.batch.uncompressed.max.bytes", LONG, 64 << 20, "A batch, unpacked.", at_least(1)),
    _key(
        "ottla.request.elements.max",
        INT,
        250_000,
        "Topics, partitions and all other array elements of one request, taken together.",
        at_least(1),
    ),
    _key(
        "ottla.fetch.sessions.partitions.max",
        INT,
        100_000,
        "Partitions in all fetch sessions; a fetch beyond them works without a session.",
        at_least(0),
    ),
    _key("ottla.open.files.max", INT, 2000, "Segment files kept open.", at_least(1)),
    _key("ottla.topics.max", INT, 100_000, "Topics in the cluster.", at_least(1)),
    _key("ottla.partitions.max", INT, 200_000, "Partitions in the cluster.", at_least(1)),
    _key("ottla.groups.max", INT, 100_000, "Groups of a coordinator.", at_least(1)),
    _key(
        "ottla.group.pending.members.max",
        INT,
        1000,
        "Member ids that classic members were given and have not joined with yet, for each partition of the offsets"
        " topic; the oldest are forgotten first.",
        at_least(1),
    ),
    _key(
        "ottla.group.consumer.settling.heartbeat.interval.ms",
        INT,
        500,
        "The heartbeat interval that members are told while their group changes.",
        at_least(1),
    ),
    _key("ottla.group.consumer.settling.ms", INT, 60_000, "How long after a change that lasts.", at_least(0)),
    _key("ottla.metadata.snapshot.entries", INT, 1000, "Metadata entries between snapshots.", at_least(1)),
    _key(
        "ottla.start.without.metadata",
        BOOLEAN,
        False,
        "Whether log folders whose metadata is lost may start from nothing: partitions become *-stray.",
    ),
)

BROKER_KEYS: dict[str, ConfigKey] = by_name(
    (*_NETWORK, *_TOPICS, *LOG_KEYS, *COORDINATOR_KEYS, *_CLUSTER, *_OURS)
)
