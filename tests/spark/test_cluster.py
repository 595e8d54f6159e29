"""A Spark cluster of its own: a master and two workers as processes, and the driver in another."""

from __future__ import annotations

import sys

import pytest

from tests.spark.standalone import QUICK, standalone
from tests.spark.test_session import run

pytest.importorskip("pyspark", reason="needs the extra spark")

_COPY = """
import json, os, pathlib
from ottla.spark import session
spark = session("copy", cores=2, memory="512m", java_options=os.environ["QUICK"], settings={
    "spark.master": os.environ["MASTER"], "spark.executor.memory": "512m", "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": os.environ["QUICK"],
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
})
servers, source, sink = os.environ["BOOTSTRAP"], os.environ["STEM"] + "-in", os.environ["STEM"] + "-out"
checkpoint = pathlib.Path(os.environ["CHECKPOINT"])
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient({"bootstrap.servers": servers})
for done in admin.create_topics([NewTopic(source, 4, 1), NewTopic(sink, 4, 1)]).values():
    done.result(60)
def read(builder, topic):
    return (builder.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
            .option("startingOffsets", "earliest").option("minPartitions", "2").load())
def copy():
    frame = read(spark.readStream, source).selectExpr("value key", "cast(getpid() as string) value")
    query = (frame.writeStream.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", sink)
             .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())
    query.awaitTermination()
spark.udf.register("getpid", lambda: __import__("os").getppid(), "int")
numbers = spark.range(0, 20000, numPartitions=2).selectExpr("cast(id as string) value")
numbers.write.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", source).mode("append").save()
copy()
# As if the driver had died between the ends of the transactions and Spark's own note of it.
(checkpoint / "commits" / "0").unlink()
(checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
copy()
found = read(spark.read, sink).selectExpr("count(*) n", "count(distinct key) d", "count(distinct value) p").first()
print("copied", json.dumps(found.asDict()))
spark.stop()
"""


def test_a_cluster_of_a_master_and_two_workers_copies_a_topic_exactly_once(java, ottla, unique, tmp_path):
    with standalone(tmp_path) as master:
        told = run(
            _COPY,
            MASTER=master,
            BOOTSTRAP=ottla.bootstrap,
            STEM=unique("cluster"),
            CHECKPOINT=str(tmp_path / "checkpoint"),
            PYSPARK_PYTHON=sys.executable,
            SPARK_LOCAL_IP="127.0.0.1",
            QUICK=QUICK,
        )
    assert 'copied {"n": 20000, "d": 20000, "p": 2}' in told  # written in both workers, each row once
