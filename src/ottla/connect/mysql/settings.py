"""Settings of the capture from MariaDB and MySQL, under Debezium's names."""

from __future__ import annotations

from ottla.connect.settings import BOOLEAN, HIGH, INT, LIST, LONG, LOW, PASSWORD, Setting

SETTINGS = (
    Setting("database.hostname", doc="host of the server", importance=HIGH),
    Setting("database.port", INT, 3306, "its port", HIGH, least=1, most=65535),
    Setting("database.user", default="root", doc="needs REPLICATION SLAVE, BINLOG MONITOR, and SELECT on the tables", importance=HIGH),
    Setting("database.password", PASSWORD, None, "its password", HIGH),
    Setting("database.server.id", LONG, 0, "as a replica, of all replicas of the server the only one with it; 0: any number", least=0, most=2**32 - 1),
    Setting("database.ssl.mode", default="disabled", doc="TLS: disabled, required, verify_ca, verify_identity", choices=("disabled", "required", "verify_ca", "verify_identity")),
    Setting("database.ssl.ca", default=None, doc="file with the certificates that are trusted"),
    Setting("database.ssl.cert", default=None, doc="file with the client's certificate"),
    Setting("database.ssl.key", default=None, doc="file with the client's key"),
    Setting("topic.prefix", doc="events go to PREFIX.DATABASE.TABLE", importance=HIGH, empty_allowed=False),
    Setting("database.include.list", LIST, "", "databases as regular expressions; all if empty", HIGH),
    Setting("database.exclude.list", LIST, "", "databases to leave out"),
    Setting("table.include.list", LIST, "", "DATABASE.TABLE as regular expressions; all tables if empty", HIGH),
    Setting("table.exclude.list", LIST, "", "tables to leave out"),
    Setting("snapshot.mode", default="initial", choices=("initial", "initial_only", "never", "no_data"),
            doc="initial: the rows there are, then changes; initial_only: no changes; never, no_data: no rows", importance=HIGH),
    Setting("snapshot.locking.mode", default="none", choices=("none", "minimal"),
            doc="minimal: writers are stopped for a moment with each chunk, as MySQL needs it; none: MariaDB needs no lock"),
    Setting("snapshot.fetch.size", INT, 20_000, "rows of a chunk of the snapshot", least=1, most=1_000_000),
    Setting("snapshot.lock.timeout.ms", LONG, 10_000, "how long a chunk waits for a table that is being altered", least=1),
    Setting("tombstones.on.delete", BOOLEAN, True, "a record with a null value follows each delete"),
    Setting("skipped.operations", LIST, "t", "c, u, d, t or none: events that are not written"),
    Setting("provide.transaction.metadata", BOOLEAN, False, "events to PREFIX.transaction, and their order in each event"),
    Setting("decimal.handling.mode", default="precise", choices=("precise", "double", "string")),
    Setting("time.precision.mode", default="adaptive_time_microseconds", choices=("adaptive_time_microseconds", "connect")),
    Setting("binary.handling.mode", default="bytes", choices=("bytes", "base64", "base64-url-safe", "hex")),
    Setting("bigint.unsigned.handling.mode", default="long", choices=("long", "precise")),
    Setting("include.schema.changes", BOOLEAN, False, "not supported: statements that change tables are not written", LOW,
            check=lambda value: "include.schema.changes=true is not supported; each event has its schema" if value else None),
    Setting("heartbeat.interval.ms", INT, 0, "a record to __debezium-heartbeat.PREFIX this often; 0: none", least=0),
    Setting("heartbeat.topics.prefix", default="__debezium-heartbeat", doc="of the heartbeats' topic", importance=LOW),
)  # fmt: skip
