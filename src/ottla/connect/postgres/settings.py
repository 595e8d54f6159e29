"""Settings of the capture from PostgreSQL, under Debezium's names."""

from __future__ import annotations

from ottla.connect.settings import BOOLEAN, HIGH, INT, LIST, LONG, LOW, PASSWORD, Setting
from ottla.connect.spi import Config

_NAME = r"lower-case letters, digits and underscores"


def _slot_name(value: str) -> str | None:
    if value and len(value) <= 63 and all(item in "abcdefghijklmnopqrstuvwxyz0123456789_" for item in value):
        return None
    return f"Invalid value {value} for configuration slot.name: PostgreSQL allows {_NAME}, 63 at most"


SETTINGS = (
    Setting("database.hostname", doc="host of the server", importance=HIGH),
    Setting("database.port", INT, 5432, "its port", HIGH, least=1, most=65535),
    Setting("database.user", default="postgres", doc="needs REPLICATION, and SELECT on the tables", importance=HIGH),
    Setting("database.password", PASSWORD, None, "its password", HIGH),
    Setting("database.dbname", doc="the database to capture", importance=HIGH),
    Setting("database.sslmode", default="prefer", doc="as in libpq: disable, prefer, require, verify-ca, verify-full"),
    Setting("database.sslrootcert", default=None, doc="file with the certificates that are trusted"),
    Setting("database.sslcert", default=None, doc="file with the client's certificate"),
    Setting("database.sslkey", default=None, doc="file with the client's key"),
    Setting("topic.prefix", doc="events go to PREFIX.SCHEMA.TABLE", importance=HIGH, empty_allowed=False),
    Setting("slot.name", default="debezium", doc="the replication slot; created if it is not there", check=_slot_name),
    Setting("slot.drop.on.stop", BOOLEAN, False, "not supported: a slot stays until it is dropped by hand", LOW,
            check=lambda value: "slot.drop.on.stop=true is not supported; drop the slot by hand" if value else None),
    Setting("plugin.name", default="pgoutput", doc="the decoding plug-in", choices=("pgoutput",)),
    Setting("publication.name", default="dbz_publication", doc="the publication; created if it is not there"),
    Setting("publication.autocreate.mode", default="filtered", choices=("filtered", "all_tables", "disabled"),
            doc="filtered: for the captured tables; all_tables: for all; disabled: it must be there"),
    Setting("table.include.list", LIST, "", "SCHEMA.TABLE as regular expressions; all tables if empty", HIGH),
    Setting("table.exclude.list", LIST, "", "tables to leave out"),
    Setting("schema.include.list", LIST, "", "schemas as regular expressions; all if empty"),
    Setting("schema.exclude.list", LIST, "", "schemas to leave out"),
    Setting("snapshot.mode", default="initial", choices=("initial", "initial_only", "never", "no_data"),
            doc="initial: the rows there are, then changes; initial_only: no changes; never, no_data: no rows", importance=HIGH),
    Setting("snapshot.fetch.size", INT, 20_000, "rows of a chunk of the snapshot", least=1, most=1_000_000),
    Setting("snapshot.lock.timeout.ms", LONG, 10_000, "how long a chunk waits for a table that is being altered", least=1),
    Setting("tombstones.on.delete", BOOLEAN, True, "a record with a null value follows each delete"),
    Setting("skipped.operations", LIST, "t", "c, u, d, t or none: events that are not written"),
    Setting("provide.transaction.metadata", BOOLEAN, False, "events to PREFIX.transaction, and their order in each event"),
    Setting("decimal.handling.mode", default="precise", choices=("precise", "double", "string")),
    Setting("time.precision.mode", default="adaptive", choices=("adaptive", "adaptive_time_microseconds", "connect")),
    Setting("interval.handling.mode", default="numeric", choices=("numeric", "string")),
    Setting("binary.handling.mode", default="bytes", choices=("bytes", "base64", "base64-url-safe", "hex")),
    Setting("hstore.handling.mode", default="json", choices=("json", "map")),
    Setting("money.fraction.digits", INT, 2, "of columns of the type money", LOW, least=0, most=10),
    Setting("unavailable.value.placeholder", default="__debezium_unavailable_value",
            doc="for a long value that an update did not touch"),
    Setting("heartbeat.interval.ms", INT, 0, "a record to __debezium-heartbeat.PREFIX this often; 0: none", least=0),
    Setting("heartbeat.topics.prefix", default="__debezium-heartbeat", doc="of the heartbeats' topic", importance=LOW),
    Setting("heartbeat.action.query", default=None, doc="a statement that runs with every heartbeat", importance=LOW),
)  # fmt: skip


def connection_string(config: Config) -> str:
    from psycopg.conninfo import make_conninfo

    parts = {
        "host": config["database.hostname"],
        "port": config["database.port"],
        "user": config["database.user"],
        "password": config.password("database.password") or None,
        "dbname": config["database.dbname"],
        "sslmode": config["database.sslmode"],
        "sslrootcert": config["database.sslrootcert"],
        "sslcert": config["database.sslcert"],
        "sslkey": config["database.sslkey"],
        "connect_timeout": 10,
        "application_name": f"ottla connect {config['topic.prefix']}",
        "keepalives_idle": 30,
    }
    return make_conninfo(**{name: value for name, value in parts.items() if value is not None})
