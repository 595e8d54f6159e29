"""The files of a stream task: who may use them, what is believed, what a full disk does."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.pipelines.state.files import TaskFiles
from ottla.pipelines.state.mapped import StateDiskFull, StateRemoved
from ottla.pipelines.state.spec import StoreSpec

COUNTS = StoreSpec("counts", (("count", "int64"),))
TEXTS = StoreSpec("texts", (("at", "int64"), ("text", "bytes")), time="at")
RETENTION_MS = 86_400_000
NOW = 1_700_000_000_000


def binary(*cells):
    return pa.array(cells, pa.binary())


def a_task(folder, specs=(COUNTS, TEXTS), identity="cluster c, topics 1 2", **options):
    return TaskFiles(folder, specs, identity, **options)


def fill(files, token=b"one", count=1, keys=(b"a", b"b"), now_ms=NOW):
    """A step that counts keys and commits."""
    if not files.is_usable(now_ms, RETENTION_MS):
        files.discard()
    files.begin()
    rows = files.stores["counts"].rows(binary(*keys))
    files.stores["counts"]["count"][rows] += count
    files.stores["counts"].touch(rows)
    rows = files.stores["texts"].rows(binary(*keys))
    files.stores["texts"].put_values(rows, binary(*(token for _ in keys)))
    for store in files.stores.values():
        store.changes(now_ms)
    files.commit(token, {"counts": 7, "texts": 8}, now_ms)


def counted(files):
    store = files.stores["counts"]
    rows = store.find(binary(b"a", b"b"))
    return [int(store["count"][row]) for row in rows]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "technician_3"


def test_new_files_are_not_usable_and_a_commit_makes_them(folder):
    files = a_task(folder)
    with files.locked():
        assert files.why_unusable(NOW, RETENTION_MS) == "there is no state in this version's format"
        assert (files.token, files.positions) == (b"", {})
        fill(files)
        assert files.is_usable(NOW, RETENTION_MS)


@pytest.mark.parametrize("again", ["the same object", "another one"])
def test_the_content_is_there_again_with_token_and_positions(folder, again):
    files = a_task(folder)
    with files.locked():
        fill(files)
    other = files if again == "the same object" else a_task(folder)
    with other.locked():
        assert other.is_usable(NOW, RETENTION_MS)
        assert (other.token, other.positions) == (b"one", {"counts": 7, "texts": 8})
        assert counted(other) == [1, 1]
        assert other.stores["texts"].values([1]).to_pylist() == [b"one"]


def test_opening_a_million_rows_again_builds_nothing(folder):
    """Only what is looked at is read: opening maps files, and a search asks for a few pages."""
    files = a_task(folder, (COUNTS,))
    keys = binary(*(b"%07d" % number for number in range(100_000)))
    with files.locked():
        files.discard()
        files.stores["counts"].rows(keys)
        files.commit(b"one", {}, NOW)
    files.close()
    before = resource.getrusage(resource.RUSAGE_SELF)
    other = a_task(folder, (COUNTS,))
    with other.locked():
        assert other.is_usable(NOW, RETENTION_MS)
        assert other.stores["counts"].find(binary(b"0099999")).tolist() == [99_999]
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before.ru_minflt
        pages = other.stores["counts"].nbytes // 4096
    assert faults < pages / 4


def test_two_objects_that_grow_in_turn_see_each_other(folder):
    """The second one's mappings are too short when the first one has grown the files, and the other way round."""
    first, second = a_task(folder, (COUNTS,)), a_task(folder, (COUNTS,))
    for turn in range(6):
        files = (first, second)[turn % 2]
        with files.locked():
            if not turn:
                files.discard()
            files.begin()
            store = files.stores["counts"]
            assert len(store) == 2_000 * turn
            rows = store.rows(binary(*(b"%d-%d" % (turn, number) for number in range(2_000))))
            store["count"][rows] = turn
            files.commit(b"%d" % turn, {}, NOW)
    with first.locked():
        store = first.stores["counts"]
        assert store["count"].sum() == 2_000 * (1 + 2 + 3 + 4 + 5)
        assert store.find(binary(b"3-1999")).tolist() == [7_999]


def test_a_discard_by_another_object_is_seen_by_inode(folder):
    first, second = a_task(folder), a_task(folder)
    with first.locked():
        fill(first)
    with second.locked():
        second.discard()
        second.commit(b"two", {}, NOW)
    with first.locked():
        assert first.token == b"two"
        assert len(first.stores["counts"]) == 0


def test_a_step_that_was_not_finished_makes_the_files_unusable(folder):
    files = a_task(folder)
    with pytest.raises(ZeroDivisionError), files.locked():
        fill(files)
        files.begin()
        raise ZeroDivisionError
    for seen in (files, a_task(folder)):
        with seen.locked():
            assert seen.why_unusable(NOW, RETENTION_MS) == "a step was not finished"


def test_memory_follows_the_same_rules():
    files = a_task(None)
    with files.locked():
        assert not files.is_usable(NOW, RETENTION_MS)
        fill(files)
    with files.locked():
        assert files.is_usable(NOW, RETENTION_MS)
        assert counted(files) == [1, 1]
        files.begin()
    with files.locked():
        assert not files.is_usable(NOW, RETENTION_MS)
        files.discard()
        assert len(files.stores["counts"]) == 0
        assert files.is_private


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"identity": "cluster d"}, "another cluster, topic or topology"),
        ({"specs": (COUNTS,)}, "another cluster, topic or topology"),
        ({"boot": "another"}, "the machine was restarted"),
    ],
)
def test_files_of_something_else_are_not_used(folder, other, reason):
    with (files := a_task(folder)).locked():
        fill(files)
    with (changed := a_task(folder, **other)).locked():
        assert reason in changed.why_unusable(NOW, RETENTION_MS)


def test_limits_of_a_store_may_change(folder):
    with (files := a_task(folder, (COUNTS,))).locked():
        files.discard()
        files.commit(b"one", {}, NOW)
    limited = StoreSpec("counts", (("count", "int64"),), max_rows=5)
    with (changed := a_task(folder, (limited,))).locked():
        assert changed.is_usable(NOW, RETENTION_MS)


def test_after_a_restart_of_the_machine_only_synced_files_are_used(folder):
    with (files := a_task(folder, boot="first")).locked():
        fill(files)
        files.sync()
    with (files := a_task(folder, boot="second")).locked():
        assert files.is_usable(NOW, RETENTION_MS)
        assert counted(files) == [1, 1]
        fill(files, b"two")
    with (files := a_task(folder, boot="third")).locked():
        assert "the machine was restarted" in files.why_unusable(NOW, RETENTION_MS)


def test_the_disk_learns_of_a_change_to_synced_files_before_any_page_can_be_written(folder, monkeypatch):
    events = []
    fsync, pwrite = os.fsync, os.pwrite
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr(os, "pwrite", lambda *args: (events.append(("pwrite", args[1])), pwrite(*args))[1])  # type: ignore[arg-type]
    with (files := a_task(folder)).locked():
        fill(files)
        events.clear()
        files.begin()
        assert events == [("pwrite", b"\0")]  # type: ignore[comparison-overlap]  # never synced: there is nothing that the disk may trust
        files.commit(b"two", {}, NOW)
        files.sync()
        assert events[-2:] == [("pwrite", b"\2"), "fsync"]
        assert "fsync" in events[:-2]
        files.begin()
        assert events[-2:] == [("pwrite", b"\0"), "fsync"]


def test_unfinished_state_cannot_be_synced(folder):
    with (files := a_task(folder)).locked():
        files.discard()
        with pytest.raises(RuntimeError, match="commit"):
            files.sync()


@pytest.mark.parametrize("age_ms", [RETENTION_MS // 2 + 1, -RETENTION_MS // 2 - 1])
def test_files_that_are_older_than_half_of_the_deletions_in_the_changelog_are_not_used(folder, age_ms):
    with (files := a_task(folder)).locked():
        fill(files)
        assert files.is_usable(NOW + RETENTION_MS // 2, RETENTION_MS)
        assert "forgotten deletions" in files.why_unusable(NOW + age_ms, RETENTION_MS)


def test_files_with_the_committed_token_are_current_at_any_age(folder):
    with (files := a_task(folder)).locked():
        fill(files, b"one")
        assert files.is_usable(NOW + RETENTION_MS, RETENTION_MS, b"one")
        assert not files.is_usable(NOW + RETENTION_MS, RETENTION_MS, b"two")
        files.begin()
        assert not files.is_usable(NOW + RETENTION_MS, RETENTION_MS, b"one")


def test_a_missing_or_short_file_is_noticed(folder):
    with (files := a_task(folder)).locked():
        fill(files)
    (folder / "store-counts" / "keys").unlink()
    with (files := a_task(folder)).locked():
        assert files.why_unusable(NOW, RETENTION_MS) == "files are missing or of another size"
        fill(files)
    with (folder / "store-texts" / "values").open("ab") as cut:
        cut.truncate(100)
    with (files := a_task(folder)).locked():
        assert files.why_unusable(NOW, RETENTION_MS) == "files are missing or of another size"


@pytest.mark.parametrize("at", [0, 8, 20, 60])
def test_a_damaged_header_is_noticed(folder, at):
    with (files := a_task(folder)).locked():
        fill(files)
    header = bytearray((folder / "header").read_bytes())
    header[at] = 0 if at == 8 else header[at] ^ 1
    (folder / "header").write_bytes(header)
    with (files := a_task(folder)).locked():
        assert not files.is_usable(NOW, RETENTION_MS)


def test_a_cleared_store_is_empty_and_the_others_stay(folder):
    with (files := a_task(folder)).locked():
        fill(files)
        files.clear("counts")
        assert files.positions == {"texts": 8}
        assert (len(files.stores["counts"]), len(files.stores["texts"])) == (0, 2)
        assert not files.is_usable(NOW, RETENTION_MS)
        files.commit(b"two", {"counts": 1, "texts": 8}, NOW)
    with (files := a_task(folder)).locked():
        assert (len(files.stores["counts"]), len(files.stores["texts"])) == (0, 2)


def test_while_another_holds_the_lock_a_private_copy_is_used(folder):
    with (files := a_task(folder)).locked():
        fill(files)
        waiting = a_task(folder, lock_wait_s=0)
        with waiting.locked():
            assert waiting.is_private
            assert not waiting.is_usable(NOW, RETENTION_MS)
            fill(waiting, b"private", count=5)
            assert counted(waiting) == [5, 5]
        with waiting.locked():  # it goes on with its copy as long as the lock is held
            assert waiting.token == b"private"
        assert counted(files) == [1, 1]
    with waiting.locked():
        assert not waiting.is_private
        assert counted(waiting) == [1, 1]


def test_another_process_is_kept_out_until_the_lock_is_free(folder):
    program = """
import sys
from ottla.pipelines.state import StoreSpec, TaskFiles
files = TaskFiles(sys.argv[1], (StoreSpec("counts", (("count", "int64"),)),), "", lock_wait_s=0)
with files.locked():
    print(files.is_private)
files = TaskFiles(sys.argv[1], (StoreSpec("counts", (("count", "int64"),)),), "", lock_wait_s=60)
print("waits", flush=True)
with files.locked():
    print(files.is_private)
"""
    with a_task(folder).locked():
        other = subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE, text=True)
        assert [other.stdout.readline(), other.stdout.readline()] == ["True\n", "waits\n"]
    assert other.communicate()[0] == "False\n"


COUNTING = """
import sys
if sys.argv[2] == "python":
    sys.modules["ottla.pipelines.state._table"] = None
import pyarrow as pa
from ottla.pipelines.state import StoreSpec, TaskFiles, kernel
assert sys.argv[2] == "c" or not kernel.COMPILED
specs = (StoreSpec("counts", (("count", "int64"), ("text", "bytes"))),)
files = TaskFiles(sys.argv[1], specs, "", lock_wait_s=60)
me, steps = sys.argv[3].encode(), int(sys.argv[4])
for step in range(steps):
    with files.locked():
        assert not files.is_private
        if files.is_usable(0, 1 << 60):
            files.begin()
        else:
            files.discard()
        store = files.stores["counts"]
        keys = [b"shared", *(me + b"-%d-%d" % (step, number) for number in range(100))]
        rows = store.rows(pa.array(keys, pa.binary()))
        store["count"][rows] += 1
        store.put_values(rows, pa.array([me * (step + 1)] * len(rows), pa.binary()))
        store.delete(store.find(pa.array([me + b"-%d-%d" % (step, number) for number in range(50)], pa.binary())))
        store.changes(0)
        files.commit(b"%d" % (store["count"][store.find(pa.array([b"shared"], pa.binary()))][0]), {}, 0)
"""


def count_in(folder, kind, name, steps):
    return subprocess.Popen([sys.executable, "-c", COUNTING, folder, kind, name, str(steps)])


def check_counted(folder, steps_by_name):
    files = TaskFiles(folder, (StoreSpec("counts", (("count", "int64"), ("text", "bytes"))),), "")
    with files.locked():
        store, steps = files.stores["counts"], sum(steps_by_name.values())
        assert files.is_usable(0, 1 << 60)
        assert files.token == b"%d" % steps
        assert store["count"][store.find(binary(b"shared"))].tolist() == [steps]
        assert len(store) == 1 + 50 * steps
        for name, count in steps_by_name.items():
            keys = [b"%s-%d-%d" % (name.encode(), step, 50 + step) for step in range(count)]
            rows = store.find(binary(*keys))
            assert store.values(rows).to_pylist() == [name.encode() * (step + 1) for step in range(count)]


def test_processes_that_step_by_turns_lose_nothing(folder):
    """They grow, pack and delete in each other's files."""
    names = {"a": 25, "b": 25, "c": 25}
    processes = [count_in(folder, "c", name, steps) for name, steps in names.items()]
    assert [process.wait() for process in processes] == [0, 0, 0]
    check_counted(folder, names)


def test_python_goes_on_with_the_files_of_c_and_c_with_those_of_python(folder):
    for turn, kind in enumerate(("c", "python", "c", "python")):
        assert count_in(folder, kind, "abcd"[turn], 12).wait() == 0
    check_counted(folder, dict.fromkeys("abcd", 12))


def test_a_removed_folder_is_made_again_and_its_old_lock_keeps_nobody_out(folder):
    files = a_task(folder)
    with files.locked():
        fill(files)
        shutil.rmtree(folder)
        with (other := a_task(folder, lock_wait_s=0)).locked():
            assert not other.is_private
            fill(other, b"other", count=3)
        fill(files, b"two")  # into files that have no name any more
    with files.locked():
        assert files.token == b"other"
        assert counted(files) == [3, 3]


def test_a_step_in_a_removed_folder_never_grows_into_its_successors_files(folder):
    files = a_task(folder)
    with files.locked():
        fill(files)
        shutil.rmtree(folder)
        with (other := a_task(folder)).locked():
            fill(other, b"other")
        files.begin()
        with pytest.raises(StateRemoved, match="removed while it was in use"):
            files.stores["counts"].rows(binary(*(b"%d" % number for number in range(5_000))))


def test_nothing_works_without_the_lock(folder):
    files = a_task(folder)
    with files.locked():
        fill(files)
    with pytest.raises(RuntimeError, match="without its lock"):
        files.begin()


FULL_DISK = """
import resource, signal, sys
import pyarrow as pa
from ottla.pipelines.state import StateDiskFull, StoreSpec, TaskFiles
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
files = TaskFiles(sys.argv[1], (StoreSpec("counts", (("count", "int64"), ("text", "bytes"))),), "")
with files.locked():
    files.discard()
    store, base = files.stores["counts"], 0
    try:
        while base < 10_000_000:
            rows = store.rows(pa.array([b"%d" % number for number in range(base, base + 10_000)], pa.binary()))
            store["count"][rows] = 1
            store.put_values(rows, pa.array([b"x" * 50] * len(rows), pa.binary()))
            base += 10_000
    except StateDiskFull as error:
        print(error)
with files.locked():
    print(files.is_usable(0, 1 << 60))
"""


def test_a_full_disk_is_an_error_in_words(folder):
    limit = 1 << 20
    result = subprocess.run(
        [sys.executable, "-c", FULL_DISK, folder, str(limit)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    words, usable = result.stdout.splitlines()
    assert "bytes of state in" in words and "free disk space" in words
    assert usable == "False"


def test_a_small_disk_really_filled_does_not_kill_the_process(folder):
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    try:
        result = subprocess.run([sys.executable, "-c", FULL_DISK, folder], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert "No space left on device" in result.stdout
    finally:
        subprocess.run(["umount", folder], check=True)


def test_an_error_that_is_not_a_full_disk_stays_what_it_is(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no")

    with (files := a_task(folder)).locked():
        monkeypatch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(PermissionError) as raised:
            files.discard()
        assert not isinstance(raised.value, StateDiskFull)


def test_files_are_readable_by_their_owner_alone(folder):
    with (files := a_task(folder)).locked():
        fill(files)
    modes = {path.stat().st_mode & 0o777 for path in Path(folder).rglob("*") if path.is_file()}
    assert modes == {0o600}
