"""FileStreamSource: the lines of a file that grows, as Java's connector of that name has them; offset {"position": n}.

A file that was cut or replaced (rotated) is read from its beginning; what the old one still held is read first, as long
as it lies beside under the name with .1. A last line without its end is kept back until the end comes.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect.errors import ConfigError
from ottla.connect.settings import HIGH, INT, LOW, STRING, Setting
from ottla.connect.spi import Batch, Config, Json, Limit, Source

FILENAME, POSITION, INODE = "filename", "position", "inode"
_CHUNK_BYTES = 8 * 1024 * 1024


class FileSource(Source):
    settings = (
        Setting("file", STRING, None, "File to read; without one, standard input", HIGH),
        Setting("topic", STRING, doc="Topic to write to", importance=HIGH),
        Setting(
            "batch.size", INT, "2000", "Not used: as many lines as there are, up to the step's limit", LOW
        ),
    )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._path: str | None = config["file"]
        self._topic: str = config["topic"]
        self._file: BinaryIO | None = None

    def partitions(self) -> Iterable[Json]:
        return [{FILENAME: self._path}]

    def latest(self, partition: Json) -> Json | None:
        """Unknown while a file of another name may still hold lines, or while there is none."""
        try:
            status = Path(self._path or "").stat()
        except OSError:
            return None
        return self._offset(status.st_size, status.st_ino)

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        position = int((offset or {}).get(POSITION, 0))
        inode = (offset or {}).get(INODE)
        file = self._opened(position, inode)
        if file is None:
            return None
        place = os.fstat(file.fileno())
        if place.st_size < position or (inode is not None and inode != place.st_ino):
            position = 0  # cut, or another file: its lines are all new
        data = os.pread(file.fileno(), min(limit.bytes, _CHUNK_BYTES), position)
        lines, used = split_lines(data, limit.records)
        if used == 0:
            return self._long_line(file, position, len(data))
        column = pa.RecordBatch.from_arrays([lines], names=["value"])
        return Batch(column, self._offset(position + used, place.st_ino), self._topic)

    def alter_offsets(self, offsets: Sequence[tuple[Json, Json | None]]) -> None:
        for partition, offset in offsets:
            if FILENAME not in partition:
                raise ConfigError("Partition objects should contain the key 'filename'")
            if offset is None:
                continue
            position = offset.get(POSITION)
            if POSITION not in offset:
                raise ConfigError("Offset objects should either be null or contain the key 'position'")
            if not isinstance(position, int):
                raise ConfigError("The value for the 'position' key in the offset is expected to be a number")
            if position < 0:
                raise ConfigError(
                    "The value for the 'position' key in the offset should be a non-negative value"
                )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _offset(self, position: int, inode: int) -> Json:
        """Java's connector reads `position` and ignores the rest."""
        return {POSITION: position, INODE: inode}

    def _opened(self, position: int, inode: Any) -> BinaryIO | None:
        """The file that the offset belongs to as long as it has more; then the one that has the name now."""
        path = self._path
        if path is None:
            raise ConfigError("FileStreamSource needs a file here: a worker has no standard input of its own")
        if inode is not None:
            old = self._rotated(path, inode, position)
            if old is not None:
                return old
        try:
            now = Path(path).stat()
            if self._file is None or os.fstat(self._file.fileno()).st_ino != now.st_ino:
                self.close()
                self._file = Path(path).open("rb")  # noqa: SIM115  kept open
            return self._file
        except FileNotFoundError:
            return None

    def _rotated(self, path: str, inode: int, position: int) -> BinaryIO | None:
        """The former file, under its new name, if it still has lines that were not read."""
        for name in (path, f"{path}.1"):
            try:
                status = Path(name).stat()
            except OSError:
                continue
            if status.st_ino == inode and name == path:
                return None  # not rotated
            if status.st_ino == inode and status.st_size > position:
                self.close()
                self._file = Path(name).open("rb")  # noqa: SIM115  kept open
                if split_lines(os.pread(self._file.fileno(), _CHUNK_BYTES, position), 1)[1]:
                    return self._file
        return None

    def _long_line(self, file: BinaryIO, position: int, size: int) -> Batch | None:
        """A line that is longer than a chunk: read whole, up to a bound."""
        if size < _CHUNK_BYTES:
            return None
        data = os.pread(file.fileno(), 16 * _CHUNK_BYTES, position)
        lines, used = split_lines(data, 1)
        if not used:
            if len(data) == 16 * _CHUNK_BYTES:
                raise ConfigError(
                    f"{self._path}: a line of more than {len(data)} bytes at position {position}"
                )
            return None
        column = pa.RecordBatch.from_arrays([lines], names=["value"])
        return Batch(column, self._offset(position + used, os.fstat(file.fileno()).st_ino), self._topic)


def split_lines(data: bytes, most: int) -> tuple[Any, int]:
    """Whole lines as an Arrow column, and how many bytes they take. A line ends with \\n, \\r\\n or \\r, as in Java."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    if b"\r" in data:
        return _split_slowly(data, most)
    ends = np.flatnonzero(raw == 10)[:most]
    if not len(ends):
        return pa.array([], pa.string()), 0
    used = int(ends[-1]) + 1
    # The text without its line ends, and where each line begins in it: no object for any line.
    content = raw[:used][raw[:used] != 10]
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    column = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(content))
    return _valid(column, content), used


def _split_slowly(data: bytes, most: int) -> tuple[Any, int]:
    lines: list[str] = []
    used = at = 0
    newline = carriage = -1  # the next of each; looked for again only when passed, or time would be squared
    while len(lines) < most:
        newline = _next(data, b"\n", newline, at)
        carriage = _next(data, b"\r", carriage, at)
        end = min(newline, carriage)
        if end == len(data) or (end == carriage and end + 1 == len(data)):
            break  # a \n may still come behind a \r
        lines.append(data[at:end].decode("utf-8", "replace"))
        at = used = end + (2 if data[end : end + 2] == b"\r\n" else 1)
    return pa.array(lines, pa.string()), used


def _next(data: bytes, byte: bytes, known: int, at: int) -> int:
    """Where `byte` is next, from `at` on; the end of the data if nowhere."""
    if known >= at:
        return known
    place = data.find(byte, at)
    return place if place >= 0 else len(data)


def _valid(column: Any, content: Any) -> Any:
    """Bytes that are not UTF-8 are replaced, as Java's reader does."""
    try:
        content.tobytes().decode()
        return column
    except UnicodeDecodeError:
        plain = column.view(pa.binary()).to_pylist()
        return pa.array([line.decode("utf-8", "replace") for line in plain], pa.string())
