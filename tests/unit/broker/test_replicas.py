"""Partitions come and go with the metadata, whatever the disk says to it."""

import errno
import itertools

import pytest

from ottla.broker.partitions.replicas import Replicas
from ottla.config.settings import Config
from ottla.metadata.image import Image
from ottla.metadata.records import PartitionCreated, TopicCreated, TopicDeleted
from ottla.storage import checkpoints
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.memory import MemoryDisk
from ottla.testing.world.time import Time
from ottla.wire.batch import build
from ottla.wire.records import Record

CHECKPOINTS = [
    checkpoints.RECOVERY_POINTS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.CLEANER_OFFSETS,
]
OLD, NEW = b"o" * 16, b"n" * 16
NO_SPACE = OSError(errno.ENOSPC, "no space left on device")
BROKEN = OSError(errno.EIO, "broken")
NO_HANDLES = OSError(errno.EMFILE, "too many open files")


class Jobs:
    """At once."""

    def submit(self, job, done):
        done(job())


class Host:
    """A broker's partitions on its disks, from start to restart."""

    def __init__(self, *disks):
        self.disks = disks
        self.image = Image()
        self.unique = (f"{number:032x}" for number in itertools.count())
        self.start()

    def start(self):
        self.folders = [
            LogFolder(
                disk,
                f"data{number}",
                files=FileCache(),
                report=lambda line: None,
                on_offline=lambda folder, error: self.replicas.on_folder_offline(folder),
            )
            for number, disk in enumerate(self.disks)
        ]
        self.replicas = Replicas(
            1,
            self.image,
            Config({}),
            self.folders,
            Time(),
            Jobs(),
            lambda: next(self.unique),
            lambda partition: None,
        )
        self.replicas.join()
        for opening in self.replicas.openings():
            opening.run()
            self.replicas.adopt(opening)
        self.replicas.start()

    def restart(self):
        self.image._watchers.clear()
        self.start()

    def create(self, topic_id, partitions=3):
        self.image.apply(TopicCreated("t", topic_id))
        for index in range(partitions):
            self.image.apply(PartitionCreated(topic_id, index, (1,), (1,), 1))

    def delete(self, topic_id):
        self.image.apply(TopicDeleted(topic_id))

    def append(self, text):
        for partition in self.replicas.partitions.values():
            if partition.log is not None:
                partition.log.append(build([Record(0, 1, b"k", text)]), leader_epoch=0, now_ms=0)

    def starts(self):
        return [partition.log.log_start_offset for _, partition in sorted(self.replicas.partitions.items())]

    def ends(self):
        """Where the logs end; None for a partition that is offline."""
        return [
            None if partition.log is None else partition.log.end_offset
            for _, partition in sorted(self.replicas.partitions.items())
        ]

    def stranded(self):
        return [name for disk in self.disks for name in disk.list("") if name.endswith("-stray")]


def test_a_rename_that_fails_does_not_keep_the_other_partitions_of_a_deleted_topic():
    disk = MemoryDisk()
    host = Host(disk)
    host.create(OLD)
    host.append(b"old")
    disk.fail("rename", NO_SPACE, path_part="t-0")
    host.delete(OLD)
    assert not host.replicas.partitions
    assert [name for name in disk.list("") if name.startswith("t-")] == ["t-0"]


def test_a_topic_created_again_never_writes_behind_the_records_of_the_old_one():
    disk = MemoryDisk()
    host = Host(disk)
    host.create(OLD)
    host.append(b"old")
    disk.fail("rename", NO_SPACE, path_part="t-0")
    host.delete(OLD)
    disk.clear_faults()
    host.create(NEW)
    assert host.ends() == [0, 0, 0] and len(host.stranded()) == 1
    host.append(b"new")
    host.restart()
    assert host.ends() == [1, 1, 1]
    for partition in host.replicas.partitions.values():
        assert partition.state.topic_id == NEW
        assert b"new" in bytes(partition.log.read(0, max_bytes=1000, up_to=1).data)


def test_a_partition_is_offline_while_the_old_files_cannot_be_put_aside():
    disk, other = MemoryDisk(), MemoryDisk()
    host = Host(disk, other)
    host.create(OLD)
    host.append(b"old")
    disk.fail("rename", NO_SPACE, path_part="t-0")
    host.delete(OLD)
    host.create(NEW)
    assert host.ends() == [None, 0, 0]
    host.append(b"new")
    host.restart()
    assert host.ends() == [None, 1, 1]  # and the disk refuses still
    disk.clear_faults()
    host.restart()
    assert host.ends() == [0, 1, 1] and len(host.stranded()) == 1


def test_a_disk_that_breaks_while_a_topic_is_deleted_leaves_the_other_disk_in_use():
    disk, other = MemoryDisk(), MemoryDisk()
    host = Host(disk, other)
    host.create(OLD, partitions=4)
    host.append(b"old")
    disk.fail("rename", BROKEN)
    host.delete(OLD)
    assert host.folders[0].is_offline and not host.replicas.partitions
    assert not [name for name in other.list("") if name.startswith("t-")]
    host.create(NEW, partitions=4)
    assert host.ends() == [0, 0, 0, 0]


def test_a_partition_left_over_from_an_earlier_topic_is_not_handed_to_the_next_one():
    host = Host(MemoryDisk())
    host.create(OLD)
    host.append(b"old")
    failures = [RuntimeError("a watcher failed")]

    def watch(key, partition):
        if partition is None and failures:
            raise failures.pop()

    host.replicas.watch(watch)
    with pytest.raises(RuntimeError):
        host.delete(OLD)
    assert len(host.replicas.partitions) == 2
    host.create(NEW)
    assert host.ends() == [0, 0, 0]
    assert {partition.state.topic_id for partition in host.replicas.partitions.values()} == {NEW}
    host.delete(NEW)
    assert not host.replicas.partitions


def test_a_disk_that_refuses_a_rename_at_the_start_does_not_stop_the_others():
    disk, other = MemoryDisk(), MemoryDisk()
    host = Host(disk, other)
    host.create(OLD)
    host.append(b"old")
    host.image._watchers.clear()  # the broker is down
    host.delete(OLD)
    host.create(NEW)
    disk.fail("rename", NO_SPACE)
    host.restart()
    homes = ["t-0" in disk.list(""), "t-1" in disk.list(""), "t-2" in disk.list("")]
    assert True in homes and False in homes
    assert host.ends() == [None if refused else 0 for refused in homes]


def test_an_old_copy_that_cannot_be_put_aside_is_not_preferred_to_the_shorter_new_one():
    disk, other = MemoryDisk(), MemoryDisk()
    host = Host(disk, other)
    host.create(OLD, partitions=1)
    for _ in range(3):
        host.append(b"old")
    disk.fail("rename", BROKEN)
    host.delete(OLD)
    host.create(NEW, partitions=1)  # on the other disk, as the first one is offline
    host.append(b"new")
    disk.clear_faults()
    disk.fail("rename", NO_SPACE)
    host.restart()
    assert host.ends() == [1]
    assert b"new" in bytes(host.replicas.partition("t", 0).log.read(0, max_bytes=1000, up_to=1).data)


def test_a_partition_whose_topic_cannot_be_read_at_the_start_is_offline_and_keeps_its_files():
    disk = MemoryDisk()
    host = Host(disk)
    host.create(OLD)
    host.append(b"old")
    disk.fail("read", NO_HANDLES, path_part="t-1/partition.metadata")
    host.restart()
    assert host.ends() == [1, None, 1]
    disk.clear_faults()
    host.restart()
    assert host.ends() == [1, 1, 1] and not host.stranded()


@pytest.mark.parametrize("error", [NO_HANDLES, BROKEN])
@pytest.mark.parametrize("name", [*CHECKPOINTS, "list"])
def test_a_folder_whose_checkpoints_cannot_be_read_at_the_start_is_offline_with_all_its_logs(name, error):
    """A shortage passes: then the folder was used with half of them, and deleted records were there again."""
    disk = MemoryDisk()
    host = Host(disk)
    host.create(OLD)
    for _ in range(2):
        host.append(b"old")
    for partition in host.replicas.partitions.values():
        partition.log.advance_high_watermark(2)
        partition.log.delete_records_before(1)
    host.folders[0].cleaner_offsets["t", 0] = 1
    host.folders[0].close()
    if name == "list":
        disk.fail("list", error, times=1)
    else:
        disk.fail("read", error, path_part=name, times=1)
    host.restart()
    assert host.folders[0].is_offline and host.ends() == [None, None, None]
    host.restart()
    assert (host.starts(), host.ends(), host.stranded()) == ([1, 1, 1], [2, 2, 2], [])
    assert host.folders[0].was_clean, "nothing was written in between"


def test_the_logs_of_another_folder_are_in_use_while_one_cannot_be_read():
    disk, other = MemoryDisk(), MemoryDisk()
    host = Host(disk, other)
    host.create(OLD, partitions=2)
    host.append(b"old")
    disk.fail("list", NO_HANDLES)
    host.restart()
    assert sorted(host.ends(), key=str) == [1, None]
