"""Values with schemas through Spark: written with registration, read as columns, also what cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")


@pytest.fixture
def registry(target: Any) -> Iterator[str]:
    from ottla.testing.registry import BrokerRegistry

    registry = BrokerRegistry({"bootstrap.servers": target.bootstrap})
    yield registry.address
    registry.stop()


def test_structs_go_out_with_a_registered_schema_and_come_back_as_columns(topics, make_topic, registry):
    from ottla import Producer
    from ottla.serialization import RegistryClient

    topic = make_topic(partitions=2)
    options = {"valueFormat": "avro", "registry": registry}
    frame = topics.spark.sql(
        "SELECT string(id) AS key, struct(id, timestamp_millis(id) AS at, array('a', 'b') AS tags) AS value "
        "FROM range(100)"
    )
    topics.write(frame, topic, **options)
    assert RegistryClient(registry).version(f"{topic}-value").schema_type == "AVRO"
    with Producer(bootstrap_servers=topics.bootstrap) as producer:
        producer.send(topic, b"no schema", b"bad").result(30)
    read = topics.read(topic, **options, valueMode="column")
    row = read.selectExpr("count(*) n", "sum(value.id) s", "count(valueError) bad").first()
    assert (row.n, row.s, row.bad) == (101, sum(range(100)), 1)
    (bad,) = read.where("valueError IS NOT NULL").select("valueBytes").collect()
    assert bytes(bad.valueBytes) == b"no schema"
    one = read.where("value.id = 7").select("value.*").first()
    assert (one.tags, round(one.at.timestamp() * 1000)) == (["a", "b"], 7)


def test_a_schema_that_the_subject_does_not_allow_ends_the_write_before_anything_is_written(
    topics, make_topic, registry
):
    topic = make_topic(partitions=1)
    options = {"valueFormat": "avro", "registry": registry}
    topics.write(topics.spark.sql("SELECT struct('a' AS id) AS value"), topic, **options)
    with pytest.raises(Exception, match="incompatible with an earlier schema"):
        topics.write(topics.spark.sql("SELECT struct(1 AS id) AS value"), topic, **options)
    assert topics.read(topic).count() == 1
