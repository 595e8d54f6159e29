"""What a log writes before its next record: in which order, and again after an error."""

import errno
from typing import Any

import pytest

from ottla.config.log import LogConfig
from ottla.errors import KafkaStorageError
from ottla.storage.files import FileCache
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import build
from ottla.wire.records import Record

TOPIC_ID = bytes(range(16))
EPOCHS = "t-0/leader-epoch-checkpoint"
METADATA = "t-0/partition.metadata"
FULL = OSError(errno.ENOSPC, "full")


class NotingDisk(MemoryDisk):
    """Notes each operation with its path, and the calls of the log's owner between them."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, str]] = []
        self.fail("append", path_part="no such file")  # appends are checked only if some fault is armed

    def check_fault(self, operation: str, path: str, *args: object) -> None:
        self.steps.append((operation, path))
        return super().check_fault(operation, path, *args)  # type: ignore[return-value]

    def on_failed(self, error: OSError) -> None:
        self.steps.append(("failed", str(error)))

    def on_moved_back(self, offset: int) -> None:
        self.steps.append(("moved back", str(offset)))

    def settle(self) -> None:
        self.steps.append(("settle", ""))


def opened(
    disk: MemoryDisk, *, clean: bool = False, topic_id: bytes | None = TOPIC_ID, **settings: Any
) -> Log:
    return Log.open(
        Location(disk, "t-0", FileCache()),
        LogConfig(**settings),
        LastRun(clean),
        now_ms=0,
        report=lambda _: None,
        topic_id=topic_id,
    )


def append(log: Log, epoch: int = 0) -> None:
    log.append(build([Record(0, 0, b"k", b"v" * 50)]), leader_epoch=epoch, now_ms=0)


def flush(log: Log) -> None:
    pending = log.begin_flush()
    assert pending is not None
    pending.run()
    log.on_flushed(pending)


def test_a_truncated_log_settles_syncs_names_and_writes_topic_id_and_epochs_before_its_next_record():
    disk = NotingDisk()
    log = opened(disk, segment_bytes=150)
    log.belong_to(disk)
    for epoch in range(4):
        append(log, epoch)
    log.advance_high_watermark(4)
    disk.steps.clear()
    log.truncate_to(1)
    assert ("moved back", "1") in disk.steps
    disk.steps.clear()
    append(log, epoch=7)
    record = next(path for operation, path in disk.steps if operation == "append" and path.endswith(".log"))
    wanted = [
        ("settle", ""),
        ("sync_folder", "t-0"),
        ("rename", METADATA + ".tmp"),
        ("rename", EPOCHS + ".tmp"),
        ("append", record),
    ]
    assert [step for step in disk.steps if step in wanted] == wanted


@pytest.mark.parametrize(
    ("operation", "path_part"),
    [("make_folder", "t-0"), ("open", "partition.metadata"), ("append", ".log"), ("append", "epoch")],
)
def test_what_a_full_disk_refused_is_written_with_the_next_record(operation: str, path_part: str):
    disk = MemoryDisk()
    log = opened(disk)
    log.begin_epoch(3)
    disk.fail(operation, FULL, path_part=path_part)
    if path_part == "epoch":
        append(log, epoch=3)  # takes the record: the epochs can be read from the batches
    else:
        with pytest.raises(KafkaStorageError):
            append(log, epoch=3)
    disk.clear_faults()
    append(log, epoch=3)
    assert b"AAECAwQFBgcICQoLDA0ODw" in disk.read_whole(METADATA)
    assert disk.read_whole(EPOCHS) == b"0\n1\n3 0\n"


def test_an_epoch_without_a_record_is_written_with_its_first_one():
    disk = MemoryDisk()
    log = opened(disk)
    append(log)
    log.begin_epoch(5)
    assert disk.read_whole(EPOCHS) == b"0\n1\n0 0\n"
    append(log, epoch=5)
    assert disk.read_whole(EPOCHS) == b"0\n2\n0 0\n5 1\n"


def test_the_topic_id_survives_a_power_cut_once_the_log_was_flushed():
    disk = MemoryDisk()
    log = opened(disk)
    append(log)
    flush(log)
    disk.crash()
    assert opened(disk, topic_id=None).topic_id == TOPIC_ID


def test_a_renamed_log_writes_to_its_new_folder():
    disk = MemoryDisk()
    log = opened(disk)
    append(log)
    log.move_to("u-0")
    append(log, epoch=1)
    assert disk.read_whole("u-0/leader-epoch-checkpoint") == b"0\n2\n0 0\n1 1\n"
    assert not disk.exists("t-0")
