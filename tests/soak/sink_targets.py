"""The sinks of `tests.soak.sinks`: their connectors, and how to read what they have written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.connect.databases import MariaDb, Postgres

CHANGES, VISITS = "changes", "visits"
_COMMON = {
    "tasks.max": "2",
    "errors.retry.timeout": "-1",
    "errors.retry.delay.max.ms": "1000",
    "consumer.override.max.poll.records": "100",  # many steps
}
_STRING = "org.apache.kafka.connect.storage.StringConverter"
Row = tuple[str, int]  # id, n


@dataclass(frozen=True, slots=True)
class Target:
    """A sink: its connector, and how to read what it has written."""

    config: Mapping[str, str]
    rows: Callable[[], Counter[Row]]

    @property
    def topic(self) -> str:
        return self.config["topics"]


def targets(
    folder: Path, postgres: Postgres | None, mariadb: MariaDb | None, runner: str
) -> dict[str, Target]:
    """Those that can be had here."""
    chosen = {"file": _file(folder), "sqlite": _sqlite(folder), "parquet": _parquet(folder)}
    if find_spec("duckdb") and runner == "process":  # a DuckDB file is of one process at a time
        chosen["duckdb"] = _duckdb(folder)
    if find_spec("deltalake"):
        chosen["delta"] = _delta(folder)
    if find_spec("pyiceberg"):
        chosen["iceberg"] = _iceberg(folder)
    if postgres is not None:
        chosen["postgres"] = _served(
            postgres, f"jdbc:postgresql://127.0.0.1:{postgres.port}/copy", "postgres"
        )
    if mariadb is not None:
        chosen["mariadb"] = _served(mariadb, f"jdbc:mariadb://127.0.0.1:{mariadb.port}/copy", "root")
    return chosen


def _table(url: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "sql-sink", "topics": CHANGES, "connection.url": url,
        "insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id", "delete.enabled": "true",
        "auto.create": "true", **_COMMON, **more,
    }  # fmt: skip


def _log(name: str, **more: str) -> dict[str, str]:
    return {"connector.class": name, "topics": VISITS, **_COMMON, **more}


def _file(folder: Path) -> Target:
    path = folder / "out.txt"

    def rows() -> Counter[Row]:
        found = [json.loads(line)["payload"] for line in path.read_text().splitlines()]
        return Counter((row["id"], row["n"]) for row in found)

    return Target(_log("FileStreamSink", file=str(path), **{"value.converter": _STRING}), rows)


def _sqlite(folder: Path) -> Target:
    import sqlite3

    path = folder / "copy.sqlite"

    def rows() -> Counter[Row]:
        database = sqlite3.connect(path, timeout=30)
        try:
            return Counter(database.execute(f"SELECT id, n FROM {CHANGES}").fetchall())
        finally:
            database.close()

    return Target(_table(f"jdbc:sqlite:{path}"), rows)


def _duckdb(folder: Path) -> Target:
    import duckdb

    path = folder / "copy.duckdb"

    def rows() -> Counter[Row]:
        with duckdb.connect(str(path), read_only=True) as database:
            return Counter(database.execute(f"SELECT id, n FROM {VISITS}").fetchall())

    # Rows are only added: one that came twice would be there twice.
    config = _table(f"jdbc:duckdb:{path}", **{"topics": VISITS, "insert.mode": "insert", "pk.mode": "none"})
    return Target({**config, "pk.fields": "", "delete.enabled": "false"}, rows)


def _parquet(folder: Path) -> Target:
    import pyarrow.dataset as datasets

    path = folder / "files"

    def rows() -> Counter[Row]:
        files = [str(file) for file in (path / VISITS).rglob("*.parquet")]
        return _counted(datasets.dataset(files, format="parquet").to_table()) if files else Counter()

    return Target(_log("parquet", path=str(path)), rows)


def _delta(folder: Path) -> Target:
    from deltalake import DeltaTable

    return Target(
        _log("delta", **{"table.uri.format": f"{folder}/delta/${{topic}}"}),
        lambda: _counted(DeltaTable(f"{folder}/delta/{VISITS}").to_pyarrow_table()),
    )


def _iceberg(folder: Path) -> Target:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/iceberg",
    }
    (folder / "iceberg").mkdir()

    def rows() -> Counter[Row]:
        from pyiceberg.catalog import load_catalog

        return _counted(load_catalog("ottla", **catalog).load_table(f"default.{VISITS}").scan().to_arrow())

    return Target(_log("iceberg", **{f"catalog.{name}": value for name, value in catalog.items()}), rows)


def _served(server: Any, url: str, user: str) -> Target:
    server.new_database("copy")
    return Target(
        _table(url, **{"connection.user": user}),
        lambda: Counter(map(tuple, server.execute(f"SELECT id, n FROM {CHANGES}", database="copy"))),
    )


def _counted(table: Any) -> Counter[Row]:
    return Counter(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))
