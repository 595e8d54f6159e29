"""The metadata log of a broker without a cluster: one file of entries, one of the last snapshot.

File: a magic with the format's version, then entries. Entry: length of the rest, CRC32, position, epoch,
records. A torn or damaged tail is cut at the last whole entry; anything after it was never acknowledged.
"""

import struct
import zlib
from collections.abc import Callable, Sequence

from ottla.errors import OttlaError
from ottla.metadata import codec
from ottla.metadata.log import ENTRY_MAX_BYTES, Deposed, DiskFailed, Done, Listener, Outrun, TooLarge
from ottla.metadata.records import Record
from ottla.ports import Disk, File

MAGIC = b"ottla metadata 1\n"
_FRAME = struct.Struct(">II")
_ENTRY = struct.Struct(">qi")

Work = Callable[[], None]
RunAside = Callable[[Work, Callable[[OSError | None], None]], None]
"""Runs slow work (a sync) somewhere and tells on the loop when it is done."""


class JournalDamaged(OttlaError):
    """The journal cannot be read and what is missing is not just its tail."""


def at_once(work: Work, then: Callable[[OSError | None], None]) -> None:
    try:
        work()
    except OSError as error:
        then(error)
    else:
        then(None)


class Journal:
    """A MetadataLog for one. The lease is always ours, under the next epoch at every start."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        *,
        run_aside: RunAside = at_once,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._log_path = f"{folder}/metadata.log"
        self._snapshot_path = f"{folder}/metadata.snapshot"
        self._run_aside = run_aside
        self._report = report
        self._listener: Listener | None = None
        self._file: File | None = None
        self._size = 0  # bytes of whole entries; whatever is behind them was never acknowledged
        self._position = 0
        self._epoch = 0
        self._holder: int | None = None
        self._member: tuple[int, bytes] | None = None
        self._appending = False

    def open(self, listener: Listener, position: int = 0) -> None:
        if self._file is not None:
            self._file.close()
        self._listener = listener
        self._position = 0
        self._disk.make_folder(self._folder)
        self._read_snapshot(listener, position)
        self._read_log(listener, position)
        self._holder = None
        listener.on_lease(None, self._epoch)

    def register(self, broker_id: int, registration: bytes) -> None:
        self._to().on_members({broker_id: registration})

    def claim(self, broker_id: int, over: int | None = None) -> None:
        if self._holder is not None:
            return
        self._epoch += 1
        self._holder = broker_id
        self._to().on_lease(broker_id, self._epoch)

    def resign(self) -> None:
        self._holder = None
        self._to().on_lease(None, self._epoch)

    def append(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        if self._holder is None or epoch != self._epoch:
            return done(Deposed(f"epoch {epoch} is over, it is {self._epoch} now"))
        if position != self._position or self._appending:
            return done(Outrun(f"the log is at {self._position}, not {position}"))
        body = codec.encode(records)
        if len(body) > ENTRY_MAX_BYTES:
            return done(TooLarge(f"{len(body)} bytes of records are more than {ENTRY_MAX_BYTES}"))
        file, frame = self._opened(), _frame(position, epoch, body)
        try:
            if file.size() != self._size:
                file.truncate(self._size)
            file.append([frame])
        except OSError as error:
            return done(DiskFailed(f"{self._log_path}: {error}"))
        self._appending = True

        def synced(error: OSError | None) -> None:
            self._appending = False
            if error is not None:
                self._cut(file)
                return done(DiskFailed(f"{self._log_path}: {error}"))
            self._size += len(frame)
            self._position = position + 1
            try:
                self._to().on_entry(position, records)
            finally:
                done(None)  # it is in the log, whatever a listener made of it
            return None

        return self._run_aside(file.sync, synced)

    def snapshot(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        """A crash between the two writes leaves entries that the snapshot holds already: they are skipped."""
        if self._holder is None or epoch != self._epoch:
            return done(Deposed(f"epoch {epoch} is over, it is {self._epoch} now"))
        if position != self._position or self._appending:
            return done(Outrun(f"the log is at {self._position}, not {position}"))
        whole = MAGIC + _frame(position, epoch, codec.encode(records))
        file = self._opened()
        self._appending = True

        def work() -> None:
            self._disk.write_whole(self._snapshot_path, whole)
            file.truncate(len(MAGIC))
            file.sync()

        def written(error: OSError | None) -> None:
            self._appending = False
            self._size = len(MAGIC) if error is None else file.size()
            done(None if error is None else DiskFailed(f"{self._snapshot_path}: {error}"))

        return self._run_aside(work, written)

    def catch_up(self, done: Callable[[], None]) -> None:
        done()  # entries are delivered before they are acknowledged, and nobody else writes

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._holder = None

    def _to(self) -> Listener:
        assert self._listener is not None, "open comes first"
        return self._listener

    def _opened(self) -> File:
        assert self._file is not None, "open comes first"
        return self._file

    def _read_snapshot(self, listener: Listener, wanted: int) -> None:
        if not self._disk.exists(self._snapshot_path):
            return
        data = self._disk.read_whole(self._snapshot_path)
        entry = _entry_at(data, len(MAGIC)) if data.startswith(MAGIC) else None
        if entry is None:
            raise JournalDamaged(f"{self._snapshot_path} cannot be read")
        self._position, self._epoch, body, _ = entry
        if wanted < self._position:
            listener.on_snapshot(self._position, codec.decode(body))

    def _read_log(self, listener: Listener, wanted: int) -> None:
        file = self._file = self._disk.open(self._log_path, create=True)
        data = file.read(0, file.size())
        if not data.startswith(MAGIC):
            if len(data) > len(MAGIC) or not MAGIC.startswith(data):
                raise JournalDamaged(f"{self._log_path} is no metadata log of a known format")
            self._begin(file)
            return
        end = len(MAGIC)
        while (entry := _entry_at(data, end)) is not None:
            position, epoch, body, end = entry
            if position > self._position:
                raise JournalDamaged(f"{self._log_path}: entry {self._position} is missing")
            self._epoch = max(self._epoch, epoch)
            if position == self._position:
                self._position += 1
                if position >= wanted:
                    listener.on_entry(position, codec.decode(body))
        if end < len(data):
            if _has_entry_after(data, end, self._position):
                raise JournalDamaged(
                    f"{self._log_path}: damaged at byte {end}, before entries that are whole"
                )
            self._report(f"{self._log_path}: cut {len(data) - end} bytes after entry {self._position - 1}")
            file.truncate(end)
        self._size = end

    def _begin(self, file: File) -> None:
        file.truncate(0)
        file.append([MAGIC])
        file.sync()
        self._disk.sync_folder(self._folder)
        self._disk.sync_folder(self._folder.rpartition("/")[0])
        self._size = len(MAGIC)

    def _cut(self, file: File) -> None:
        """What could not be synced must not come back after a restart."""
        try:
            file.truncate(self._size)
        except OSError as error:
            self._report(f"{self._log_path}: {error}; refusing to write on")
            self._holder = None


def _frame(position: int, epoch: int, body: bytes) -> bytes:
    rest = _ENTRY.pack(position, epoch) + body
    return _FRAME.pack(len(rest), zlib.crc32(rest)) + rest


def _has_entry_after(data: bytes, start: int, position: int) -> bool:
    """Whether what cannot be read is more than a torn tail."""
    for begin in range(start + 1, len(data) - _FRAME.size - _ENTRY.size + 1):
        entry = _entry_at(data, begin)
        if entry is not None and entry[0] > position:
            return True
    return False


def _entry_at(data: bytes, start: int) -> tuple[int, int, bytes, int] | None:
    """Position, epoch, records and the end of the entry; None when it is not whole."""
    if len(data) - start < _FRAME.size:
        return None
    length, checksum = _FRAME.unpack_from(data, start)
    begin = start + _FRAME.size
    rest = data[begin : begin + length]
    if len(rest) < length or length < _ENTRY.size or zlib.crc32(rest) != checksum:
        return None
    position, epoch = _ENTRY.unpack_from(rest)
    return position, epoch, rest[_ENTRY.size :], begin + length
