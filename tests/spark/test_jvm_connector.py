"""Spark's own Kafka connector, unchanged, reads and writes Ottla, and agrees with ours on every column."""

from __future__ import annotations

import pytest

from tests.spark import jvm
from tests.spark.test_session import run

pytest.importorskip("pyspark", reason="needs the extra spark")
if (reason := jvm.why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

_SCRIPT = """
import os
from ottla.spark import session
spark = session("jvm", cores=2, memory="768m", settings={"spark.jars": os.environ["JARS"]}, archive=False)
servers, stem, ck = os.environ["BOOTSTRAP"], os.environ["STEM"], os.environ["CHECKPOINT"]
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient({"bootstrap.servers": servers})
names = [f"{stem}-{i}" for i in range(3)]
for done in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
    done.result(30)
def with_servers(builder):
    return builder.option("kafka.bootstrap.servers", servers)
def read(kind, topic):
    return with_servers(spark.read.format(kind)).option("subscribe", topic).option("includeHeaders", "true").load()
text = "encode(cast(id as string), 'UTF-8')"
rows = spark.range(5000).selectExpr(f"{text} key", f"if(id % 10 = 0, null, {text}) value",
    f"if(id % 3 = 0, array(named_struct('key', 'h', 'value', {text})), null) headers")
with_servers(rows.write.format("kafka")).option("topic", names[0]).option("includeHeaders", "true").save()
def stream(kind, sink, source, target, folder):
    reader = with_servers(spark.readStream.format(kind)).option("startingOffsets", "earliest")
    frame = reader.option("subscribe", source).load()
    query = with_servers(frame.select("key", "value").writeStream.format(sink)).option("topic", target)
    query = query.option("checkpointLocation", f"{ck}/{folder}").trigger(availableNow=True).start()
    query.awaitTermination()
stream("kafka", "kafka", names[0], names[1], "a")
stream("kafka", "ottla", names[0], names[2], "b")
columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
def differences(topic):
    theirs, ours = read("kafka", topic), read("ottla", topic)
    pick = [*columns, "coalesce(headers, array()) headers"]
    theirs, ours = theirs.selectExpr(*pick), ours.selectExpr(*pick)
    return theirs.exceptAll(ours).count() + ours.exceptAll(theirs).count(), ours.count()
for number, name in enumerate(names):
    print("same", number, *differences(name))
spark.stop()
"""


def test_it_reads_and_writes_the_same_as_ours(target, unique, tmp_path):
    told = run(
        _SCRIPT, JARS=jvm.jars(), BOOTSTRAP=target.bootstrap, STEM=unique("jvm"), CHECKPOINT=str(tmp_path)
    )
    for number in range(3):
        assert f"same {number} 0 5000" in told, told[-2000:]
