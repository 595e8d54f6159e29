"""`connector.class=spark`, `format=...`: any streaming source or sink of Spark as a connector.

As a source (`topic`) its rows go to the topic: the columns key and value if it has them, else each row as JSON. As a
sink (`topics`) it gets key, value, topic, partition, offset, timestamp. Settings `option.NAME` are its. Progress
is in `checkpoint`, a folder that must last: it is Spark's own, not the connector's offsets.
"""

import threading
from collections.abc import Iterable
from typing import Any

from ottla.client.admin import Admin
from ottla.connect.errors import ConfigError
from ottla.connect.running.base import await_topics
from ottla.connect.settings import HIGH, MEDIUM, STRING, Setting
from ottla.connect.spi import Batch, Json, Limit, Sink, SinkBatch, Source
from ottla.connect.tasks.spec import Spec
from ottla.connect.tasks.topics import TopicCreation

_COMMON = (
    Setting("format", STRING, doc="Name of the format, as for readStream.format", importance=HIGH),
    Setting("checkpoint", STRING, doc="Folder for Spark's checkpoint; must last", importance=HIGH),
    Setting("trigger.interval", STRING, None, "As '10 seconds'; without one, as fast as it goes", MEDIUM),
    Setting(
        "columns", STRING, None, "SQL expressions, separated by ;, instead of the columns as they are", MEDIUM
    ),
)


class SparkSource(Source):
    """Never asked to read: the query is Spark's."""

    settings = (
        *_COMMON,
        Setting("topic", STRING, doc="Topic to write to", importance=HIGH),
        Setting(
            "schema", STRING, None, "As 'id INT, name STRING': files of JSON, CSV, Parquet need one", MEDIUM
        ),
    )

    def partitions(self) -> Iterable[Json]:
        return [{"checkpoint": self.config["checkpoint"]}]

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        raise ConfigError("connector.class=spark needs the runner spark: ottla connect --runner spark")


class SparkSink(Sink):
    settings = (*_COMMON, Setting("output.mode", STRING, "append", "append, update or complete", MEDIUM))

    def write(self, batch: SinkBatch) -> None:
        raise ConfigError("connector.class=spark needs the runner spark: ottla connect --runner spark")


def is_format(spec: Spec) -> bool:
    return spec.plugin.load() in (SparkSource, SparkSink)


def prepare(spec: Spec, stopping: threading.Event) -> bool:
    """A source's topic is created, a sink waits for its topics. False: told to stop before they were there."""
    if spec.kind == "source":
        config = spec.parsed()
        creation = TopicCreation(config, spec.client("admin"))
        try:
            creation.ensure(config["topic"])
        finally:
            creation.close()
        return True
    with Admin(spec.client("admin")) as admin:
        return bool(await_topics(spec, admin, stopping))


def start(spec: Spec, spark: Any) -> "FormatQuery":
    config = spec.parsed()
    options = config.with_prefix("option.")
    client = {f"kafka.{name}": str(value) for name, value in spec.client().items()}
    if spec.kind == "source":
        source = spark.readStream.format(config["format"]).options(**options)
        frame = (source.schema(config["schema"]) if config["schema"] else source).load()
        rows = frame.selectExpr(*_chosen(config["columns"], frame.columns))
        writer = rows.writeStream.format("ottla").options(**client).option("topic", config["topic"])
    else:
        topics = ",".join(config["topics"])
        subscribed = ("subscribe", topics) if topics else ("subscribePattern", config["topics.regex"])
        reader = spark.readStream.format("ottla").options(**client).option("startingOffsets", "earliest")
        frame = reader.option(*subscribed).load()
        rows = frame.selectExpr(*_expressions(config["columns"])) if config["columns"] else frame
        writer = (
            rows.writeStream.format(config["format"]).options(**options).outputMode(config["output.mode"])
        )
    writer = writer.queryName(f"connect-{spec.name}").option("checkpointLocation", config["checkpoint"])
    if config["trigger.interval"]:
        writer = writer.trigger(processingTime=config["trigger.interval"])
    return FormatQuery(writer.start())


def _chosen(columns: str | None, names: list[str]) -> list[str]:
    if columns:
        return _expressions(columns)
    if "value" in names:
        return [f"`{name}`" for name in names if name in ("key", "value", "headers", "partition")]
    return ["to_json(struct(*)) AS value"]


def _expressions(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


class FormatQuery:
    def __init__(self, query: Any) -> None:
        self.query = query

    def stop(self) -> None:
        self.query.stop()
