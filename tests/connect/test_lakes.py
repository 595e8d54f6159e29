"""Files, object stores and Delta tables: every record once, after repeated and failed steps too."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as datasets
import pyarrow.fs as filesystems
import pytest

from ottla.client.values import TopicPartition
from ottla.connect import schema as schemas
from ottla.connect.errors import ConfigError, DataError, RetriableError
from ottla.connect.lakes.delta import DeltaSink
from ottla.connect.lakes.files import FilesSink
from ottla.connect.lakes.iceberg import IcebergSink
from ottla.connect.lakes.rows import one_table
from ottla.connect.schema import Schema
from ottla.connect.spi import Config, Sink, SinkBatch, SinkRecord

VALUE = schemas.struct("Value", {"id": schemas.integer(64), "name": schemas.string(optional=True)})


def a_record(offset: int, value: dict[str, Any] | None, part: int = 0, schema: Schema = VALUE) -> SinkRecord:
    return SinkRecord("visits", part, offset, value, None if value is None else schema, timestamp_ms=7)


class Files:
    def __init__(self, root: str, more: dict[str, str], filesystem: Any) -> None:
        self._root, self._more, self._filesystem = root, more, filesystem

    def sink(self, **more: str) -> Sink:
        path = self._root if self._filesystem is None else f"s3://{self._root}"
        return FilesSink(Config({"name": "lake", "path": path, **self._more, **more}, FilesSink.settings))

    def rows(self) -> list[dict[str, Any]]:
        found = datasets.dataset(f"{self._root}/visits", filesystem=self._filesystem, format="parquet")
        return found.to_table().to_pylist()


class Delta:
    def __init__(self, root: str) -> None:
        self._root = root

    def sink(self, **more: str) -> Sink:
        settings = {"name": "lake", "table.uri.format": f"{self._root}/${{topic}}", **more}
        return DeltaSink(Config(settings, DeltaSink.settings))

    def rows(self) -> list[dict[str, Any]]:
        from deltalake import DeltaTable

        return DeltaTable(f"{self._root}/visits").to_pyarrow_table().to_pylist()


class Iceberg:
    def __init__(self, root: Path) -> None:
        self._catalog = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}"}

    def sink(self, **more: str) -> Sink:
        settings = {
            "name": "lake",
            **{f"catalog.{name}": value for name, value in self._catalog.items()},
            **more,
        }
        return IcebergSink(Config(settings, IcebergSink.settings))

    def rows(self) -> list[dict[str, Any]]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("ottla", **self._catalog)
        return catalog.load_table("default.visits").scan().to_arrow().to_pylist()


EMPTY = schemas.struct("Empty", {})
HOLLOW = schemas.struct(
    "Hollow",
    {
        "id": schemas.integer(64),
        "empty": EMPTY,
        "inner": schemas.struct("Inner", {"empty": EMPTY, "x": schemas.integer()}),
        "listed": schemas.array(EMPTY),
        "mapped": Schema(schemas.MAP, keys=schemas.string(), values=EMPTY),
    },
)


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Files | Delta | Iceberg:
    if request.param == "iceberg":
        pytest.importorskip("pyiceberg")
        return Iceberg(tmp_path)
    if request.param == "delta":
        pytest.importorskip("deltalake")
        return Delta(str(tmp_path))
    if request.param == "folder":
        return Files(str(tmp_path), {}, None)
    endpoint = request.getfixturevalue("object_store")
    more = {
        "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
        "s3.access.key": "test",
        "s3.secret.key": "test",
    }
    filesystem = filesystems.S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"), scheme="http", region="us-east-1", access_key="test",
        secret_key="test", allow_bucket_creation=True,
    )  # fmt: skip
    bucket = f"lake-{random.randrange(10**9)}"
    filesystem.create_dir(bucket)
    return Files(f"{bucket}/some/prefix", more, filesystem)


def step(sink: Sink, records: list[SinkRecord], part: int = 0) -> None:
    where = TopicPartition("visits", part)
    begin = (sink.positions([where]) or {}).get(where, 0)
    rest = [record for record in records if record.offset >= begin]
    end = records[-1].offset + 1
    if begin < end:
        sink.write(SinkBatch(where, lambda: rest, begin, end, None))
        sink.commit({where: end})


def test_records_are_written_once(lake):
    first = [a_record(i, {"id": i, "name": f"n{i}"}) for i in range(10)]
    for _ in range(2):
        step(lake.sink(), first)
    step(lake.sink(), [*first, a_record(10, {"id": 10, "name": None})])
    assert sorted(row["id"] for row in lake.rows()) == list(range(11))


def test_partitions_have_positions_of_their_own(lake):
    step(lake.sink(), [a_record(i, {"id": i, "name": "a"}) for i in range(5)])
    step(lake.sink(), [a_record(i, {"id": 100 + i, "name": "b"}, 3) for i in range(2)], 3)
    known = lake.sink().positions([TopicPartition("visits", part) for part in (0, 1, 3)])
    assert known == {TopicPartition("visits", 0): 5, TopicPartition("visits", 3): 2}
    assert len(lake.rows()) == 7


def test_positions_know_the_topic_that_they_are_of(lake):
    first, third = TopicPartition("visits", 0), TopicPartition("visits", 3)
    this, other = "0123456789abcdef" * 2, "fedcba9876543210" * 2

    def replaced(topic_id: str) -> list[TopicPartition]:
        sink = lake.sink()
        sink.topic_ids = {"visits": topic_id}
        sink.positions([first, third])
        found = sorted(sink.replaced([first, third]))
        sink.rollback()
        return found

    assert replaced(this) == []
    step(lake.sink(), [a_record(0, {"id": 0, "name": "before ids"})])
    assert replaced(this) == replaced(other) == []  # of any topic
    for offset, where in ((1, first), (0, third)):
        sink = lake.sink()
        sink.topic_ids = {"visits": this}
        step(sink, [a_record(offset, {"id": 1, "name": "a"}, where.partition)], where.partition)
    step(lake.sink(), [a_record(2, {"id": 2, "name": "by a worker that has no ids"})])
    assert replaced(this) == []
    assert replaced(other) == [first, third]
    assert len(lake.rows()) == 4


def test_every_record_is_there_once_after_random_failures(lake):
    chance = random.Random(3)
    log = [a_record(i, {"id": i, "name": f"n{i}"}) for i in range(300)]
    where, done = TopicPartition("visits", 0), 0
    while done < len(log):
        sink = lake.sink()
        done = (sink.positions([where]) or {}).get(where, 0)
        records = log[done : done + chance.randrange(1, 50)]
        if not records:
            break
        sink.write(SinkBatch(where, partial(list, records), done, done + len(records), None))
        if chance.random() < 0.4:
            sink.rollback()
        else:
            sink.commit({where: done + len(records)})
    assert sorted(row["id"] for row in lake.rows()) == list(range(300))


def test_new_fields_become_columns(lake):
    wider = schemas.struct("Value", {"id": schemas.integer(64), "age": schemas.integer(optional=True)})
    step(lake.sink(), [a_record(0, {"id": 0, "name": "a"}), a_record(1, {"id": 1, "age": 4}, schema=wider)])
    rows = sorted(lake.rows(), key=lambda row: row["id"])
    assert rows == [{"id": 0, "name": "a", "age": None}, {"id": 1, "name": None, "age": 4}]


def test_fields_that_the_first_record_without_a_schema_does_not_have_are_written(lake):
    records = [SinkRecord("visits", 0, i, value) for i, value in enumerate([{"id": 0}, {"id": 1, "age": 4}])]
    step(lake.sink(), records)
    rows = sorted(lake.rows(), key=lambda row: row["id"])
    assert rows == [{"id": 0, "age": None}, {"id": 1, "age": 4}]


def test_a_field_without_a_schema_may_be_null_before_it_has_a_value(tmp_path):
    pytest.importorskip("pyiceberg")
    lake = Iceberg(tmp_path)
    for offset, age in enumerate((None, 4, None)):
        step(lake.sink(), [SinkRecord("visits", 0, offset, {"id": offset, "age": age})])
    rows = sorted(lake.rows(), key=lambda row: row["id"])
    assert [row["age"] for row in rows] == [None, 4, None]


def test_positions_stand_beside_the_values_on_request(lake):
    step(lake.sink(**{"include.position": "true"}), [a_record(0, {"id": 5, "name": "a"})])
    assert (
        lake.rows()[0] | {"__topic": "visits", "__partition": 0, "__offset": 0, "__timestamp": 7}
        == lake.rows()[0]
    )


def test_tombstones_alone_are_passed_over(lake):
    step(lake.sink(), [a_record(0, {"id": 1, "name": "a"})])
    step(lake.sink(), [a_record(1, None), a_record(2, None)])
    step(lake.sink(), [a_record(3, {"id": 2, "name": "b"})])
    assert sorted(row["id"] for row in lake.rows() if row["id"] is not None) == [1, 2]


def test_positions_that_are_in_the_data_are_not_forgotten(lake):
    with pytest.raises(ConfigError, match="positions are in"):
        lake.sink().forget(None)


def test_json_lines_are_written(tmp_path):
    files = Files(str(tmp_path), {}, None)
    schema = schemas.struct(None, {"day": schemas.day(), "price": schemas.decimal(2)})
    step(
        files.sink(format="json"),
        [a_record(0, {"day": date(2024, 1, 2), "price": Decimal("1.50")}, schema=schema)],
    )
    (file,) = tmp_path.rglob("*.json")
    assert file.name == "visits+0+00000000000000000000+00000000000000000001.json"
    assert file.read_text() == '{"day": "2024-01-02", "price": "1.50"}\n'


def test_every_type_is_a_column():
    nested = schemas.struct(None, {"at": schemas.timestamp(), "list": schemas.array(schemas.day())})
    schema = schemas.struct(
        None,
        {
            "nested": nested,
            "map": schemas.map_of(schemas.string(), schemas.integer()),
            "micro": Schema(schemas.INT64, name="io.debezium.time.MicroTimestamp", version=1),
            "bytes": Schema(schemas.BYTES),
            "plain": Schema(schemas.FLOAT32),
        },
    )
    moment = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = {
        "nested": {"at": moment, "list": [date(2024, 1, 2)]}, "map": {"a": 1}, "micro": 1_000_001, "bytes": b"x",
        "plain": 1.5,
    }  # fmt: skip
    (row,) = one_table([a_record(0, value, schema=schema)], with_position=False).to_pylist()
    assert row["nested"] == {"at": moment.replace(tzinfo=None), "list": [date(2024, 1, 2)]}
    assert row["map"] == [("a", 1)] and row["micro"] == datetime(1970, 1, 1, 0, 0, 1, 1)
    plain = one_table([SinkRecord("t", 0, 0, "x", schemas.string())], with_position=False)
    assert plain.to_pylist() == [{"value": "x"}]


def test_schemas_that_do_not_fit_together_are_refused():
    other = schemas.struct(None, {"id": schemas.string()})
    with pytest.raises(DataError, match="do not fit together"):
        one_table([a_record(0, {"id": 1}), a_record(1, {"id": "x"}, schema=other)], with_position=False)


def test_a_time_that_no_column_can_hold_is_an_error_of_its_record():
    odd = schemas.struct(None, {"at": schemas.string(name="io.debezium.time.ZonedTimestamp", version=1)})
    with pytest.raises(DataError, match="do not fit into columns"):
        one_table([a_record(0, {"at": "infinity"}, schema=odd)], with_position=False)


def test_a_file_is_on_the_disk_before_its_name_says_so(tmp_path, monkeypatch):
    synced = []

    def names() -> list[Path]:
        return list(tmp_path.glob("visits/*/visits+*"))

    monkeypatch.setattr(os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, len(names()))))
    step(Files(str(tmp_path), {}, None).sink(), [a_record(0, {"id": 0, "name": "a"})])
    (file,) = names()
    assert synced == [(file.stat().st_ino, 0), (file.parent.stat().st_ino, 1)]  # the rows, then the name


def test_two_writers_of_a_folder_do_not_write_at_once(tmp_path):
    """A worker that was thought dead: it holds the lock, or finds what its successor has written."""
    lake = Files(str(tmp_path), {}, None)
    where = TopicPartition("visits", 0)
    slow, successor = lake.sink(), lake.sink()
    assert slow.positions([where]) == {}
    with pytest.raises(RetriableError, match="another worker writes to"):
        successor.positions([where])
    assert successor.positions([TopicPartition("visits", 1)]) == {}  # others are free
    del slow  # without close, as when its process dies
    assert successor.positions([where]) == {}
    successor.write(SinkBatch(where, lambda: [a_record(0, {"id": 1, "name": "a"})], 0, 1, None))
    successor.commit({where: 1})
    assert lake.sink().positions([where]) == {where: 1}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"id": 1, "empty": {}, "listed": []}, None),
        ({"id": 1, "inner": {"empty": {}, "x": 2}, "listed": [{}]}, None),
        ({"id": 1, "inner": {"empty": None, "listed": [[]], "x": 2}}, None),
        ({"id": 1, "empty": {}, "inner": {"empty": {}, "x": 2}, "listed": [{}], "mapped": {"k": {}}}, HOLLOW),
    ],
)
def test_values_that_parquet_or_iceberg_has_no_type_for_are_null(lake, value, schema):
    """The step would fail for ever."""
    where = TopicPartition("visits", 0)
    for offset in range(2):
        sink = lake.sink()
        sink.positions([where])
        record = SinkRecord("visits", 0, offset, value, schema)
        sink.write(SinkBatch(where, partial(list, [record]), offset, offset + 1, None))
        sink.commit({where: offset + 1})
        sink.close()
    rows = lake.rows()
    assert [row["id"] for row in rows] == [1, 1]
    assert all(row.get("empty") is None for row in rows)
    if "inner" in value:
        assert [(row["inner"]["x"], row["inner"].get("empty")) for row in rows] == [(2, None), (2, None)]


def test_an_empty_object_stays_one_in_lines_of_json(tmp_path):
    sink = Files(str(tmp_path), {"format": "json"}, None).sink()
    where = TopicPartition("visits", 0)
    sink.positions([where])
    record = SinkRecord("visits", 0, 0, {"id": 1, "empty": {}})
    sink.write(SinkBatch(where, partial(list, [record]), 0, 1, None))
    sink.commit({where: 1})
    sink.close()
    (file,) = tmp_path.glob("visits/partition=0/*.json")
    assert file.read_text() == '{"id": 1, "empty": {}}\n'


def test_records_without_any_typed_value_are_an_error_of_theirs_in_iceberg(tmp_path):
    pytest.importorskip("pyiceberg")
    sink = Iceberg(tmp_path).sink()
    where = TopicPartition("visits", 0)
    sink.positions([where])
    record = SinkRecord("visits", 0, 0, {"a": None, "b": [], "c": {}})
    with pytest.raises(DataError, match="nulls and empty values alone"):
        sink.write(SinkBatch(where, partial(list, [record]), 0, 1, None))
    sink.close()
