"""FileStreamSink: a line for each record, exactly once: the file's length and the positions behind it stand in a file
beside it, and what was written after them is cut off."""

import fcntl
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import java_text
from ottla.connect.settings import HIGH, STRING, Setting
from ottla.connect.spi import Config, Sink, SinkBatch, TopicPartition


class FileSink(Sink):
    settings = (Setting("file", STRING, None, "File to write; without one, standard output", HIGH),)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._path = Path(config["file"]) if config["file"] else None
        self._file: BinaryIO | None = None
        self._known: dict[str, Any] = {}

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Under a lock until `commit`: another process's step waits. A file that is not ours yet keeps what it has."""
        if self._path is None:
            return None
        self._close()
        file = self._file = self._path.open("ab")
        fcntl.flock(file, fcntl.LOCK_EX)
        self._known = self._beside()
        state = os.fstat(file.fileno())
        if self._known.get("inode") != state.st_ino:
            # A new file, or not ours yet: positions of another say nothing about it. What it holds stays;
            # the length must be known before anything is written, or a first step that dies could not be undone.
            self._known = {"length": state.st_size, "inode": state.st_ino, "positions": {}, "topics": {}}
            self._write_beside(self._known)
        elif state.st_size > self._known["length"]:
            os.truncate(self._path, self._known["length"])  # written by a step that never ended
        positions_kept = self._known.get("positions", {})
        positions = {where: positions_kept.get(_key(where)) for where in partitions}
        return {where: offset for where, offset in positions.items() if offset is not None}

    def replaced(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        kept = self._known.get("topics", {})
        ids = {where: self.topic_ids.get(where.topic) for where in partitions}
        return [where for where, own in ids.items() if own and kept.get(_key(where), own) != own]

    def write(self, batch: SinkBatch) -> None:
        lines = _lines(batch)
        if self._path is None:
            sys.stdout.write(lines.decode("utf-8", "replace"))
        elif self._file is not None:
            self._file.write(lines)

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        if self._path is None or self._file is None:
            sys.stdout.flush()
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        positions_kept = dict(self._known.get("positions", {}))
        positions_kept |= {_key(where): offset for where, offset in positions.items()}
        topics_kept = dict(self._known.get("topics", {}))
        topics_kept |= {
            _key(where): self.topic_ids[where.topic] for where in positions if where.topic in self.topic_ids
        }
        state = os.fstat(self._file.fileno())
        kept = {"positions": positions_kept, "topics": topics_kept}
        self._write_beside({"length": state.st_size, "inode": state.st_ino, **kept})
        self._close()

    def rollback(self) -> None:
        """What is in the file beyond the known length is cut off by the next step."""
        self._close()

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        if self._path is None:
            return
        known = self._beside()
        gone = None if partitions is None else {_key(where) for where in partitions}
        remaining = {
            part: {} if gone is None else {k: v for k, v in known.get(part, {}).items() if k not in gone}
            for part in ("positions", "topics")
        }
        if known:
            self._write_beside({**known, **remaining})

    def close(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()  # and with it the lock
            self._file = None

    @property
    def _place(self) -> Path:
        assert self._path is not None
        return self._path.with_name(f".{self._path.name}.positions")

    def _beside(self) -> dict[str, Any]:
        try:
            known: dict[str, Any] = json.loads(self._place.read_text()).get(self.config["name"], {})
            return known
        except FileNotFoundError:
            return {}

    def _write_beside(self, state: dict[str, Any]) -> None:
        new = self._place.with_suffix(".new")
        with new.open("w") as file:
            json.dump({self.config["name"]: state}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._place)


def _key(where: TopicPartition) -> str:
    return f"{where.topic}-{where.partition}"


def _lines(batch: SinkBatch) -> bytes:
    """As Java prints: `toString` of each value. A column of texts is not taken apart."""
    columns = batch.columns()
    if columns is not None:
        values = columns.column("value")
        if pa.types.is_string(values.type) and not values.null_count:
            joined = pc.binary_join_element_wise(values, "", "\n").cast(pa.binary())
            begin, end = _span(joined)
            return bytes(memoryview(joined.buffers()[2])[begin:end])
    return b"".join(
        f"{java_text.text(record.value, record.value_schema)}\n".encode() for record in batch.records
    )


def _span(column: Any) -> tuple[int, int]:
    import numpy as np

    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return int(offsets[column.offset]), int(offsets[column.offset + len(column)])
