"""A sink of files: Parquet or JSON lines, in a folder or an object store. Positions are in the files' names.

A file `TOPIC+PARTITION+BEGIN+END.parquet` holds the records from offset BEGIN up to END. Where a partition has come is
the greatest END of its files: exactly once. A file `.topic-id` beside them has the id of the topic that they are of.
Files appear whole: on a disk they are renamed into place, an object store shows none before it is complete. In a folder
a step holds a lock from the moment it reads the position: a worker that was thought dead and writes late finds its
successor's lock, or its files.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.fs as filesystems  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.parquet as parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import TopicPartition
from ottla.connect.errors import ConfigError, RetriableError
from ottla.connect.lakes.rows import one_table, parquet_table
from ottla.connect.settings import BOOLEAN, HIGH, PASSWORD, Setting
from ottla.connect.spi import Config, Sink, SinkBatch

_NAME = re.compile(r"^(?P<topic>.+)\+(?P<part>\d+)\+(?P<begin>\d{20})\+(?P<end>\d{20})\.\w+$")
_TOPIC_ID = ".topic-id"
_ENDINGS = {"parquet": "parquet", "json": "json"}


class FilesSink(Sink):
    settings = (
        Setting("path", doc="a folder, or s3://BUCKET/PREFIX", importance=HIGH, empty_allowed=False),
        Setting("format", default="parquet", choices=tuple(_ENDINGS), doc="parquet, or json: a line each"),
        Setting("compression", default="zstd", choices=("none", "snappy", "gzip", "zstd"), doc="of Parquet files"),
        Setting("include.position", BOOLEAN, False, "columns __topic, __partition, __offset, __timestamp"),
        Setting("s3.endpoint", default=None, doc="of an object store that is not Amazon's: http://HOST:PORT"),
        Setting("s3.region", default=None, doc="the region"),
        Setting("s3.access.key", default=None, doc="the access key; else what the environment has"),
        Setting("s3.secret.key", PASSWORD, None, "its secret"),
    )  # fmt: skip

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._opened: tuple[Any, str] | None = None
        self._pending: list[tuple[TopicPartition, pa.Table, int, int]] = []
        self._locks: list[_Lock] = []
        self._remembered: set[TopicPartition] = set()  # whose topic's id this object has stored

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.rollback()
        known = {}
        for where in partitions:
            self._lock(where)
            ends = [end for _, end in self._files(where)]
            if ends:
                known[where] = max(ends)
        return known

    def replaced(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        ids = {where: self.topic_ids.get(where.topic) for where in partitions}
        return [where for where, own in ids.items() if own and (self._stored_id(where) or own) != own]

    def write(self, batch: SinkBatch) -> None:
        as_table = parquet_table if self.config["format"] == "parquet" else one_table
        table = as_table(batch.records, with_position=self.config["include.position"])
        self._pending.append((batch.where, table, batch.begin, batch.end))

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """One file for each partition, so that it is there or not."""
        for where, table, begin, end in self._pending:
            self._remember_topic(where)
            self._store(where, table, begin, end)
        self.rollback()

    def rollback(self) -> None:
        self._pending = []
        while self._locks:
            self._locks.pop().close()

    def close(self) -> None:
        self.rollback()

    def _lock(self, where: TopicPartition) -> None:
        """Until the step ends, or its process."""
        if not self._is_local:
            return
        folder = self._folder(self._filesystem()[1], where)
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._locks.append(_Lock(f"{folder}/.lock"))
        except BlockingIOError:
            raise RetriableError(
                f"another worker writes to {folder}; if two connectors have the same path, give each its own"
            ) from None
        except OSError as error:
            raise RetriableError(f"cannot write to {self.config['path']}: {error}") from error

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        raise ConfigError(
            f"positions are in the names of the files under {self.config['path']}: move the files away to begin again"
        )

    def _files(self, where: TopicPartition) -> list[tuple[int, int]]:
        filesystem, root = self._filesystem()
        selector = filesystems.FileSelector(self._folder(root, where), allow_not_found=True)
        try:
            names = [info.base_name for info in filesystem.get_file_info(selector)]
        except OSError as error:
            raise RetriableError(f"cannot list {self.config['path']}: {error}") from error
        matches = [match for match in map(_NAME.match, names) if match and match["topic"] == where.topic]
        return [(int(match["begin"]), int(match["end"])) for match in matches]

    def _folder(self, root: str, where: TopicPartition) -> str:
        return f"{root}/{where.topic}/partition={where.partition}"

    def _store(self, where: TopicPartition, table: pa.Table, begin: int, end: int) -> None:
        filesystem, root = self._filesystem()
        folder = self._folder(root, where)
        ending = _ENDINGS[self.config["format"]]
        name = f"{where.topic}+{where.partition}+{begin:020}+{end:020}.{ending}"
        try:
            if self._is_local:
                filesystem.create_dir(folder, recursive=True)
                self._write_file(filesystem, f"{folder}/.{name}", table)
                _to_disk(f"{folder}/.{name}")
                filesystem.move(f"{folder}/.{name}", f"{folder}/{name}")
                _to_disk(folder)
            else:
                self._write_file(filesystem, f"{folder}/{name}", table)
        except OSError as error:
            raise RetriableError(f"cannot write {name} under {self.config['path']}: {error}") from error

    def _stored_id(self, where: TopicPartition) -> str | None:
        filesystem, root = self._filesystem()
        try:
            with filesystem.open_input_stream(f"{self._folder(root, where)}/{_TOPIC_ID}") as stream:
                return bytes(stream.read()).decode("ascii", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RetriableError(f"cannot read from {self.config['path']}: {error}") from error

    def _remember_topic(self, where: TopicPartition) -> None:
        """Before the first file: a position without an id would be one of any topic."""
        topic_id = self.topic_ids.get(where.topic)
        if topic_id is None or where in self._remembered:
            return
        filesystem, root = self._filesystem()
        folder = self._folder(root, where)
        aside = f"{folder}/{_TOPIC_ID}.new" if self._is_local else f"{folder}/{_TOPIC_ID}"
        try:
            if self._is_local:
                filesystem.create_dir(folder, recursive=True)
            with filesystem.open_output_stream(aside) as stream:
                stream.write(topic_id.encode())
            if self._is_local:
                filesystem.move(aside, f"{folder}/{_TOPIC_ID}")
        except OSError as error:
            raise RetriableError(f"cannot write to {self.config['path']}: {error}") from error
        self._remembered.add(where)

    def _write_file(self, filesystem: Any, path: str, table: pa.Table) -> None:
        if self.config["format"] == "parquet":
            parquet.write_table(table, path, filesystem=filesystem, compression=self.config["compression"])
            return
        lines = "".join(
            json.dumps(row, default=_plain, ensure_ascii=False) + "\n" for row in table.to_pylist()
        )
        with filesystem.open_output_stream(path) as stream:
            stream.write(lines.encode())

    @property
    def _is_local(self) -> bool:
        return not self.config["path"].startswith("s3://")

    def _filesystem(self) -> tuple[Any, str]:
        if self._opened is None:
            path = self.config["path"].rstrip("/")
            if self._is_local:
                self._opened = filesystems.LocalFileSystem(), path.removeprefix("file://")
            else:
                self._opened = filesystems.S3FileSystem(**self._s3_options()), path.removeprefix("s3://")
        return self._opened

    def _s3_options(self) -> dict[str, Any]:
        options = {
            "endpoint_override": self.config["s3.endpoint"],
            "region": self.config["s3.region"],
            "access_key": self.config["s3.access.key"],
            "secret_key": self.config.password("s3.secret.key"),
        }
        endpoint = options["endpoint_override"]
        if endpoint and endpoint.startswith("http://"):
            options |= {"endpoint_override": endpoint.removeprefix("http://"), "scheme": "http"}
        return {name: value for name, value in options.items() if value is not None}


def _to_disk(path: str) -> None:
    """A file's name is the position: after a power failure it must not stand there without the rows."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class _Lock:
    """Held while it is open; a sink may be dropped without `close`, and gives it up then."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        self.close()


def _plain(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            import base64

            return base64.b64encode(value).decode()
    return str(value)
