import struct
from collections.abc import Callable

import pytest

from ottla.config.log import LogConfig
from ottla.storage import checkpoints
from ottla.storage.checkpoints import Meta
from ottla.storage.doctor import Finding, check_folder
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import build
from ottla.wire.records import Record

FIRST, SECOND = f"t-0/{0:020d}", f"t-0/{12:020d}"


def a_folder(codec: int = 0) -> MemoryDisk:
    """Two segments with all that belongs to them, cleanly stopped."""
    disk = MemoryDisk()
    checkpoints.write_meta(disk, Meta("c", 1, bytes(range(16))))
    folder = LogFolder(disk, "data", files=FileCache(), report=pytest.fail)
    folder.load()
    config = LogConfig(segment_bytes=900, index_interval_bytes=150)
    opening = folder.opening(("t", 0), config, now_ms=0)
    opening.run()
    log = folder.on_opened(opening)
    for number in range(10):
        records = [Record(at, 100 * number + at, b"k", b"v" * 30) for at in range(2)]
        batch = build(records, producer_id=7, producer_epoch=0, base_sequence=2 * number, codec=codec)
        log.append(batch, leader_epoch=number // 5, now_ms=0)
    single = [Record(0, 1000, b"k", b"v")]
    batch = build(single, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(batch, leader_epoch=1, now_ms=0)
    log.append_marker(8, 0, False, 0, leader_epoch=1, now_ms=1001)
    log.advance_high_watermark(log.end_offset)
    folder.cleaner_offsets["t", 0] = 3
    folder.close()
    return disk


def findings(disk: MemoryDisk, deep: bool = True) -> list[Finding]:
    return list(check_folder(disk, deep))


def patch(disk: MemoryDisk, path: str, position: int, data: bytes) -> None:
    file = disk.open(path)
    file.write_at(position if position >= 0 else file.size() + position, data)
    file.close()


@pytest.mark.parametrize("codec", range(5))
def test_a_healthy_folder_has_no_findings(codec: int):
    disk = a_folder(codec)
    assert findings(disk) == []
    assert findings(disk, deep=False) == []


def test_the_folder_of_these_tests_has_what_they_damage():
    names = a_folder().list("t-0")
    assert {name.partition(".")[2] for name in names} >= {"log", "index", "timeindex", "txnindex", "snapshot"}
    assert f"{12:020d}.log" in names


def test_a_flipped_bit_is_found_with_its_file_position_and_offset():
    disk = a_folder()
    size = struct.unpack(">i", disk.read_whole(f"{FIRST}.log")[8:12])[0] + 12
    patch(disk, f"{FIRST}.log", size + 80, b"\xff")
    (finding,) = findings(disk)
    assert (finding.path, finding.position, finding.offset) == (f"{FIRST}.log", size, 2)
    assert "CRC" in finding.problem
    assert str(finding) == f"{FIRST}.log at position {size} (offset 2): {finding.problem}"
    assert findings(disk, deep=False) == []


def test_a_partition_folder_without_segments_is_a_finding():
    disk = a_folder()
    disk.make_folder("u-0")
    disk.write_whole("u-0/partition.metadata", b"")
    (finding,) = findings(disk)
    assert (finding.path, "no segment" in finding.problem) == ("u-0", True)


Damage = Callable[[MemoryDisk, str], None]


def put(position: int, data: bytes) -> Damage:
    return lambda disk, path: patch(disk, path, position, data)


def cut(size: int) -> Damage:
    return lambda disk, path: disk.tear(path, size if size > 0 else disk.size(path) + size)


def add(data: bytes) -> Damage:
    return lambda disk, path: disk.tear(path, disk.size(path), data)


def hold(data: bytes) -> Damage:
    return lambda disk, path: disk.write_whole(path, data)


def take_name_of(other: str) -> Damage:
    return lambda disk, path: disk.rename(other, path)


EPOCHS = "t-0/leader-epoch-checkpoint"


@pytest.mark.parametrize(
    ("path", "damage", "problem"),
    [
        (f"{SECOND}.log", cut(-5), "cut off"),
        (f"{SECOND}.log", add(b"\0" * 80), ""),
        (f"{FIRST}.log", put(16, b"\x01"), "magic"),
        (f"{FIRST}.log", put(0, struct.pack(">q", 5)), "the batch before ends"),
        (f"{FIRST}.log", put(0, struct.pack(">q", 15)), "the next segment starts"),
        (f"{FIRST}.log", put(12, struct.pack(">i", 9)), "leader epoch 0 after 9"),
        (f"{FIRST}.index", cut(7), "multiple of 8"),
        (f"{FIRST}.index", put(3, b"\x02"), "the batch ends at"),
        (f"{FIRST}.index", put(-1, b"\xfe"), "no batch at position"),
        (f"{FIRST}.timeindex", put(-5, b"\xff"), "the entry says"),
        (f"{FIRST}.timeindex", put(-2, b"\x01"), "no batch for timestamp"),
        (f"{SECOND}.txnindex", put(17, b"\x7f"), "does not end here"),
        (f"{SECOND}.txnindex", cut(3), "multiple of 34"),
        (f"{SECOND}.snapshot", put(8, b"\xff"), "CRC"),
        (f"t-0/{99:020d}.snapshot", take_name_of(f"{SECOND}.snapshot"), "ends before"),
        (f"t-0/{5:020d}.snapshot", take_name_of(f"{SECOND}.snapshot"), "behind the snapshot"),
        (EPOCHS, hold(b"0\n2\n0 0\n1 99\n"), "behind the end"),
        (EPOCHS, hold(b"0\n2\n0 7\n1 3\n"), "does not come after"),
        (EPOCHS, hold(b"x"), "cannot be read"),
        (f"{FIRST}.log.swap", hold(b""), "interrupted"),
        (f"{FIRST}.log.17.corrupt", hold(b""), "cut this off"),
        (f"t-0/{3:020d}.index", hold(b""), "without its log"),
        (checkpoints.HIGH_WATERMARKS, hold(b"0\n1\nt 0 99\n"), "ends before that, at 22"),
        (checkpoints.RECOVERY_POINTS, hold(b"0\n1\nu 0 1\n"), "u-0 is not in this folder"),
        (checkpoints.CLEANER_OFFSETS, hold(b"7\n"), "unknown"),
        (checkpoints.META_PROPERTIES, hold(b"version=1\n"), "is missing"),
        (checkpoints.META_PROPERTIES, MemoryDisk.remove, "is missing"),
    ],
)
def test_damage_is_found_where_it_is(path: str, damage: Damage, problem: str):
    disk = a_folder()
    damage(disk, path)
    found = [each for each in findings(disk) if each.path == path]
    assert found and problem in found[0].problem, findings(disk)


def test_a_folder_that_is_no_partition_is_named():
    disk = a_folder()
    disk.make_folder("junk")
    disk.write_whole("junk/x", b"")
    assert [(each.path, each.problem) for each in findings(disk)] == [
        ("junk", "this folder is not a partition's")
    ]


def test_the_doctor_changes_nothing():
    disk = a_folder()
    patch(disk, f"{FIRST}.log", 80, b"\xff")
    names = {name: disk.read_whole(f"t-0/{name}") for name in disk.list("t-0")}
    findings(disk)
    assert {name: disk.read_whole(f"t-0/{name}") for name in disk.list("t-0")} == names
