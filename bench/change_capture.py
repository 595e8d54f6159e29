"""Connect's figures: change capture, upserts, files, the start. Run: python -m bench.change_capture [--debezium]

"capture" reads N changes that are in PostgreSQL's log, from a table of five columns, and makes JSON events of them: for
each second of processor time of this process. "upsert" writes N rows into PostgreSQL, by the clock. "end to end" is a
worker as a process of its own against an Ottla broker: from the first change to the last event in the topic. "files" is
the same for lines of 40 bytes. "start" is from the command to the first answer of REST. With --debezium Java's worker,
warm (it has captured as many changes before), is measured beside ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.connect import schema as schemas
from ottla.connect.postgres.source import PostgresSource
from ottla.connect.spi import Config, Limit, SinkBatch, SinkRecord
from ottla.connect.sql.sink import SqlSink
from tests.connect import debezium
from tests.connect.databases import Postgres
from tests.oracle import cluster
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports
from tests.oracle.process import SCRIPT

_WAIT_S = 240
_TABLE = (
    "CREATE TABLE visit (id integer PRIMARY KEY, name text, price numeric(10, 2), at timestamp, flag boolean)"
)
_INSERT = (
    "INSERT INTO visit SELECT i, 'name ' || i, i * 1.5, now()::timestamp, true"
    " FROM generate_series(%s::int, %s::int) i"
)


def _settings(server: Postgres, database: str, prefix: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.password": "",
        "database.dbname": database,
        "topic.prefix": prefix,
        "slot.name": prefix,
        "plugin.name": "pgoutput",
        "publication.name": prefix,
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.visit",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


def _write(server: Postgres, database: str, changes: int, behind: int = 0) -> None:
    for begin in range(behind + 1, behind + changes + 1, 1000):
        server.execute(_INSERT, begin, min(behind + changes, begin + 999), database=database)


def capture(server: Postgres, changes: int) -> float:
    """Changes for each second of processor time."""
    server.new_database("capture")
    server.execute(_TABLE, database="capture")
    source = PostgresSource(
        Config({**_settings(server, "capture", "capture"), "transforms": ""}, PostgresSource.settings)
    )
    offset = None
    while (batch := source.read({}, offset, Limit())) is not None:
        offset = batch.offset
    _write(server, "capture", changes)
    count, begun = 0, time.process_time()
    while count < changes:
        batch = source.read({}, offset, Limit())
        assert batch is not None
        count += sum(rows.num_rows for _, rows in batch.encoded)
        offset = batch.offset
        source.committed([({}, offset)])
    spent = time.process_time() - begun
    source.close()
    server.execute("SELECT pg_drop_replication_slot('capture')")
    return count / spent


def upsert(server: Postgres, rows: int) -> tuple[float, float]:
    """New rows a second, then the same rows again with other values, by the clock."""
    server.new_database("upsert")
    key = schemas.struct("Key", {"id": schemas.integer()})
    fields = {"id": schemas.integer(), "name": schemas.string(), "price": schemas.Schema(schemas.FLOAT64)}
    value = schemas.struct("Value", fields)
    settings = {
        "name": "bench", "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/upsert", "auto.create": "true",
        "connection.user": "postgres", "insert.mode": "upsert", "pk.mode": "record_key", "table.name.format": "visit",
    }  # fmt: skip
    sink = SqlSink(Config(settings, SqlSink.settings))
    where = TopicPartition("visit", 0)
    rates = []
    for turn in range(2):
        records = [
            SinkRecord(
                "visit",
                0,
                turn * rows + i,
                {"id": i, "name": f"name {i} {turn}", "price": 1.5},
                value,
                {"id": i},
                key,
            )
            for i in range(rows)
        ]
        begun = time.monotonic()
        sink.positions([where])
        sink.write(SinkBatch(where, lambda records=records: records, turn * rows, turn * rows + rows, None))
        sink.commit({where: turn * rows + rows})
        rates.append(rows / (time.monotonic() - begun))
    sink.close()
    return rates[0], rates[1]


@contextmanager
def _ours(broker: Ottla, server: Postgres, folder: Path) -> Iterator[None]:
    config = folder / "capture.json"
    config.write_text(json.dumps({"name": "ours", "config": _settings(server, "both", "ours")}))
    with _worker(broker, config):
        yield


@contextmanager
def _worker(broker: Ottla, config: Path) -> Iterator[None]:
    worker = [
        sys.executable, str(SCRIPT), "connect", "--runner", "process", "--port", "0", "--log-level", "warning",
        "-b", broker.bootstrap, str(config),
    ]  # fmt: skip
    process = subprocess.Popen(worker, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _debeziums(broker: Ottla, server: Postgres, folder: Path) -> Iterator[None]:
    with debezium.java_connect(broker.bootstrap, folder) as address:
        debezium.start_connector(address, "theirs", _settings(server, "both", "theirs"))
        yield


def end_to_end(server: Postgres, changes: int, prefix: str) -> float:
    """Changes a second, by the clock, of a worker that is warm."""
    server.new_database("both")
    server.execute(_TABLE, database="both")
    server.execute(_INSERT, -1, -1, database="both")  # a row for the snapshot, so that the topic is there
    with Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        worker = {"ours": _ours, "theirs": _debeziums}[prefix]
        with worker(broker, server, Path(folder)):
            _until(broker, prefix, 1)
            time.sleep(2)  # the snapshot's end
            _write(server, "both", changes)
            _until(broker, prefix, changes)
            begun = time.monotonic()
            _write(server, "both", changes, changes)
            written = time.monotonic() - begun
            _until(broker, prefix, 2 * changes)
            print(f"  {prefix}: written in {written:.1f} s", flush=True)
            return changes / (time.monotonic() - begun)


def _until(broker: Ottla, prefix: str, records: int) -> None:
    """The topic has so many records (and a marker for each transaction, which are few)."""
    _until_offset(broker, TopicPartition(f"{prefix}.public.visit", 0), records)


def _until_offset(broker: Ottla, where: TopicPartition, records: int) -> float:
    """When it has come to the offset."""
    deadline = time.monotonic() + _WAIT_S
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        while time.monotonic() < deadline:
            try:
                if admin.list_offsets({where: -1})[where].offset >= records:
                    return time.monotonic()
            except Exception as error:  # the topic is not there yet
                if time.monotonic() > deadline - 1:
                    raise error
            time.sleep(0.05)
    raise AssertionError(f"{where} does not come to {records} records")


def lines(count: int) -> float:
    """Lines of a file a second, by the clock, from the first transaction to the last."""
    with Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        file, config = Path(folder) / "lines.txt", Path(folder) / "lines.json"
        file.write_text("".join(f"{i:039}\n" for i in range(count)))
        text = "org.apache.kafka.connect.storage.StringConverter"
        settings = {
            "connector.class": "FileStreamSource",
            "file": str(file),
            "topic": "lines",
            "value.converter": text,
        }
        config.write_text(json.dumps({"name": "lines", "config": settings}))
        where = TopicPartition("lines", 0)
        with _worker(broker, config):
            first = _until_offset(broker, where, 1)
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                begun_at = admin.list_offsets({where: -1})[where].offset
            return (count - begun_at) / (_until_offset(broker, where, count) - first)


def start_s(is_java: bool) -> float:
    """Seconds from the command to the first answer of REST."""
    port = free_ports(1)[0]
    with Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        properties = Path(folder) / "worker.properties"
        text = "org.apache.kafka.connect.storage.StringConverter"
        properties.write_text(
            f"bootstrap.servers={broker.bootstrap}\nlisteners=http://127.0.0.1:{port}\nkey.converter={text}\n"
            f"value.converter={text}\noffset.storage.file.filename={folder}/offsets\nplugin.path={folder}\n"
        )
        begun = time.monotonic()
        process: subprocess.Popen[Any]
        if is_java:
            process = cluster.start_tool(
                "connect-standalone", str(properties), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        else:
            command = [sys.executable, str(SCRIPT), "connect", str(properties)]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while time.monotonic() - begun < _WAIT_S:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/connectors", timeout=5):
                        return time.monotonic() - begun
                except OSError:
                    time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
    raise AssertionError("REST does not answer")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--debezium", action="store_true", help="end to end too, beside Debezium")
    options = parser.parse_args()
    with Postgres() as server:
        print(
            f"capture     {capture(server, options.changes):10,.0f} changes for each second of processor time",
            flush=True,
        )
        new, again = upsert(server, options.changes)
        print(f"upsert      {new:10,.0f} new rows/s, {again:,.0f} changed rows/s", flush=True)
        print(f"files       {lines(30 * options.changes):10,.0f} lines/s", flush=True)
        started = [start_s(False) for _ in range(3)]
        print(f"start       {sorted(started)[1]:10.2f} s to REST", flush=True)
        if options.debezium:
            java = [start_s(True) for _ in range(3)]
            print(f"start       {sorted(java)[1]:10.2f} s to REST, Java's", flush=True)
            for prefix in ("ours", "theirs"):
                rate = end_to_end(server, options.changes, prefix)
                print(f"end to end  {rate:10,.0f} changes/s {prefix}", flush=True)


if __name__ == "__main__":
    main()
