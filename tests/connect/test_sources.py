"""Files, folders, generated records; and that a source's records come exactly once whatever dies."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.client import Admin
from ottla.connect.running.threads import SourceRun
from ottla.connect.sources.file import split_lines
from ottla.connect.spi import Limit
from ottla.connect.store.table import ensure_compacted
from ottla.connect.tasks.source import SourceLane, SourceWorker
from ottla.connect.tasks.spec import LANES, Spec, lane_of
from ottla.testing import Broker

STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def spec_of(broker: Broker) -> Callable[..., Spec]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        for topic in ("connect-offsets", "connect-status"):
            ensure_compacted(admin, topic, 3, 1)

    def make(made: str, **config: str) -> Spec:
        plain = {name.replace("__", "."): value for name, value in config.items()}
        given = {"connector.class": made, "topic": "out", "value.converter": STRING, **plain}
        return Spec("source", given, {"bootstrap.servers": broker.bootstrap})

    return make


def drain(spec: Spec, limit: Limit | None = None) -> None:
    run = SourceRun(spec, limit)
    try:
        while run.step():
            pass
    finally:
        run.stop()


def values(broker: Broker, topic: str = "out") -> list[str]:
    return [record.value.decode() for record in broker.records(topic)] if topic in broker.topics() else []


def test_a_file_is_followed_and_a_partial_line_waits_for_its_end(
    broker: Broker, spec_of: Callable[..., Spec], lines: Path
) -> None:
    spec = spec_of("FileStreamSource", file=str(lines))
    drain(spec)
    with lines.open("a") as file:
        file.write("four\nfi")
    drain(spec)
    assert values(broker) == ["one", "two", "three", "four"]
    with lines.open("a") as file:
        file.write("ve\r\nsix\r\n")
    drain(spec)
    assert values(broker) == ["one", "two", "three", "four", "five", "six"]


def test_a_file_that_is_rotated_is_read_to_its_end_and_then_the_new_one(
    broker: Broker, spec_of: Callable[..., Spec], lines: Path
) -> None:
    spec = spec_of("FileStreamSource", file=str(lines))
    drain(spec)
    with lines.open("a") as file:
        file.write("last\n")
    lines.rename(lines.with_name("in.txt.1"))
    lines.write_text("first of a new file that is longer than the position in the old one\n")
    drain(spec)
    assert values(broker)[3:] == [
        "last",
        "first of a new file that is longer than the position in the old one",
    ]
    lines.write_text("cut\n")
    drain(spec)
    assert values(broker)[-1] == "cut"


def test_lines_are_split_as_javas_reader_splits_them() -> None:
    random.seed(3)
    for _ in range(200):
        text = "".join(
            random.choice(["a", "é", "\n", "\r\n", "", "bc"]) for _ in range(random.randint(0, 12))
        )
        data = text.encode()
        column, used = split_lines(data, 1_000)
        whole = data[:used].decode()
        assert (
            column.to_pylist() == whole.replace("\r\n", "\n").split("\n")[:-1]
            and "\n" not in data[used:].decode()
        )
    assert split_lines(b"bad \xff\n", 9)[0].to_pylist() == ["bad \ufffd"]
    assert split_lines(b"old mac\rline\r", 9)[0].to_pylist() == ["old mac"]  # a \n may follow the last \r


class Searched(bytes):
    """Counts the bytes that `find` looks at."""

    looked = 0

    def find(self, byte: bytes, begin: int = 0) -> int:  # type: ignore[override]
        place = super().find(byte, begin)
        self.looked += (place if place >= 0 else len(self)) - begin + 1
        return place


def test_one_carriage_return_does_not_make_every_line_a_search_of_the_whole_chunk() -> None:
    data = Searched(b"progress\r\n" + b"line\n" * 1_000)
    lines, used = split_lines(data, 10_000)
    assert len(lines) == 1_001 and used == len(data)
    assert data.looked < 4 * len(data)


def test_a_file_that_does_not_exist_yet_is_waited_for(
    broker: Broker, spec_of: Callable[..., Spec], tmp_path: Path
) -> None:
    spec = spec_of("FileStreamSource", file=str(tmp_path / "later.txt"))
    drain(spec)
    (tmp_path / "later.txt").write_text("here\n")
    drain(spec)
    assert values(broker) == ["here"]


def test_a_folder_of_json_csv_and_parquet(
    broker: Broker, spec_of: Callable[..., Spec], tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"id":1}\n{"id":2}\n')
    (tmp_path / "b.csv").write_text("id,name\n3,Anna\n4,Eva\n")
    pq.write_table(
        pa.table({"id": pa.array([5, 6], pa.int64()), "name": ["x", None]}), tmp_path / "c.parquet"
    )
    for format in ("json", "csv", "parquet"):
        spec = spec_of(
            "folder", path=str(tmp_path), pattern=f"*.{format}", format=format, key__field="id",
            value__converter="JsonConverter", value__converter__schemas__enable="false",
        )  # fmt: skip
        drain(Spec(format, spec.config, spec.worker))
        (tmp_path / f"more.{format}").touch()  # an empty file changes nothing
    found = [json.loads(value) for value in values(broker)]
    assert found[:4] == [{"id": 1}, {"id": 2}, {"id": "3", "name": "Anna"}, {"id": "4", "name": "Eva"}]
    assert found[4:] == [{"id": 5, "name": "x"}, {"id": 6, "name": None}]


def test_files_that_come_later_are_taken_up_and_none_is_read_twice(
    broker: Broker, spec_of: Callable[..., Spec], tmp_path: Path
) -> None:
    spec = spec_of("folder", path=str(tmp_path))
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"{number}\n")
        (tmp_path / ".hidden").write_text("not yet\n")
        drain(spec)
    assert sorted(values(broker)) == ["0", "1", "2", "3"]


def test_generated_records_are_the_same_each_time(broker: Broker, spec_of: Callable[..., Spec]) -> None:
    fields = "id:sequence,pulse:int(40,180),ward:choice(a|b),t:float(35,41),name:text(4),ill:boolean"
    config = {"fields": fields, "records": "2500", "value__converter": "JsonConverter", "key__field": "id"}
    spec = spec_of("datagen", **config)
    drain(spec, Limit(records=700))
    drain(Spec("again", {**spec.config, "topic": "again"}, spec.worker))
    assert values(broker) == values(broker, "again") and len(values(broker)) == 2500
    payload = json.loads(values(broker)[7])["payload"]
    assert (
        payload["id"] == 7
        and 40 <= payload["pulse"] <= 180
        and payload["ward"] in "ab"
        and len(payload["name"]) == 4
    )


class Death(BaseException):
    """What a kill looks like from the inside."""


@pytest.mark.parametrize("seed", range(2))
def test_records_come_exactly_once_though_tasks_die_anywhere(
    broker: Broker, spec_of: Callable[..., Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Workers take turns, die before and behind the commit, and come back as zombies."""
    chance = random.Random(seed)
    spec = spec_of("folder", path=str(tmp_path))
    sent: list[str] = []
    workers = [SourceWorker(spec), SourceWorker(spec)]

    def commit_or_die(self: Any) -> None:
        fate = chance.random()
        if fate < 0.2:
            raise Death("before the commit")
        commit(self)
        if fate > 0.8:
            raise Death("behind the commit")

    from ottla.client.exactly_once.owner import TransactionOwner

    commit = TransactionOwner.commit_transaction
    monkeypatch.setattr(TransactionOwner, "commit_transaction", commit_or_die)
    for round_number in range(60):
        name = f"{chance.randint(0, 5)}.txt"
        with (tmp_path / name).open("a") as file:
            line = f"{name} {round_number}"
            file.write(line + "\n")
            sent.append(line)
        index = chance.randint(0, 1)
        worker = workers[index]
        lanes: dict[int, list[Any]] = {}
        for partition in worker.source.partitions():
            lanes.setdefault(lane_of(partition), []).append(partition)
        for lane, partitions in lanes.items():
            try:
                worker.run(lane, partitions, Limit())
            except Death:
                if chance.random() < 0.5:
                    workers[index] = SourceWorker(
                        spec
                    )  # the old one is left as it is: a zombie's connections stay
                break
            except Exception as error:
                assert "enced" in str(error) or "epoch" in str(error).lower(), error  # a zombie is refused
                break
    monkeypatch.setattr(TransactionOwner, "commit_transaction", commit)
    drain(spec)
    found = values(broker)
    assert sorted(found) == sorted(sent)
    for name in {line.split()[0] for line in sent}:
        mine = [line for line in found if line.split()[0] == name]
        assert mine == [line for line in sent if line.split()[0] == name]


def test_the_check_of_exactly_once_would_notice_an_offset_that_is_written_apart(
    broker: Broker, spec_of: Callable[..., Spec], lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: the offset is not in the records' transaction."""
    spec = spec_of("FileStreamSource", file=str(lines))
    monkeypatch.setattr(SourceLane, "_write", _with_commit(SourceLane._write))
    with pytest.raises(Death):
        drain(spec)
    monkeypatch.undo()
    drain(spec)
    assert values(broker) == ["one", "two", "three"] * 2


def _with_commit(write: Any) -> Any:
    def written(self: Any, batch: Any) -> Any:
        write(self, batch)
        self._open.flush()
        self._open.commit_transaction()
        raise Death("between records and offset")

    return written


def test_a_partition_belongs_to_one_lane_for_ever() -> None:
    assert [lane_of({"filename": name}) for name in ("a", "b", "/var/log/x.log")] == [1, 8, 1]
    assert lane_of({"a": 1, "b": 2}) == lane_of({"b": 2, "a": 1}) and LANES == 16
