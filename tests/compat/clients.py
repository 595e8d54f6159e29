"""The public clients behind one face, so that a scenario is written once and run with each.

Only what the scenarios need; every method opens what it uses and closes it, so that nothing is shared.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin as confluent_admin
import kafka
import kafka.admin

from tests.oracle.cluster import run_tool
from tests.oracle.leaders import wait_for_leaders

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 120
_DEADLINE_MS = DEADLINE_S * 1000


class Row(NamedTuple):
    """A record as written and read back."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    offset: int | None = None


class Client(Protocol):
    """What every client can do in its own way. Errors are raised as the client's own, named like Kafka's."""

    name: str

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None: ...
    def add_partitions(self, topic: str, total: int) -> None: ...
    def alter(self, topic: str, configs: Mapping[str, str]) -> None: ...
    def configs(self, topic: str) -> dict[str, str]: ...
    def partitions(self, topic: str) -> int: ...
    def topics(self) -> set[str]: ...
    def delete(self, topic: str) -> None: ...
    def produce(
        self, topic: str, rows: Sequence[Row], partition: int = 0, **settings: Any
    ) -> list[int | None]: ...
    def consume(self, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Row]: ...
    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None: ...


class Confluent:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._base = {"bootstrap.servers": bootstrap}
        self.admin = confluent_admin.AdminClient(self._base)

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = confluent_admin.NewTopic(topic, partitions, 1, config=dict(configs or {}))
        self.admin.create_topics([new])[topic].result(DEADLINE_S)
        wait_for_leaders(self._base["bootstrap.servers"], topic, partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([confluent_admin.NewPartitions(topic, total)])[topic].result(DEADLINE_S)

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, topic)
        for name, value in configs.items():
            operation = confluent_admin.AlterConfigOpType.SET
            resource.add_incremental_config(
                confluent_admin.ConfigEntry(name, value, incremental_operation=operation)
            )
        self.admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)

    def configs(self, topic: str) -> dict[str, str]:
        resource = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource].result(DEADLINE_S)
        return {name: entry.value for name, entry in found.items()}

    def partitions(self, topic: str) -> int:
        described = self.admin.describe_topics(confluent_kafka.TopicCollection([topic]))[topic].result(
            DEADLINE_S
        )
        return len(described.partitions)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=DEADLINE_S).topics)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(DEADLINE_S)

    def produce(
        self, topic: str, rows: Sequence[Row], partition: int = 0, **settings: Any
    ) -> list[int | None]:
        config = {key.replace("_", "."): value for key, value in settings.items()}
        config.setdefault("linger.ms", 20)
        producer = confluent_kafka.Producer({**self._base, **config})
        offsets: list[int | None] = []
        failures: list[confluent_kafka.KafkaError] = []

        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            failures.extend([error] if error else [])
            offsets.append(message.offset())

        for row in rows:
            more = {} if row.timestamp is None else {"timestamp": row.timestamp}
            producer.produce(
                topic, row.value, row.key, partition, on_delivery=delivered, headers=list(row.headers), **more
            )
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0, "not all was delivered"
        if failures:
            raise confluent_kafka.KafkaException(failures[0])
        return offsets

    def consume(self, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Row]:
        consumer = confluent_kafka.Consumer(
            {
                **self._base,
                "group.id": "compat-assign",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
        rows: list[Row] = []
        while len(rows) < count:
            messages = consumer.consume(count - len(rows), DEADLINE_S)
            assert messages, f"only {len(rows)} of {count} records came"
            for each in messages:
                if each.error():
                    raise confluent_kafka.KafkaException(each.error())
                headers = tuple((name, value) for name, value in each.headers() or ())
                rows.append(Row(each.value(), each.key(), headers, each.timestamp()[1], each.offset()))
        consumer.close()
        return rows

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        consumer = confluent_kafka.Consumer({**self._base, "group.id": "compat-times"})
        asked = [confluent_kafka.TopicPartition(topic, partition, timestamp)]
        found: int = consumer.offsets_for_times(asked, timeout=DEADLINE_S)[0].offset
        consumer.close()
        return None if found < 0 else found


class KafkaPython:
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _admin(self, ask: Callable[[Any], Any]) -> Any:
        admin = kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            return ask(admin)
        finally:
            admin.close()

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = kafka.admin.NewTopic(
            topic, num_partitions=partitions, replication_factor=1, topic_configs=dict(configs or {})
        )
        self._admin(lambda admin: admin.create_topics([new]))
        wait_for_leaders(self._bootstrap, topic, partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin(lambda admin: admin.create_partitions({topic: kafka.admin.NewPartitions(total)}))

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, topic, dict(configs))
        outcome = self._admin(lambda admin: admin.alter_configs([resource]))["topic"][topic]
        if "[Error" in str(outcome):  # it tells, it does not raise
            raise ValueError(outcome)

    def configs(self, topic: str) -> dict[str, str]:
        resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, topic)
        found = self._admin(lambda admin: admin.describe_configs([resource], config_filter="all"))
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def partitions(self, topic: str) -> int:
        described = self._admin(lambda admin: admin.describe_topics([topic]))
        if described[0]["error_code"]:
            raise LookupError(topic)
        return len(described[0]["partitions"])

    def topics(self) -> set[str]:
        return set(self._admin(lambda admin: admin.list_topics()))

    def delete(self, topic: str) -> None:
        self._admin(lambda admin: admin.delete_topics([topic]))

    def produce(
        self, topic: str, rows: Sequence[Row], partition: int = 0, **settings: Any
    ) -> list[int | None]:
        names = {"max_request_size": "message_max_bytes"}
        config = {key: settings.pop(alias) for key, alias in names.items() if alias in settings}
        config.update(settings)
        config["compression_type"] = (
            None if config.get("compression_type") == "none" else config.get("compression_type")
        )
        if config.get("acks") in (0, 1):
            config["enable_idempotence"] = False
        producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap, linger_ms=20, **config)
        try:
            sent = [
                producer.send(
                    topic,
                    row.value,
                    row.key,
                    headers=list(row.headers),
                    partition=partition,
                    timestamp_ms=row.timestamp,
                )
                for row in rows
            ]
            producer.flush(DEADLINE_S)
            return [each.get(DEADLINE_S).offset for each in sent]
        finally:
            producer.close(timeout=DEADLINE_S)

    def consume(self, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Row]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self._bootstrap, auto_offset_reset="none", max_partition_fetch_bytes=4 << 20
        )
        where = kafka.TopicPartition(topic, partition)
        try:
            consumer.assign([where])
            consumer.seek(where, offset)
            rows: list[Row] = []
            while len(rows) < count:
                got = consumer.poll(_DEADLINE_MS, max_records=count - len(rows))
                assert got, f"only {len(rows)} of {count} records came"
                rows += [Row(m.value, m.key, tuple(m.headers), m.timestamp, m.offset) for m in got[where]]
            return rows
        finally:
            consumer.close()

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        consumer = kafka.KafkaConsumer(bootstrap_servers=self._bootstrap)
        where = kafka.TopicPartition(topic, partition)
        try:
            found = consumer.offsets_for_times({where: timestamp})[where]
            return None if found is None else found.offset
        finally:
            consumer.close()


class AioKafka:
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _admin(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await ask(admin)
            finally:
                await admin.close()

        return asyncio.run(run())

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = aiokafka.admin.NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        _raise_errors(self._admin(lambda admin: admin.create_topics([new])).topic_errors)
        wait_for_leaders(self._bootstrap, topic, partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        more = {topic: aiokafka.admin.NewPartitions(total)}
        _raise_errors(self._admin(lambda admin: admin.create_partitions(more)).topic_errors)

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = aiokafka.admin.config_resource.ConfigResource(
            aiokafka.admin.config_resource.ConfigResourceType.TOPIC, topic, dict(configs)
        )
        for answer in self._admin(lambda admin: admin.alter_configs([resource])):
            _raise_errors([(each[3], each[0], each[1]) for each in answer.resources])

    def configs(self, topic: str) -> dict[str, str]:
        resource = aiokafka.admin.config_resource.ConfigResource(
            aiokafka.admin.config_resource.ConfigResourceType.TOPIC, topic
        )
        answers = self._admin(lambda admin: admin.describe_configs([resource]))
        return {entry[0]: entry[1] for answer in answers for each in answer.resources for entry in each[4]}

    def partitions(self, topic: str) -> int:
        described = self._admin(lambda admin: admin.describe_topics([topic]))
        if described[0]["error_code"]:
            raise LookupError(topic)
        return len(described[0]["partitions"])

    def topics(self) -> set[str]:
        return set(self._admin(lambda admin: admin.list_topics()))

    def delete(self, topic: str) -> None:
        _raise_errors(self._admin(lambda admin: admin.delete_topics([topic])).topic_error_codes)

    def produce(
        self, topic: str, rows: Sequence[Row], partition: int = 0, **settings: Any
    ) -> list[int | None]:
        codec = settings.pop("compression_type", None)
        size = settings.pop("message_max_bytes", 1 << 20)

        async def run() -> list[int | None]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                linger_ms=20,
                compression_type=None if codec == "none" else codec,
                max_request_size=size,
                **settings,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        row.value,
                        row.key,
                        partition,
                        headers=list(row.headers),
                        timestamp_ms=row.timestamp,
                    )
                    for row in rows
                ]
                done = [await asyncio.wait_for(each, DEADLINE_S) for each in sent]
                return [None if each is None else each.offset for each in done]
            finally:
                await producer.stop()

        return asyncio.run(run())

    def _consumer(self, use: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap, auto_offset_reset="none", max_partition_fetch_bytes=4 << 20
            )
            await consumer.start()
            try:
                return await use(consumer)
            finally:
                await consumer.stop()

        return asyncio.run(run())

    def consume(self, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Row]:
        where = aiokafka.TopicPartition(topic, partition)

        async def use(consumer: Any) -> list[Row]:
            consumer.assign([where])
            consumer.seek(where, offset)
            rows: list[Row] = []
            while len(rows) < count:
                got = await consumer.getmany(where, timeout_ms=_DEADLINE_MS, max_records=count - len(rows))
                assert got, f"only {len(rows)} of {count} records came"
                rows += [Row(m.value, m.key, tuple(m.headers), m.timestamp, m.offset) for m in got[where]]
            return rows

        rows: list[Row] = self._consumer(use)
        return rows

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        where = aiokafka.TopicPartition(topic, partition)

        async def use(consumer: Any) -> int | None:
            found = (await consumer.offsets_for_times({where: timestamp}))[where]
            return None if found is None else found.offset

        offset: int | None = self._consumer(use)
        return offset


class Java:
    """Apache Kafka's console tools. They speak text: no null keys, no headers; a JVM per call."""

    name = "java"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _run(self, tool: str, *args: str, stdin: str | None = None) -> str:
        return run_tool(tool, "--bootstrap-server", self._bootstrap, *args, stdin=stdin)

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        settings = [
            each for name, value in (configs or {}).items() for each in ("--config", f"{name}={value}")
        ]
        self._run("kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions), *settings)

    def add_partitions(self, topic: str, total: int) -> None:
        self._run("kafka-topics", "--alter", "--topic", topic, "--partitions", str(total))

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        changes = ",".join(f"{name}={value}" for name, value in configs.items())
        self._run("kafka-configs", "--alter", "--topic", topic, "--add-config", changes)

    def configs(self, topic: str) -> dict[str, str]:
        lines = self._run("kafka-configs", "--describe", "--all", "--topic", topic).splitlines()
        pairs = (line.split()[0].split("=", 1) for line in lines if line.startswith("  "))
        return dict(pairs)

    def partitions(self, topic: str) -> int:
        lines = self._run("kafka-topics", "--describe", "--topic", topic).splitlines()
        return sum("Partition:" in line for line in lines)

    def topics(self) -> set[str]:
        return set(self._run("kafka-topics", "--list").split())

    def delete(self, topic: str) -> None:
        self._run("kafka-topics", "--delete", "--topic", topic)

    def produce(
        self, topic: str, rows: Sequence[Row], partition: int = 0, **settings: Any
    ) -> list[int | None]:
        text = "".join(f"{(row.key or b'').decode()}\t{(row.value or b'').decode()}\n" for row in rows)
        options = ["--reader-property", "parse.key=true"]
        for name, value in settings.items():
            options += ["--command-property", f"{name.replace('_', '.')}={value}"]
        self._run("kafka-console-producer", "--topic", topic, *options, stdin=text)
        return [None] * len(rows)

    def consume(self, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Row]:
        shown = ("print.key", "print.offset", "print.timestamp", "print.headers")
        options = [each for name in shown for each in ("--formatter-property", f"{name}=true")]
        where = ["--partition", str(partition), "--offset", str(offset), "--max-messages", str(count)]
        out = self._run("kafka-console-consumer", "--topic", topic, *where, *options, "--timeout-ms", "90000")
        return [_console_row(line) for line in out.splitlines() if "\t" in line]

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        out = self._run(
            "kafka-get-offsets", "--topic-partitions", f"{topic}:{partition}", "--time", str(timestamp)
        )
        return int(out.strip().rsplit(":", 1)[1]) if out.strip() else None


ALL = (Confluent, KafkaPython, AioKafka, Java)


def eventually(holds: Callable[[], bool]) -> None:
    """Apache Kafka's brokers hear of a change a moment after it was answered; ours at once."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it never became true"


def _console_row(line: str) -> Row:
    stamp, offset, headers, key, value = line.split("\t", 4)
    pairs = () if headers == "NO_HEADERS" else tuple(each.split(":", 1) for each in headers.split(","))
    return Row(
        None if value == "null" else value.encode(),
        None if key == "null" else key.encode(),
        tuple((name, text.encode()) for name, text in pairs),
        int(stamp.split(":")[1]),
        int(offset.split(":")[1]),
    )


def _raise_errors(errors: Sequence[Sequence[Any]]) -> None:
    for each in errors:
        code = each[1]
        if code:
            raise aiokafka.errors.for_code(code)(json.dumps([str(part) for part in each]))
