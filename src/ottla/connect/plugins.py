"""Which connectors there are, and under which names: Java's class names, their short forms, and our own.

Others are found by entry points of the group `ottla.connectors`, or as `package.module:Class` in `connector.class`.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from ottla.connect.errors import ConfigError
from ottla.connect.spi import Plugin, Sink, Source

SOURCE, SINK = "source", "sink"


def _at(where: str) -> Callable[[], Any]:
    module, _, name = where.partition(":")
    return lambda: getattr(import_module(module), name)


def _plugin(kind: str, where: str, *names: str) -> Plugin:
    return Plugin(names, kind, _at(where))


_FILE = "org.apache.kafka.connect.file."
# The first name is the one that REST shows. Modules are imported when a connector is made.
BUILT_IN = (
    _plugin(
        SOURCE,
        "ottla.connect.sources.file:FileSource",
        f"{_FILE}FileStreamSourceConnector",
        "FileStreamSource",
    ),
    _plugin(SINK, "ottla.connect.sinks.file:FileSink", f"{_FILE}FileStreamSinkConnector", "FileStreamSink"),
    _plugin(SOURCE, "ottla.connect.sources.folder:FolderSource", "ottla.connect.FolderSource", "folder"),
    _plugin(SOURCE, "ottla.connect.sources.datagen:DatagenSource", "ottla.connect.DatagenSource", "datagen"),
    _plugin(
        SOURCE,
        "ottla.connect.postgres.source:PostgresSource",
        "io.debezium.connector.postgresql.PostgresConnector",
        "postgres",
    ),
    _plugin(
        SOURCE,
        "ottla.connect.mysql.source:MariaDbSource",
        "io.debezium.connector.mariadb.MariaDbConnector",
        "mariadb",
    ),
    _plugin(
        SOURCE,
        "ottla.connect.mysql.source:MySqlSource",
        "io.debezium.connector.mysql.MySqlConnector",
        "mysql",
    ),
    _plugin(
        SOURCE,
        "ottla.connect.sql.source:SqlSource",
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "sql-source",
    ),
    _plugin(
        SINK,
        "ottla.connect.sql.sink:SqlSink",
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "io.aiven.connect.jdbc.JdbcSinkConnector",
        "sql-sink",
    ),
    _plugin(SINK, "ottla.connect.lakes.files:FilesSink", "ottla.connect.FilesSink", "files", "parquet", "s3"),
    _plugin(SINK, "ottla.connect.lakes.delta:DeltaSink", "ottla.connect.DeltaSink", "delta"),
    _plugin(SINK, "ottla.connect.lakes.iceberg:IcebergSink", "ottla.connect.IcebergSink", "iceberg"),
    _plugin(SINK, "ottla.connect.http:HttpSink", "ottla.connect.HttpSink", "http"),
    _plugin(SOURCE, "ottla.connect.running.formats:SparkSource", "ottla.connect.SparkSource", "spark"),
    _plugin(SINK, "ottla.connect.running.formats:SparkSink", "ottla.connect.SparkSink"),
)


def of(config: Mapping[str, str | None]) -> Plugin:
    """Of a connector's config: `spark` is a sink if it has topics, else a source."""
    name = config.get("connector.class") or ""
    if name == "spark":
        name = "SparkSink" if config.get("topics") or config.get("topics.regex") else "SparkSource"
    return connector(name)


def connectors() -> list[Plugin]:
    return [*BUILT_IN, *_installed()]


def connector(name: str) -> Plugin:
    """By any of its names; Java takes a class with or without its package and the ending Connector."""
    wanted = name.strip()
    for plugin in connectors():
        short = [name.rpartition(".")[2] for name in plugin.names]
        if wanted in plugin.names or wanted in short or f"{wanted}Connector" in short:
            return plugin
    if ":" in wanted:
        return _by_place(wanted)
    raise ConfigError(
        "Failed to find any class that implements Connector and "
        f"which name matches {name}, available connectors are: {', '.join(plugin.names[0] for plugin in connectors())}"
    )


def _installed() -> list[Plugin]:
    plugins = []
    for point in entry_points(group="ottla.connectors"):
        kind, _, name = point.name.partition(":")
        plugins.append(Plugin((name, point.value), kind, point.load))
    return plugins


def _by_place(where: str) -> Plugin:
    try:
        plugin = _at(where)()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"connector.class={where} cannot be loaded: {error}") from error
    if isinstance(plugin, type) and issubclass(plugin, Source):
        return Plugin((where,), SOURCE, lambda: plugin)
    if isinstance(plugin, type) and issubclass(plugin, Sink):
        return Plugin((where,), SINK, lambda: plugin)
    raise ConfigError(f"connector.class={where} is neither a Source nor a Sink of ottla.connect.spi")
