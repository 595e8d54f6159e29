"""Spark: a streaming query from topic to topic, tested on a broker in the test's own process."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from confluent_kafka import Producer

from ottla.testing import Broker

# PySpark leaves sockets to the garbage collector.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def shout(spark: Any, bootstrap: str, checkpoint: Path) -> Any:
    """The code under test: words in, words in capitals out, exactly once."""
    words = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "words")
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        words.selectExpr("key", "CAST(upper(CAST(value AS STRING)) AS BINARY) AS value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "shouts")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def test_words_are_shouted(spark: Any, ottla_broker: Broker, tmp_path: Path) -> None:
    ottla_broker.create_topic("words", partitions=2)
    ottla_broker.create_topic("shouts", partitions=2)
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap})
    for word in ("hear", "me"):
        producer.produce("words", word)
    producer.flush(60)
    query = shout(spark, ottla_broker.bootstrap, tmp_path / "checkpoint")
    assert query.awaitTermination(120)
    assert sorted(each.value for each in ottla_broker.records("shouts")) == [b"HEAR", b"ME"]
