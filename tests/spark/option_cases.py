"""One case for each option, mode, trigger and schema that Spark's documentation of its Kafka connector names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.spark.connectors import T0, Side

KV = ("cast(id as string) key", "cast(id * id as string) value")
COPY = ("key", "value")
BYTES = "cast(cast(id as string) as binary)"
HEADERS = "array(named_struct('key', 'h', 'value', cast('1' as binary))) headers"


@dataclass(frozen=True)
class Case:
    where: str
    text: str  # what is asked for, as the table in docs/spark.md shows it
    ask: Callable[[Side], Any]  # gives rows, or raises
    why: str = ""  # the reason if the answers differ on purpose
    alone: bool = False  # its tasks run on and leave no core to other queries


def read(text: str, why: str = "", **options: Any) -> Case:
    return Case("`read`", text, lambda side: side.read(**options), why)


def stream(text: str, why: str = "", **options: Any) -> Case:
    return Case("`readStream`", text, lambda side: side.stream(**options), why)


def write(text: str, *select: str, why: str = "", **options: Any) -> Case:
    return Case("`write`", text, lambda side: side.write(*(select or KV), **options), why)


def sink(text: str, *select: str, why: str = "", **options: Any) -> Case:
    return Case("`writeStream`", text, lambda side: side.sink(*(select or COPY), **options), why)


def both(text: str, why: str = "", **options: Any) -> list[Case]:
    return [read(text, why, **options), stream(text, why, **options)]


ALL_AT = {"TOPIC-A": {"0": 2, "1": 3}}
EDGES = {"TOPIC-A": {"0": -2, "1": -1}}
TIMES = {"TOPIC-A": {"0": T0 + 4, "1": T0 + 7}}
LATE = T0 + 1_000_000
NAMED = "a partition that does not exist is an error, not left out"
WRONG = "a wrong value is an error, even where it would not be used"
MISTYPED = "most likely mistyped: the error has the nearest name"
REAL_TIME = {"realTime": "5 seconds"}
JVM_ONLY = "Spark takes Java's sources and sinks only: [below](#triggers)"
APPEND = 'Spark wants `mode("append")` of Python sinks'

CASES = [
    # which topics
    *both("no `subscribe`, `subscribePattern` or `assign`", subscribe=None),
    *both("`subscribe` and `assign`", subscribe="TOPIC-A", assign={"TOPIC-A": [0]}),
    *both("`subscribe` with two topics", subscribe="TOPIC-A,TOPIC-B"),
    *both("`subscribe` of nothing", subscribe=""),
    *both("`subscribe`: the topic does not exist", subscribe="TOPIC-A-missing"),
    *both("`subscribe`: one of two topics does not exist", subscribe="TOPIC-A,missing"),
    *both("`subscribe`: missing, `failOnDataLoss=false`", subscribe="missing", failOnDataLoss="false"),
    *both("`subscribePattern`", subscribePattern="STEM-.*"),
    *both("`subscribePattern` that matches nothing", subscribePattern="STEM-nothing.*"),
    *both("`assign`", assign={"TOPIC-A": [1]}),
    *both("`assign`: the topic does not exist", assign={"missing": [0]}),
    *both("`assign`: the partition does not exist", NAMED, assign={"TOPIC-A": [0, 7]}),
    *both("`assign` that is no JSON", assign="TOPIC-A"),
    *both("no `kafka.bootstrap.servers`", **{"kafka.bootstrap.servers": None}),
    # from where to where
    *both("`startingOffsets=earliest`", startingOffsets="earliest"),
    *both("`startingOffsets=latest`", startingOffsets="latest"),
    *both("`startingOffsets` for each partition", startingOffsets=ALL_AT),
    *both("`startingOffsets` with -2 and -1", startingOffsets=EDGES),
    *both("`startingOffsets` with -2 for all", startingOffsets={"TOPIC-A": {"0": -2, "1": -2}}),
    *both("`startingOffsets` without a partition", startingOffsets={"TOPIC-A": {"0": 2}}),
    *both("`startingOffsets` with an unknown partition", startingOffsets={"TOPIC-A": {"0": 2, "1": 3, "9": 0}}),
    *both("`startingOffsets` beyond the end", startingOffsets={"TOPIC-A": {"0": 100, "1": 0}}),
    *both(
        "`startingOffsets` beyond the end, `failOnDataLoss=false`",
        startingOffsets={"TOPIC-A": {"0": 100, "1": 0}},
        failOnDataLoss="false",
    ),
    *both("`startingOffsets` that is nonsense", startingOffsets="yesterday"),
    *both("`startingTimestamp`", startingTimestamp=T0 + 5, startingOffsets=None),
    *both("`startingTimestamp` after the last record", startingTimestamp=LATE),
    *both(
        "the same, `startingOffsetsByTimestampStrategy=latest`",
        startingTimestamp=LATE,
        startingOffsetsByTimestampStrategy="latest",
    ),
    *both("`startingTimestamp` before `startingOffsets`", startingTimestamp=T0 + 5, startingOffsets=ALL_AT),
    *both("`startingTimestamp` below 0", "means latest to a broker, so nothing would be read", startingTimestamp=-1),
    *both("`startingOffsetsByTimestamp`", startingOffsetsByTimestamp=TIMES),
    *both("`startingTimestamp` and `startingOffsetsByTimestamp`", startingTimestamp=T0 + 9,
          startingOffsetsByTimestamp=TIMES),
    *both("`startingOffsetsByTimestamp` without a partition", startingOffsetsByTimestamp={"TOPIC-A": {"0": T0}}),
    *both(
        "`startingOffsetsByTimestampStrategy` that is nonsense",
        startingTimestamp=T0,
        startingOffsetsByTimestampStrategy="no",
    ),
    *both("`endingOffsets=latest`", endingOffsets="latest"),
    *both("`endingOffsets=earliest`", endingOffsets="earliest"),
    *both("`endingOffsets` for each partition", endingOffsets=ALL_AT),
    *both("`endingOffsets` with -1", endingOffsets={"TOPIC-A": {"0": 2, "1": -1}}),
    *both("`endingOffsets` with -2", endingOffsets={"TOPIC-A": {"0": 2, "1": -2}}),
    read("`endingTimestamp`", endingTimestamp=T0 + 5),
    stream("`endingTimestamp`", "a stream has no end; Kafka's ignores it", endingTimestamp=T0 + 5),
    *both("`endingOffsetsByTimestamp`", endingOffsetsByTimestamp=TIMES),
    read("an end before the start", startingOffsets=ALL_AT, endingOffsets={"TOPIC-A": {"0": 0, "1": 0}}),
    # how much at a time
    *both("`maxOffsetsPerTrigger`", maxOffsetsPerTrigger=5),
    *both("`maxOffsetsPerTrigger=0`", "nothing would ever be read", maxOffsetsPerTrigger=0),
    read("`maxOffsetsPerTrigger` that is no number", WRONG, maxOffsetsPerTrigger="x"),
    stream("`maxOffsetsPerTrigger` that is no number", maxOffsetsPerTrigger="x"),
    *both("`minOffsetsPerTrigger`", minOffsetsPerTrigger=5),
    *both("`minOffsetsPerTrigger` above `maxOffsetsPerTrigger`", minOffsetsPerTrigger=6, maxOffsetsPerTrigger=5),
    *both("`maxTriggerDelay`", maxTriggerDelay="30s", minOffsetsPerTrigger=5),
    read("`maxTriggerDelay` that is nonsense", WRONG, maxTriggerDelay="soon", minOffsetsPerTrigger=5),
    stream("`maxTriggerDelay` that is nonsense", maxTriggerDelay="soon", minOffsetsPerTrigger=5),
    *both("`minPartitions`", minPartitions=5),
    *both("`minPartitions=0`", minPartitions=0),
    read("`maxRecordsPerPartition`", maxRecordsPerPartition=2),
    stream("`maxRecordsPerPartition`", "exactly once counts on the number of tasks: `minPartitions`",
           maxRecordsPerPartition=2),
    *both("`maxRecordsPerPartition=0`", maxRecordsPerPartition=0),
    # the rest
    *both("`failOnDataLoss=false`", failOnDataLoss="false"),
    *both("`failOnDataLoss` that is nonsense", failOnDataLoss="maybe"),
    *both("`includeHeaders=true`", includeHeaders="true"),
    *both("`groupIdPrefix`", groupIdPrefix="mine"),
    *both("`kafka.group.id`", **{"kafka.group.id": "mine"}),
    *both("`kafkaConsumer.pollTimeoutMs`", **{"kafkaConsumer.pollTimeoutMs": 60_000}),  # type: ignore[arg-type]
    *both("`fetchOffset.numRetries`, `fetchOffset.retryIntervalMs`"),
    *both("`kafka.auto.offset.reset`", **{"kafka.auto.offset.reset": "earliest"}),
    *both("`kafka.enable.auto.commit`", **{"kafka.enable.auto.commit": "false"}),
    *both("`kafka.key.deserializer`", **{"kafka.key.deserializer": "a.b.C"}),
    *both("`kafka.value.deserializer`", **{"kafka.value.deserializer": "a.b.C"}),
    *both("`kafka.interceptor.classes`", **{"kafka.interceptor.classes": "a.b.C"}),
    *both("`kafka.fetch.max.bytes`", **{"kafka.fetch.max.bytes": 1_000_000}),  # type: ignore[arg-type]
    *both("`kafka.isolation.level=read_committed`", **{"kafka.isolation.level": "read_committed"}),
    *both("`kafka.ssl.truststore.location` of a Java key store", "PEM files: `kafka.ssl.ca.location`",
          **{"kafka.ssl.truststore.location": "/trust.jks", "kafka.ssl.truststore.password": "x"}),
    *both("`kafka.` and a name that Kafka does not know", MISTYPED, **{"kafka.fetch.mix.bytes": 1}),
    *both("an option that does not exist", MISTYPED, subscibe="TOPIC-B"),
    read("a schema of one's own", schema="key string"),
    Case("`read`", "the schema", lambda side: side.columns()),
    Case("`read`", "the schema, `includeHeaders=true`", lambda side: side.columns(includeHeaders="true")),
    # triggers
    stream("`trigger(once=True)`", trigger={"once": True}),
    stream("`trigger(processingTime=...)`", trigger={"processingTime": "0 seconds"}),
    # writing
    write('`mode("append")`'),
    write("no mode", why=APPEND, mode=None),
    write('`mode("errorifexists")`', why=APPEND, mode="errorifexists"),
    write('`mode("overwrite")`', mode="overwrite"),
    write('`mode("ignore")`', mode="ignore"),
    write("no `topic`, no column `topic`", into=None),
    write("column `topic`", *KV, "'TOPIC' topic", into=None),
    write("column `topic` and option `topic`", *KV, "'nowhere' topic"),
    write("a null in the column `topic`", *KV, "cast(null as string) topic", into=None),
    write("column `topic` of another type", *KV, "1 topic", into=None),
    write("no column `value`", "cast(id as string) key"),
    write("no column `key`", "cast(id as string) value"),
    write("binary `key` and `value`", f"{BYTES} key", f"{BYTES} value"),
    write("nulls", "cast(null as string) key", "cast(null as string) value"),
    write("column `key` of another type", "id key", "cast(id as string) value"),
    write("column `value` of another type", "id value"),
    write("column `partition`", *KV, "1 partition"),
    write("column `partition` of another type", *KV, "'1' partition"),
    write("a partition that does not exist", *KV, "9 partition", **{"kafka.max.block.ms": 1500}),  # type: ignore[arg-type]
    write("column `headers`", *KV, HEADERS, includeHeaders="true"),
    write("column `headers`, no `includeHeaders`", *KV, HEADERS),
    write("column `headers` of another type", *KV, "array('h') headers", includeHeaders="true"),
    write("columns that a record does not have", *KV, "id as whatever", "id as offset"),
    write("column `VALUE`", "cast(id as string) VALUE"),
    write("`kafka.acks=1`", **{"kafka.acks": "1"}),
    write("`kafka.compression.type=lz4`", **{"kafka.compression.type": "lz4"}),
    write("`kafka.compression.type` that is nonsense", **{"kafka.compression.type": "rar"}),
    write("`kafka.key.serializer`", **{"kafka.key.serializer": "a.b.C"}),
    write("`kafka.value.serializer`", **{"kafka.value.serializer": "a.b.C"}),
    write("`kafka.` and a name that Kafka does not know", why=MISTYPED, **{"kafka.lingers.ms": 1}),
    write("an option that does not exist", why=MISTYPED, topik="x"),
    write("no `kafka.bootstrap.servers`", **{"kafka.bootstrap.servers": None}),
    sink('`outputMode("append")`'),
    sink("all columns of the source, `select` left out", "*"),
    sink('`outputMode("update")`', "key", "cast(count as string) value", group_by="key", mode="update",
         why="Spark knows no updates of Python sinks: `ottla.spark.write_update`"),
    sink('`outputMode("complete")`', "key", "cast(count as string) value", group_by="key", mode="complete"),
    sink("no `topic`, no column `topic`", into=None),
    sink("no column `value`", "key"),
    sink("column `topic`", *COPY, "'TOPIC' topic", into=None),
    sink("`kafka.key.serializer`", **{"kafka.key.serializer": "a.b.C"}),
    sink("`trigger(once=True)`", trigger={"once": True}),
    sink("`trigger(processingTime=...)`", trigger={"processingTime": "0 seconds"}),
    replace(
        sink("`trigger(continuous=...)`", trigger={"continuous": "1 second"},
             why="Spark hands no row to a Python sink, so no epoch is committed: [below](#triggers)"),
        alone=True,
    ),
    Case("`readStream`", "`trigger(realTime=...)`", lambda side: side.relay(REAL_TIME, "update"), JVM_ONLY, alone=True),
    replace(sink("`trigger(realTime=...)`", trigger=REAL_TIME, mode="update", why=JVM_ONLY), alone=True),
]  # fmt: skip
