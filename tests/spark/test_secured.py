"""Topics in and out of Spark over TLS, with a login: driver and workers get in with the same options."""

from __future__ import annotations

import pytest

from ottla.testing import Broker

pytest.importorskip("pyspark", reason="needs the extra spark")


def test_a_topic_is_written_and_read_over_sasl_ssl(spark, checkpoint):
    with Broker(security="SASL_SSL", users={"alice": "secret"}, authorizer=True) as broker:
        broker.create_topic("squares", partitions=2)
        broker.create_topic("copies", partitions=2)
        for topic in ("squares", "copies"):
            broker.allow("alice", "READ", "WRITE", "DESCRIBE", topic=topic)
        # Exactly once: its transactions, its marker and the group that shows its progress.
        broker.allow("alice", "ALL", transactional_id="*")
        broker.allow("alice", "ALL", group="*")
        broker.allow("alice", "CREATE", "DESCRIBE", "READ", topic="__spark_ottla_markers")
        options = {f"kafka.{name}": text for name, text in broker.client_settings("alice").items()}
        rows = spark.range(100).selectExpr("cast(id as string) key", "cast(id * id as string) value")
        rows.write.format("ottla").options(**options).option("topic", "squares").save(mode="append")
        read = spark.read.format("ottla").options(**options).option("subscribe", "squares").load()
        assert read.count() == 100
        stream = (
            spark.readStream.format("ottla")
            .options(**options)
            .option("subscribe", "squares")
            .option("startingOffsets", "earliest")
            .load()
        )
        query = (
            stream.writeStream.format("ottla")
            .options(**options)
            .option("topic", "copies")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
        assert len(broker.records("copies")) == 100


def test_a_wrong_password_is_the_first_thing_that_is_said(spark):
    with Broker(security="SASL_SSL", users={"alice": "secret"}) as broker:
        settings = broker.client_settings("alice") | {"sasl.password": "wrong"}
        options = {f"kafka.{name}": text for name, text in settings.items()}
        with pytest.raises(Exception, match="invalid credentials"):
            spark.read.format("ottla").options(**options).option("subscribe", "t").load().count()
