"""Histories on disk: JSON lines, one when an operation begins and one when it ends.

The first line is written before anything is sent, so that a killed process leaves an operation of unknown
outcome behind rather than none. Times are of the machine's monotonic clock, which its processes share.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Self

from ottla.testing.histories.ops import Op, Outcome, Record, What

NEVER_NS = 2**63 - 1


class Pending:
    """An operation that has begun. Say once how it ended; `unknown` is the same as saying nothing."""

    def __init__(self, recorder: "Recorder", number: int, record: Record | None = None) -> None:
        self._recorder = recorder
        self._number = number
        self._record = record

    def ok(self, partition: int | None = None, offset: int | None = None) -> None:
        """For a send, with where it ended up."""
        records = None
        if self._record is not None and partition is not None:
            records = [self._record._replace(partition=partition, offset=offset)]
        self._recorder.end(self._number, Outcome.OK, records)

    def fail(self) -> None:
        """It certainly has not happened: a time-out is not a failure."""
        self._recorder.end(self._number, Outcome.FAIL)

    def unknown(self) -> None:
        self._recorder.end(self._number, Outcome.UNKNOWN)


class Recorder:
    """Appends to a file; any number of threads may use it. Processes have a file each (see `load`)."""

    def __init__(self, path: str | PathLike[str], now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        path = Path(path)
        torn = path.exists() and not path.read_bytes().endswith(b"\n")
        self._file = path.open("ab", buffering=0)  # a line is out before we go on
        if torn:
            self._file.write(b"\n")  # the one before us was killed
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._number = now_ns()  # numbers differ from those of an earlier recorder of this file

    def send(
        self,
        process: str,
        topic: str,
        value: str | int | bytes,
        *,
        partition: int | None = None,
        key: str | None = None,
        transaction: str | None = None,
    ) -> Pending:
        record = Record(topic, partition, None, plain(value), key)
        return Pending(self, self._begin(What.SEND, process, [record], transaction), record)

    def commit(self, process: str, transaction: str) -> Pending:
        return Pending(self, self._begin(What.COMMIT, process, [], transaction))

    def abort(self, process: str, transaction: str) -> Pending:
        return Pending(self, self._begin(What.ABORT, process, [], transaction))

    def poll(
        self,
        process: str,
        records: Iterable[tuple[str, int, int, str | int | bytes]],
        *,
        committed_only: bool = True,
    ) -> None:
        """What one poll returned: (topic, partition, offset, value) in the order in which it came."""
        read = [Record(topic, partition, offset, plain(value)) for topic, partition, offset, value in records]
        self._whole(What.POLL, process, read, committed_only)

    def assign(self, process: str, partitions: Iterable[tuple[str, int, int | None]]) -> None:
        """All that the process reads from now on: (topic, partition, position or None)."""
        self._whole(What.ASSIGN, process, [Record(t, p, position, None) for t, p, position in partitions])

    def subscribe(self, process: str, topics: Iterable[str]) -> None:
        self._whole(What.SUBSCRIBE, process, [Record(topic, None, None, None) for topic in topics])

    def seek(self, process: str, topic: str, partition: int, offset: int | None) -> None:
        self._whole(What.SEEK, process, [Record(topic, partition, offset, None)])

    def end(self, number: int, outcome: Outcome, records: list[Record] | None = None) -> None:
        line: dict[str, Any] = {"end": number, "outcome": outcome, "at": self._now_ns()}
        if records is not None:
            line["records"] = records
        with self._lock:
            self._write(line)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, what: What, process: str, records: list[Record], transaction: str | None) -> int:
        with self._lock:
            self._number += 1
            line: dict[str, Any] = {"begin": self._number, "what": what, "process": process}
            line |= {"at": self._now_ns(), "records": records}
            if transaction is not None:
                line["transaction"] = transaction
            self._write(line)
            return self._number

    def _whole(self, what: What, process: str, records: list[Record], committed_only: bool = True) -> None:
        with self._lock:
            line: dict[str, Any] = {
                "what": what,
                "process": process,
                "at": self._now_ns(),
                "records": records,
            }
            if not committed_only:
                line["committed_only"] = False
            self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def plain(value: str | int | bytes) -> str | int:
    """Bytes as text, one character each: equal texts are equal bytes."""
    return value.decode("latin-1") if isinstance(value, (bytes, bytearray, memoryview)) else value


def load(*paths: str | PathLike[str]) -> list[Op]:
    """The operations of these files, in the order in which they began. Lines torn by a kill are left out."""
    ops = [op for path in paths for op in _read(Path(path))]
    ops.sort(key=lambda op: op.start_ns)
    return ops


def _read(path: Path) -> list[Op]:
    begun: dict[int, dict[str, Any]] = {}
    ended: dict[int, dict[str, Any]] = {}
    ops: list[Op] = []
    for text in path.read_bytes().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "begin" in line:
            begun[line["begin"]] = line
        elif "end" in line:
            ended[line["end"]] = line
        else:
            ops.append(_op(line, {"outcome": Outcome.OK, "at": line["at"]}))
    ops += [_op(line, ended.get(number)) for number, line in begun.items()]
    return ops


def _op(begin: dict[str, Any], end: dict[str, Any] | None) -> Op:
    end = end or {"outcome": Outcome.UNKNOWN, "at": NEVER_NS}
    return Op(
        What(begin["what"]),
        begin["process"],
        begin["at"],
        end["at"],
        Outcome(end["outcome"]),
        tuple(Record(*record) for record in end.get("records", begin["records"])),
        begin.get("transaction"),
        begin.get("committed_only", True),
    )
