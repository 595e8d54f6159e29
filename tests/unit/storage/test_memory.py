"""The disk in memory: what survives a crash, and what it does when told to fail."""

import errno
from typing import Any

import pytest

from ottla.storage.memory import MemoryDisk


def with_file(data: bytes = b"abc") -> tuple[MemoryDisk, Any]:
    disk = MemoryDisk()
    disk.make_folder("a/b")
    file = disk.open("a/b/f", create=True)
    file.append((data,))
    return disk, file


def sync_all(disk: MemoryDisk) -> None:
    for folder in ("", "a", "a/b"):
        disk.sync_folder(folder)


def test_bytes_are_gone_after_a_power_cut_unless_they_were_synced():
    disk, file = with_file(b"abc")
    file.sync()
    sync_all(disk)
    file.append((b"def", b"ghi"))
    assert file.read(2, 3) == b"cde"
    disk.crash()
    assert disk.read_whole("a/b/f") == b"abc"


def test_a_process_crash_leaves_the_page_cache():
    disk, _ = with_file(b"abc")
    disk.crash(lose_unsynced=False)
    assert disk.read_whole("a/b/f") == b"abc"


def test_a_name_is_gone_after_a_power_cut_unless_its_folder_was_synced():
    disk, file = with_file()
    file.sync()
    disk.crash()
    assert disk.list("") == []
    disk, file = with_file()
    file.sync()
    sync_all(disk)
    disk.rename("a/b/f", "a/b/g")
    twin = disk.copy()
    disk.crash()
    assert disk.list("a/b") == ["f"]
    twin.sync_folder("a/b")
    twin.crash()
    assert twin.list("a/b") == ["g"]


def test_overwritten_and_cut_bytes_come_back_as_they_were_synced():
    disk, file = with_file(b"abcdef")
    file.sync()
    sync_all(disk)
    file.write_at(1, b"XY")
    file.truncate(4)
    assert disk.read_whole("a/b/f") == b"aXYd"
    twin = disk.copy()
    disk.crash()
    assert disk.read_whole("a/b/f") == b"abcdef"
    twin.open("a/b/f").sync()
    twin.crash()
    assert twin.read_whole("a/b/f") == b"aXYd"


def test_a_whole_write_is_durable_at_once():
    disk = MemoryDisk()
    disk.write_whole("f", b"new")
    disk.crash()
    assert disk.read_whole("f") == b"new"


def test_a_stale_file_reaches_the_disk_no_more():
    disk, file = with_file(b"abc")
    disk.crash(lose_unsynced=False)
    file.append((b"late",))
    assert disk.read_whole("a/b/f") == b"abc"


def test_a_full_disk_takes_nothing_and_says_so():
    disk = MemoryDisk(capacity_bytes=5)
    file = disk.open("f", create=True)
    file.append((b"abc",))
    assert disk.free_bytes() == 2
    with pytest.raises(OSError, match="space") as caught:
        file.append((b"de", b"f"))
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 3
    disk.remove("f")
    assert disk.free_bytes() == 5


def test_faults_come_when_they_were_ordered_and_go_when_they_are_cleared():
    disk, file = with_file()
    disk.fail("sync", after=1, times=1)
    file.sync()
    with pytest.raises(OSError, match="simulated"):
        file.sync()
    file.sync()
    disk.fail("append", partial=2)
    with pytest.raises(OSError, match="simulated"):
        file.append((b"xyz",))
    assert file.read(0, 10) == b"abcxy"
    disk.clear_faults()
    assert file.append((b"!",)) == 5


def test_the_last_append_is_torn_at_a_byte():
    disk, file = with_file(b"abc")
    file.append((b"de", b"fg"))
    disk.tear_last_append(3, b"??")
    assert disk.read_whole("a/b/f") == b"abcdef??"


def test_folders_are_renamed_and_removed_with_all_that_is_in_them():
    disk, _ = with_file()
    disk.rename("a", "c")
    assert disk.list("") == ["c"]
    assert disk.read_whole("c/b/f") == b"abc"
    disk.remove("c")
    assert disk.list("") == []
    assert not disk.exists("c/b/f")
    disk.remove("c")


def test_what_is_not_there_cannot_be_opened():
    disk = MemoryDisk()
    for call in (
        lambda: disk.open("f"),
        lambda: disk.read_whole("f"),
        lambda: disk.open("no/f", create=True),
    ):
        with pytest.raises(FileNotFoundError):
            call()
