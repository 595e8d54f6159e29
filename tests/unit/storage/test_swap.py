import pytest

from ottla.storage.checkpoints import DamagedFile
from ottla.storage.files import file_name
from ottla.storage.memory import MemoryDisk
from ottla.storage.swap import Swap, recover_swaps
from ottla.wire.batch import build
from ottla.wire.records import Record

FOLDER = "t-0"


def a_disk(**files: bytes) -> MemoryDisk:
    """`s10_log_swap=b".."` is the file 00..10.log.swap."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    for name, data in files.items():
        offset, _, rest = name.removeprefix("s").partition("_")
        disk.write_whole(path(int(offset), *rest.split("_")), data)
    return disk


def path(offset: int, *parts: str) -> str:
    return f"{FOLDER}/{file_name(offset, '.' + '.'.join(parts))}"


def names(disk: MemoryDisk) -> dict[str, bytes]:
    return {name.lstrip("0") or "0": disk.read_whole(f"{FOLDER}/{name}") for name in disk.list(FOLDER)}


def batch(base_offset: int, count: int = 1) -> bytes:
    return build([Record(base_offset + at, 1, b"k", b"v") for at in range(count)], base_offset=base_offset)


def test_without_leftovers_nothing_happens():
    disk = a_disk(s0_log=b"x", s0_index=b"y", s0_snapshot=b"z")
    before = names(disk)
    lines: list[str] = []
    recover_swaps(disk, FOLDER, lines.append)
    assert names(disk) == before and lines == []


def test_a_folder_that_is_not_there_is_nothing_to_recover():
    recover_swaps(MemoryDisk(), FOLDER)


def test_cleaned_and_deleted_files_go():
    disk = a_disk(s0_log=b"x", s0_log_cleaned=b"y", s0_index_cleaned=b"y", s5_log_deleted=b"z")
    recover_swaps(disk, FOLDER)
    assert names(disk) == {".log": b"x"}


def test_a_swap_of_apache_kafka_is_completed_over_the_segments_it_covers():
    new = batch(0) + batch(11)
    disk = a_disk(
        s0_log=b"old", s10_log=b"old", s10_index=b"old", s20_log=b"stays", s0_log_swap=new, s0_index_swap=b"i"
    )
    lines: list[str] = []
    recover_swaps(disk, FOLDER, lines.append)
    assert names(disk) == {".log": new, ".index": b"i", "20.log": b"stays"}
    assert "from 0 to 12 was completed" in lines[0]


def test_a_swap_whose_log_has_its_name_already_gets_its_indexes():
    disk = a_disk(s0_log=batch(0), s0_index_swap=b"i", s0_timeindex_swap=b"t")
    recover_swaps(disk, FOLDER)
    assert names(disk) == {".log": batch(0), ".index": b"i", ".timeindex": b"t"}


def test_a_split_that_apache_kafka_did_not_finish_is_dropped():
    disk = a_disk(s0_log=b"old", s0_log_cleaned=b"a", s5_log_swap=batch(5))
    recover_swaps(disk, FOLDER)
    assert names(disk) == {".log": b"old"}


def test_a_prepared_swap_that_was_not_begun_is_undone():
    disk = a_disk(s0_log=b"old", s10_log=b"old", s0_log_cleaned=b"new", s0_index_cleaned=b"new")
    swap = Swap(disk, FOLDER, (0, 10))
    swap.prepare()
    assert disk.read_whole(path(0, "replaced")) == b"0\n10\n"
    lines: list[str] = []
    recover_swaps(disk, FOLDER, lines.append)
    assert names(disk) == {".log": b"old", "10.log": b"old"}
    assert lines == ["t-0: the swap of 2 segments at 0 was undone"]


def test_a_swap_takes_the_snapshots_of_all_but_the_first_along():
    disk = a_disk(s0_log=b"old", s10_log=b"old", s0_log_cleaned=b"new", s0_snapshot=b"s", s10_snapshot=b"s")
    swap = Swap(disk, FOLDER, (0, 10))
    swap.prepare()
    swap.switch()
    swap.finish()
    assert names(disk) == {".log": b"new", ".snapshot": b"s"}


def test_a_damaged_note_is_named():
    disk = a_disk(s0_log=b"x", s0_replaced=b"0\nten\n")
    with pytest.raises(DamagedFile, match="not a list of base offsets"):
        recover_swaps(disk, FOLDER)
