"""`ottla backup` and `ottla restore`: of one moment, whole or not at all, and a broker starts from it."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib

import pytest

import ottla
from ottla.backup.copying import copy_file
from ottla.backup.manifest import UNFINISHED, BadBackup
from ottla.backup.restoring import problems, restore
from ottla.backup.taking import take
from ottla.errors import OttlaError
from ottla.server.control import LINKS
from tests.deploy import brokers
from tests.deploy.brokers import Process


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def broker(data):
    with Process(data) as running:
        with ottla.Admin(bootstrap_servers=running.bootstrap) as admin:
            admin.create_topic("pairs", partitions=2)
        yield running


class Pairs:
    """Writes number after number, first to partition 0, then to partition 1: at each moment 0 is at most one ahead."""

    def __init__(self, bootstrap):
        self.acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap,))
        self._thread.start()

    def _run(self, bootstrap):
        with ottla.Producer(bootstrap_servers=bootstrap) as producer:
            number = 0
            while not self._stop.is_set():
                for partition in (0, 1):
                    producer.send("pairs", str(number), partition=partition).result(60)
                self.acknowledged = number = number + 1

    def wait_for(self, more):
        wanted, deadline = self.acknowledged + more, time.monotonic() + 60
        while self.acknowledged < wanted:
            assert time.monotonic() < deadline and self._thread.is_alive()
            time.sleep(0.005)

    def close(self):
        self._stop.set()
        self._thread.join()


@pytest.fixture
def pairs(broker):
    writing = Pairs(broker.bootstrap)
    yield writing
    writing.close()


def values(bootstrap, partition):
    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("pairs", partition)])
        (end,) = consumer.end_offsets([("pairs", partition)]).values()
        found = []
        while len(found) < end:
            found += [int(record.value) for record in consumer.poll(5)]
        return found


def restored_counts(backup, folder):
    restore(backup, [str(folder)])
    brokers.ottla("doctor", "--deep", "--data", folder)
    with Process(folder) as running:
        found = [values(running.bootstrap, partition) for partition in (0, 1)]
    assert all(numbers == list(range(len(numbers))) for numbers in found)
    return [len(numbers) for numbers in found]


def slowly(pairs):
    """While the files are copied, the broker goes on writing."""
    calls = iter(range(3))
    return lambda _: pairs.wait_for(20) if next(calls, None) is not None else None


def test_a_running_broker_is_copied_as_of_one_moment(broker, pairs, tmp_path):
    pairs.wait_for(50)
    before = pairs.acknowledged
    manifest = take([str(broker.data)], tmp_path / "backup", slowly(pairs))
    after = pairs.acknowledged
    assert manifest.running and not manifest.clustered
    first, second = restored_counts(tmp_path / "backup", tmp_path / "restored")
    assert first - second in (0, 1)
    assert before <= second and after > first + 20  # what came while it was copied is not in it
    pairs.wait_for(1)  # and the broker never stopped


def test_files_copied_to_their_ends_would_not_be_of_one_moment(broker, pairs, tmp_path, monkeypatch):
    """The bug that the sizes prevent, planted: the test above would see it."""

    def to_the_end(source, target, size, progress):
        return copy_file(source, target, source.stat().st_size, progress)

    monkeypatch.setattr("ottla.backup.taking.copy_file", to_the_end)
    pairs.wait_for(50)
    take([str(broker.data)], tmp_path / "backup", lambda _: pairs.wait_for(5))
    first, second = restored_counts(tmp_path / "backup", tmp_path / "restored")
    assert second > first


def test_what_is_deleted_during_a_backup_is_in_it(broker, tmp_path):
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for partition in (0, 1):
            producer.send("pairs", "0", partition=partition).result(60)
    deleted = []

    def delete(_):
        if not deleted:
            with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
                admin.delete_topics(["pairs"])
            deleted.append(True)

    take([str(broker.data)], tmp_path / "backup", delete)
    assert restored_counts(tmp_path / "backup", tmp_path / "restored") == [1, 1]


def test_groups_go_on_where_they_were(broker, tmp_path):
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("pairs", "0", partition=0).result(60)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    with ottla.Consumer(settings) as consumer:
        consumer.subscribe("pairs")
        while not consumer.poll(1):
            pass
        consumer.commit()
    take([str(broker.data)], tmp_path / "backup")
    restore(tmp_path / "backup", [str(tmp_path / "restored")])
    with Process(tmp_path / "restored") as running, ottla.Admin(bootstrap_servers=running.bootstrap) as admin:
        assert {key.partition: at.offset for key, at in admin.group_offsets("readers").items()}[0] == 1


def test_a_stopped_broker_is_copied_with_its_mark(broker, data, tmp_path):
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("pairs", "0", partition=0).result(60)
    assert broker.stop() == 0
    brokers.ottla("backup", tmp_path / "backup", "--data", data)
    brokers.ottla("restore", tmp_path / "backup", "--check")
    assert restored_counts(tmp_path / "backup", tmp_path / "restored") == [1, 0]
    assert (tmp_path / "backup" / "folder-0" / ".kafka_cleanshutdown").exists()


def links(data):
    return list(data.glob(f"{LINKS}*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from ottla.backup.taking import take
take([sys.argv[1]], Path(sys.argv[2]), lambda _: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_stopped_broker_is_not_copied_without_one_of_its_folders(tmp_path):
    """Its partitions there would start empty after a restore."""
    first, second = tmp_path / "first", tmp_path / "second"
    with Process(first, "--set", f"log.dirs={first},{second}"):
        pass
    assert (second / "meta.properties").exists()
    done = brokers.ottla("backup", tmp_path / "backup", "--data", first, check=False)
    assert done.returncode == 1 and "has another log folder, with directory.id" in done.stderr
    assert not (tmp_path / "backup").exists()
    brokers.ottla("backup", tmp_path / "backup", "--data", f"{first},{second}")
    assert (tmp_path / "backup" / "folder-1").exists()


def test_a_killed_backup_leaves_nothing_that_looks_like_one(broker, pairs, data, tmp_path):
    pairs.wait_for(10)
    done = subprocess.run([sys.executable, "-c", KILLED, str(data), str(tmp_path / "backup")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "backup").exists()
    with pytest.raises(BadBackup, match="not finished"):
        restore(tmp_path / f"backup{UNFINISHED}", [str(tmp_path / "restored")])
    deadline = time.monotonic() + 60
    while links(data):  # the broker lets go of the links
        assert time.monotonic() < deadline
        time.sleep(0.02)
    take([str(data)], tmp_path / "backup")
    assert not list(problems(tmp_path / "backup"))


def test_a_broker_killed_during_a_backup_is_said_and_cleans_up_later(broker, pairs, data, tmp_path):
    pairs.wait_for(10)
    pairs.close()
    killed = []

    def kill(_):
        if not killed:
            broker.kill()
            killed.append(True)

    with pytest.raises(OttlaError, match="has stopped"):
        take([str(data)], tmp_path / "backup", kill)
    assert not (tmp_path / "backup").exists()
    assert links(data)
    with Process(data):
        assert not links(data)


def test_two_backups_at_a_time_are_one_too_many(broker, data, tmp_path):
    def second(_):
        with pytest.raises(OttlaError, match="another backup"):
            take([str(data)], tmp_path / "second")

    take([str(data)], tmp_path / "first", second)


def test_a_damaged_backup_is_refused(broker, data, tmp_path):
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("pairs", "0", partition=0).result(60)
    take([str(data)], tmp_path / "backup")
    log = tmp_path / "backup" / "folder-0" / "pairs-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    assert [str(log) in problem for problem in problems(tmp_path / "backup")] == [True]
    with pytest.raises(BadBackup, match="damaged"):
        restore(tmp_path / "backup", [str(tmp_path / "restored")])
    assert not (tmp_path / "restored").exists()
    log.unlink()
    with pytest.raises(BadBackup, match="missing"):
        restore(tmp_path / "backup", [str(tmp_path / "restored")])


@pytest.mark.parametrize("name", ["../planted", "{tmp_path}/planted", "a/../../planted", "a/b/c", ""])
def test_a_backup_that_names_files_outside_of_it_is_refused(name, tmp_path):
    """Somebody else may have written it."""
    backup, name = tmp_path / "backup", name.format(tmp_path=tmp_path)
    (backup / "folder-0").mkdir(parents=True)
    (backup / "planted").write_bytes(b"x")
    manifest = {"format": 1, "taken_at": "", "ottla": "", "clustered": False, "running": False}
    files = {name: {"size": 1, "crc32": zlib.crc32(b"x")}}
    (backup / "backup.json").write_text(json.dumps({**manifest, "folders": [files]}))
    with pytest.raises(BadBackup, match="is no file of a log folder"):
        restore(backup, [str(tmp_path / "restored")])
    with pytest.raises(BadBackup, match="is no file of a log folder"):
        list(problems(backup))
    assert {path.name for path in tmp_path.iterdir()} == {"backup"}


@pytest.mark.parametrize("folders", [[{"a": {"size": "x", "crc32": 1}}], [["a"]], None])
def test_a_manifest_of_another_shape_is_refused(folders, tmp_path):
    manifest = {"format": 1, "taken_at": "", "ottla": "", "clustered": False, "running": False}
    (tmp_path / "backup.json").write_text(json.dumps({**manifest, "folders": folders}))
    done = brokers.ottla("restore", tmp_path, "--data", tmp_path / "restored", check=False)
    assert done.returncode == 1 and "backup.json cannot be read" in done.stderr


def test_the_file_systems_own_folder_is_left_out(broker, data, tmp_path):
    (data / "lost+found" / "#1").mkdir(parents=True)
    take([str(data)], tmp_path / "of-a-running-one")
    broker.stop()
    take([str(data)], tmp_path / "of-a-stopped-one")
    for name in ("of-a-running-one", "of-a-stopped-one"):
        assert not (tmp_path / name / "folder-0" / "lost+found").exists()
        assert (tmp_path / name / "folder-0" / "meta.properties").exists()


def test_a_mount_point_is_refused_before_anything_is_copied(broker, data, tmp_path):
    """The restored folder gets its name by a rename, which no mount point allows."""
    take([str(data)], tmp_path / "backup")
    with pytest.raises(BadBackup, match="is a mount point: name a folder below it"):
        restore(tmp_path / "backup", ["/proc"])


def test_a_backup_is_readable_by_its_owner_alone(broker, data, tmp_path):
    """It holds records and what logins are checked with, wherever it is put."""
    take([str(data)], tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0


def test_nothing_is_written_over(broker, data, tmp_path):
    take([str(data)], tmp_path / "backup")
    with pytest.raises(BadBackup, match="there already"):
        take([str(data)], tmp_path / "backup")
    with pytest.raises(BadBackup, match="not empty"):
        restore(tmp_path / "backup", [str(data)])
    with pytest.raises(BadBackup, match="1 log folders"):
        restore(tmp_path / "backup", ["a", "b"])


def test_a_folder_with_a_long_name_has_its_socket_too(tmp_path):
    deep = tmp_path / ("d" * 120) / "data"
    deep.parent.mkdir()
    with Process(deep):
        take([str(deep)], tmp_path / "backup")
    shutil.rmtree(deep)


def test_a_folder_that_is_none_of_a_broker_is_refused(tmp_path):
    done = brokers.ottla("backup", tmp_path / "backup", "--data", tmp_path, check=False)
    assert done.returncode == 1 and "meta.properties" in done.stderr
