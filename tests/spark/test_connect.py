"""Connect on Spark, in a worker that is killed: our connectors as Spark's tasks, and Spark's formats as connectors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("starlette", reason="needs the extra connect")

import pyarrow.parquet as pq

from ottla.client import Consumer
from tests.connect.waiting import wait_for
from tests.oracle.ottla import Ottla
from tests.oracle.process import SCRIPT

STRING = "org.apache.kafka.connect.storage.StringConverter"
LINES = 2000
_WAIT_S = 240


class Lines:
    """Lines go to one topic through our source, and through Spark's to another, which Spark's sink writes to files."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._folder, self._bootstrap = folder, bootstrap
        mark = uuid.uuid4().hex[:8]
        self.ours, self.sparks = f"ours-{mark}", f"sparks-{mark}"
        self.expected: list[str] = []
        (folder / "texts").mkdir()

    def add(self, count: int = LINES) -> None:
        lines = [f"line {len(self.expected) + i}" for i in range(count)]
        text = "".join(f"{line}\n" for line in lines)
        with (self._folder / "in.txt").open("a") as file:
            file.write(text)
        # Spark may list a folder at any moment: a file is complete before it is there.
        new = self._folder / f"{len(self.expected)}.new"
        new.write_text(text)
        new.rename(self._folder / "texts" / f"{len(self.expected)}.txt")
        self.expected += lines

    def connectors(self) -> dict[str, dict[str, str]]:
        return {
            self.ours: {
                "connector.class": "FileStreamSource",
                "file": str(self._folder / "in.txt"),
                "topic": self.ours,
                "value.converter": STRING,
            },
            self.sparks: {
                "connector.class": "spark",
                "format": "text",
                "option.path": str(self._folder / "texts"),
                "topic": self.sparks,
                "checkpoint": str(self._folder / "checkpoint-in"),
            },
            f"{self.sparks}-out": {
                "connector.class": "spark",
                "format": "parquet",
                "topics": self.sparks,
                "columns": "CAST(value AS STRING) AS line; timestamp",
                "option.path": str(self._folder / "out"),
                "checkpoint": str(self._folder / "checkpoint-out"),
            },
        }

    def in_topic(self, topic: str) -> list[str]:
        """All that can be read now, in order."""
        consumer = Consumer(
            bootstrap_servers=self._bootstrap,
            group_id=f"audit-{uuid.uuid4().hex}",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        values: list[str] = []
        with consumer:
            consumer.subscribe([topic])
            while records := consumer.poll(2.0):
                values += [record.value.decode() for record in records]
        return values

    def in_files(self) -> list[str]:
        """Of the files that Spark's sink has committed."""
        log = self._folder / "out" / "_spark_metadata"
        commits = [file.read_text().splitlines()[1:] for file in sorted(log.glob("[0-9]*"))]
        paths = [json.loads(line)["path"].removeprefix("file://") for lines in commits for line in lines]
        return [line for path in paths for line in pq.read_table(path)["line"].to_pylist()]


@contextmanager
def worker(folder: Path, bootstrap: str, lines: Lines) -> Iterator[Callable[[], None]]:
    """Gives what kills it: the process, its JVM and Python workers, all at once."""
    files = []
    for name, config in lines.connectors().items():
        files.append(folder / f"{name}.json")
        files[-1].write_text(json.dumps({"name": name, "config": config}))
    command = [sys.executable, str(SCRIPT), "connect", "--port", "0", "-b", bootstrap, *map(str, files)]
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)

    def kill() -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    try:
        yield kill
    finally:
        if process.poll() is None:
            kill()


def test_lines_come_once_through_our_connectors_and_sparks_although_the_worker_is_killed(
    ottla: Ottla, tmp_path: Path
) -> None:
    lines = Lines(tmp_path, ottla.bootstrap)
    lines.add()
    with worker(tmp_path, ottla.bootstrap, lines) as kill:
        wait_for(lines.in_files, _WAIT_S)
        lines.add()
        kill()  # with steps of any of the three connectors under way
    lines.add()
    with worker(tmp_path, ottla.bootstrap, lines):
        wait_for(lambda: len(lines.in_files()) >= len(lines.expected), _WAIT_S)
        wait_for(lambda: len(lines.in_topic(lines.ours)) >= len(lines.expected), _WAIT_S)
    assert lines.in_topic(lines.ours) == lines.expected
    assert sorted(lines.in_topic(lines.sparks)) == sorted(lines.expected)
    assert sorted(lines.in_files()) == sorted(lines.expected)
