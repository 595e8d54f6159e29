"""Debezium on Java's Connect against an Ottla broker, and what it writes for the changes of `clinic.py`.

    python -m tests.connect.debezium     writes fixtures/debezium-postgres.json again

The events are kept with their schemas, keys, headers and timestamps set aside; what differs from run to run (times,
positions in the log, transaction ids) is taken out by `comparable`, which the comparison uses on both sides.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

from ottla.client import Admin, Consumer
from ottla.client.values import ConsumerRecord, TopicPartition
from ottla.connect.converters.headers import SimpleHeaderConverter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.spi import SourceRecord
from tests.connect import clinic
from tests.connect.databases import Postgres, why_no_postgres
from tests.oracle import cluster
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports

VERSION = "3.6.3.Final"
FIXTURE = Path(__file__).with_name("fixtures") / "debezium-postgres.json"
_CACHE = Path.home() / ".cache" / "ottla-oracle"
_WAIT_S = 180
_OF_THE_RUN = frozenset({"ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "version"})
# The second connector has the settings that people change most.
CONNECTORS: dict[str, dict[str, str]] = {
    "usual": {},
    "other": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "interval.handling.mode": "string",
        "binary.handling.mode": "base64",
        "tombstones.on.delete": "false",
        "provide.transaction.metadata": "true",
    },
}


def why_not() -> str | None:
    """The reason why Debezium cannot run here, or None."""
    return cluster.why_not() or why_no_postgres()


def settings(name: str, server: Postgres, database: str) -> dict[str, str]:
    """The same for Debezium and for ours."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.password": "",
        "database.dbname": database,
        "topic.prefix": name,
        "plugin.name": "pgoutput",
        "slot.name": f"slot_{name}",
        "publication.name": f"publication_{name}",
        "publication.autocreate.mode": "filtered",
        "table.include.list": ",".join(f"{clinic.SCHEMA}.{table}" for table in clinic.TABLES),
        "skipped.operations": "none",
        **CONNECTORS[name],
    }


def plugin(database: str = "postgres", version: str = VERSION, jars: Sequence[str] = ()) -> Path:
    """The folder with Debezium's jars, and more `jars` beside them; Maven brings them once."""
    folder = _CACHE / (f"debezium-{version}" if database == "postgres" else f"debezium-{database}-{version}")
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        copied = Path(tempfile.mkdtemp(dir=_CACHE))
        _from_maven(f"io.debezium:debezium-connector-{database}:{version}:tar.gz:plugin", copied)
        (archive,) = copied.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(copied / "plugin", filter="data")
        for jar in jars:
            _from_maven(jar, copied / "plugin" / f"debezium-connector-{database}")
        (copied / "plugin").rename(folder)
    return folder


def _from_maven(artifact: str, folder: Path) -> None:
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
    get = ["mvn", "-B", "-q", f"{goal}:get", f"-Dartifact={artifact}", "-Dtransitive=false"]
    subprocess.run(get, check=True)
    copy = ["mvn", "-B", "-q", f"{goal}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    subprocess.run(copy, check=True)


@contextmanager
def java_connect(bootstrap: str, folder: Path, plugins: Path | None = None) -> Iterator[str]:
    """A worker of Java's Connect with Debezium; the address of its REST API."""
    port = free_ports(1)[0]
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": "java-connect",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "config.storage.topic": "java-configs",
        "offset.storage.topic": "java-offsets",
        "status.storage.topic": "java-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.flush.interval.ms": "1000",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.path": str(plugins or plugin()),
        "plugin.discovery": "service_load",
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    with (folder / "connect.log").open("wb") as log:
        worker = cluster.start_tool("connect-distributed", str(file), stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        _until_it_answers(f"{address}/connectors", worker, folder / "connect.log")
        yield address
    finally:
        worker.kill()
        worker.wait()


def start_connector(address: str, name: str, config: Mapping[str, str]) -> None:
    body = json.dumps({"name": name, "config": {**config, "tasks.max": "1"}}).encode()
    request = urllib.request.Request(f"{address}/connectors", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"Connect refused {name}: {error.read().decode()}") from error


def _until_it_answers(url: str, process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"Java's Connect did not start:\n{log.read_text()[-4000:]}")


def prepare(server: Postgres, database: str) -> None:
    server.new_database(database)
    for statement in (*clinic.CREATE, *clinic.ROWS):
        server.execute(statement, database=database)


def change(server: Postgres, database: str) -> None:
    with server.connect(database) as connection:
        for statements in clinic.CHANGES:
            with connection.transaction():
                for statement in statements:
                    connection.execute(statement)


def read_until_last(
    bootstrap: str, name: str, config: Mapping[str, str], tables: Sequence[str]
) -> list[dict[str, Any]]:
    """All events of a connector's topics, when the last change is there and 3 s have brought nothing more.

    The topics are assigned, not subscribed: that of the transactions is created by the first change, and a member of
    a group may learn of it after the 3 s.
    """
    deadline = time.monotonic() + _WAIT_S
    topics = [f"{name}.{clinic.SCHEMA}.{table}" for table in tables]
    if config.get("provide.transaction.metadata") == "true":
        topics.append(f"{name}.transaction")
    _until_created(bootstrap, topics, deadline)
    events: list[dict[str, Any]] = []
    complete_at = 0.0
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0) for topic in topics])
        while time.monotonic() < deadline:
            events += [_event(record) for record in consumer.poll(0.5)]
            complete_at = complete_at or (time.monotonic() if _complete(events) else 0.0)
            if complete_at and time.monotonic() - complete_at > 3:
                return sorted(events, key=lambda event: (event["topic"], event["offset"]))
    raise AssertionError(f"{len(events)} events of {name}, but not the last change")


def _until_created(bootstrap: str, topics: Sequence[str], deadline: float) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        while missing := set(topics) - set(admin.list_topics()):
            if time.monotonic() > deadline:
                raise AssertionError(f"topics that were not created: {sorted(missing)}")
            time.sleep(0.2)


def _complete(events: Sequence[dict[str, Any]]) -> bool:
    """Whether the last change is there, and the end of its transaction, if there is one."""
    payloads = [event["value"]["payload"] for event in events if event["value"]]
    last = [row for row in payloads if (row.get("after") or {}).get("note") == clinic.LAST_NOTE]
    if not last or not last[0]["transaction"]:
        return bool(last)
    transaction = _number(last[0]["transaction"]["id"])
    return any(row.get("status") == "END" and _number(row["id"]) == transaction for row in payloads)


def _number(transaction_id: str) -> str:
    """PostgreSQL's ids are "xid:lsn", and the end has another position than the beginning."""
    return transaction_id.partition(":")[0]


def _event(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "offset": record.offset,
        "key": None if record.key is None else json.loads(record.key),
        "value": None if record.value is None else json.loads(record.value),
        "headers": [[name, None if value is None else value.decode()] for name, value in record.headers],
    }


def record(name_of_database: str = "clinic") -> dict[str, list[dict[str, Any]]]:
    with Postgres() as server, Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        prepare(server, name_of_database)
        with java_connect(broker.bootstrap, Path(folder)) as address:
            for name in CONNECTORS:
                start_connector(address, name, settings(name, server, name_of_database))
            for name in CONNECTORS:
                _until_streaming(server, f"slot_{name}", Path(folder) / "connect.log")
            change(server, name_of_database)
            return {
                name: read_until_last(broker.bootstrap, name, config, clinic.TABLES)
                for name, config in CONNECTORS.items()
            }


def _until_streaming(server: Postgres, slot: str, log: Path) -> None:
    """A slot is streamed from only behind the snapshot; it is active, but not streamed from, while it is created."""
    streaming: LiteralString = """
        SELECT 1 FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid
        WHERE s.slot_name = %s AND r.state = 'streaming'
    """
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        if server.execute(streaming, slot):
            return
        time.sleep(0.2)
    raise AssertionError(f"Debezium does not stream from {slot}:\n{log.read_text()[-4000:]}")


def comparable(event: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from run to run, or is listed as a difference in docs/connect-postgres.md."""
    kept = dict(event)
    kept["headers"] = [
        header for header in event["headers"] if not header[0].startswith("__debezium.context.")
    ]
    payload = event["value"] and dict(event["value"]["payload"])
    if payload and "status" in payload:  # BEGIN and END of a transaction: ids are "xid:lsn"
        kept["key"] = {**event["key"], "payload": None}
        payload = {**payload, "id": None, "ts_ms": None}
    elif payload:
        payload["source"] = _without_times(payload["source"])
        payload = _without_times(payload)
        if payload["transaction"]:
            payload["transaction"] = {**payload["transaction"], "id": None}
        for row in filter(None, (payload["before"], payload["after"])):
            for name in clinic.DIFFERENT:
                row.pop(name, None)
            if event["topic"].startswith("other."):
                row.pop("far", None)  # an infinite time is beyond what time.precision.mode=connect can hold
    if payload:
        kept["value"] = {**event["value"], "payload": payload}
    return kept


def _without_times(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value is not None if name in _OF_THE_RUN else value for name, value in block.items()}


def ours(records: Sequence[SourceRecord]) -> list[dict[str, Any]]:
    """Our records as events, through the converters that Java's worker was given too."""
    converter, headers = JsonConverter({}), SimpleHeaderConverter()
    events = []
    ends: Counter[str] = Counter()
    for record in records:
        key = converter.from_value(record.topic, record.key_schema, record.key)
        value = converter.from_value(record.topic, record.value_schema, record.value)
        texts = [headers.from_value(record.topic, each.schema, each.value) for each in record.headers]

        events.append(
            {
                "topic": record.topic,
                "offset": ends[record.topic],
                "key": None if key is None else json.loads(key),
                "value": None if value is None else json.loads(value),
                "headers": [
                    [each.key, text and text.decode()]
                    for each, text in zip(record.headers, texts, strict=True)
                ],
            }
        )
        ends[record.topic] += 1
    return sorted(events, key=lambda event: (event["topic"], event["offset"]))


def write_fixture(events: Mapping[str, Sequence[dict[str, Any]]], file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    schemas: list[Any] = []
    for each in (event for name in events for event in events[name]):
        for part in ("key", "value"):
            if each[part] is not None:
                schema = each[part]["schema"]
                if schema not in schemas:
                    schemas.append(schema)
                each[part]["schema"] = schemas.index(schema)
    lines = [json.dumps(each, ensure_ascii=False) for name in events for each in events[name]]
    shown = [json.dumps(schema) for schema in schemas]
    joined = ",\n".join(shown), ",\n".join(lines)
    file.write_text('{{"schemas": [\n{}\n], "events": [\n{}\n]}}\n'.format(*joined))
    print({name: len(each) for name, each in events.items()})


def fixture(name: str, file: Path = FIXTURE) -> list[dict[str, Any]]:
    """Debezium's events of one connector, as they were recorded."""
    kept = json.loads(file.read_text())
    events = [event for event in kept["events"] if event["topic"].startswith(f"{name}.")]
    for event in events:
        for part in ("key", "value"):
            if event[part] is not None:
                event[part]["schema"] = kept["schemas"][event[part]["schema"]]
    return events


if __name__ == "__main__":
    write_fixture(record(), FIXTURE)
