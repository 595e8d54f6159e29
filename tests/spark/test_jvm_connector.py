"""Spark's own Kafka connector, unchanged, reads and writes Ottla, and agrees with ours on every column."""

from __future__ import annotations

import pytest

from tests.oracle.transactions import wait_for_markers
from tests.spark import jvm

pytest.importorskip("pyspark", reason="needs the extra spark")
if (reason := jvm.why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

_TEXT = "encode(cast(id as string), 'UTF-8')"
_ROWS = (
    f"{_TEXT} key",
    f"if(id % 10 = 0, null, {_TEXT}) value",
    f"if(id % 3 = 0, array(named_struct('key', 'h', 'value', {_TEXT})), null) headers",
)


class Connectors:
    def __init__(self, spark, bootstrap, folder):
        self.spark, self.bootstrap, self.folder = spark, bootstrap, folder

    def on(self, builder, **options):
        return builder.option("kafka.bootstrap.servers", self.bootstrap).options(**options)

    def read(self, kind, topic):
        return self.on(self.spark.read.format(kind), subscribe=topic, includeHeaders="true").load()

    def copy(self, kind, source, target):
        reader = self.on(self.spark.readStream.format("kafka"), startingOffsets="earliest", subscribe=source)
        writer = reader.load().select("key", "value").writeStream.format(kind)
        chosen = {"topic": target, "checkpointLocation": f"{self.folder}/{kind}"}
        assert self.on(writer, **chosen).trigger(availableNow=True).start().awaitTermination(120)


def test_it_reads_and_writes_the_same_as_ours(spark, target, make_topic, tmp_path):
    both = Connectors(spark, target.bootstrap, tmp_path)
    written, theirs, ours = (make_topic("jvm") for _ in range(3))
    both.on(spark.range(5000).selectExpr(*_ROWS).write.format("kafka"), topic=written).save()
    both.copy("kafka", written, theirs)
    both.copy("ottla", written, ours)
    wait_for_markers(target.bootstrap, ours, partitions=3)
    for topic in (written, theirs, ours):
        kafka, ottla = both.read("kafka", topic), both.read("ottla", topic)
        assert kafka.exceptAll(ottla).count() + ottla.exceptAll(kafka).count() == 0
        assert ottla.count() == 5000
