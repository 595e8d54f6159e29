"""Streams as Spark's DataFrames and back, through topics: `stream.dataframe(spark)`, `app.from_dataframe(df)`."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.errors import TopicAlreadyExists
from ottla.frozen import frozen_with_dict
from ottla.streams.serdes import NumberSerde, Serde, StringSerde

log = logging.getLogger(__name__)


@frozen_with_dict
class Feed:
    """A DataFrame that is written to a topic while the application runs."""

    frame: Any
    topic: str
    partitions: int


def read(spark: Any, client: Mapping[str, Any], topic: str, key: Serde, value: Serde) -> Any:
    """A streaming DataFrame of a topic: key, value (numbers and text as such, JSON and others as text or bytes),
    timestamp, partition, offset."""
    reader = spark.readStream.format("ottla").option("startingOffsets", "earliest").option("subscribe", topic)
    for name, setting in client.items():
        reader = reader.option(f"kafka.{name}", str(setting))
    columns = [_column("key", key), _column("value", value), "timestamp", "partition", "offset"]
    return reader.load().selectExpr(*columns)


def _column(name: str, serde: Serde) -> str:
    if isinstance(serde, NumberSerde) and serde.name != "float64":
        return f"cast(conv(hex({name}), 16, -10) as {'int' if serde.name == 'int32' else 'bigint'}) as {name}"
    if isinstance(serde, StringSerde) or serde.name.startswith("json"):
        return f"cast({name} as string) as {name}"
    return name


def start_feeds(feeds: list[Feed], client: Mapping[str, Any], folder: Path, *, once: bool) -> list[Any]:
    """Writes each DataFrame to its topic; the queries of those that go on."""
    queries = []
    for feed in feeds:
        _ensure(client, feed)
        if not feed.frame.isStreaming:
            _with(feed.frame.write.format("ottla").option("topic", feed.topic), client).mode("append").save()
            continue
        checkpoint = str(folder / feed.topic)
        writer = feed.frame.writeStream.format("ottla").option("topic", feed.topic)
        writer = _with(writer, client).option("checkpointLocation", checkpoint)
        query = (writer.trigger(availableNow=True) if once else writer).start()
        if once:
            query.awaitTermination()
        queries.append(query)
    return queries


def _with(writer: Any, client: Mapping[str, Any]) -> Any:
    for name, setting in client.items():
        writer = writer.option(f"kafka.{name}", str(setting))
    return writer


def _ensure(client: Mapping[str, Any], feed: Feed) -> None:
    with Admin(client) as admin:
        try:
            admin.create_topics([NewTopic(feed.topic, feed.partitions)])
        except TopicAlreadyExists:
            log.debug("topic %s is there already", feed.topic)
