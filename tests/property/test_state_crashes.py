"""A process may die at any line of a step: what is found afterwards is unusable, or exactly what was committed."""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ottla.pipelines.state.files import TaskFiles
from ottla.pipelines.state.header import CLEAN
from ottla.pipelines.state.spec import StoreSpec

SPECS = (
    StoreSpec("counts", (("count", "int64"),)),
    StoreSpec("texts", (("at", "int64"), ("text", "bytes")), time="at"),
)
STEPS = 6
NOW = 1_700_000_000_000
RETENTION_MS = 86_400_000
PACKAGE = str(Path("ottla", "pipelines", "state"))
KILLED, FINISHED = 17, 0

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def binary(cells):
    return pa.array(cells, pa.binary())


def changes_of(step):
    """Keys that a step counts, and keys that it deletes. The third step needs larger arrays."""
    chance = random.Random(step)
    counted = [b"k%d" % chance.randrange(60) for _ in range(20)]
    if step == 3:
        counted += [b"many-%d" % number for number in range(1_500)]
    return sorted(set(counted)), sorted({b"k%d" % chance.randrange(60) for _ in range(8)} - set(counted))


def model_after(step):
    counts, texts = {}, {}
    for number in range(1, step + 1):
        counted, deleted = changes_of(number)
        for key in counted:
            counts[key] = counts.get(key, 0) + 1
            texts[key] = b"%s in step %d" % (key, number)
        for key in deleted:
            counts.pop(key, None)
            texts.pop(key, None)
    return counts, texts


def take_step(files, step):
    counted, deleted = changes_of(step)
    files.begin()
    counts, texts = files.stores["counts"], files.stores["texts"]
    rows = counts.rows(binary(counted))
    counts["count"][rows] += 1
    counts.touch(rows)
    rows = texts.rows(binary(counted))
    texts.put_values(rows, binary([b"%s in step %d" % (key, step) for key in counted]))
    for store in (counts, texts):
        rows = store.find(binary(deleted))
        store.delete(rows[rows >= 0])
        store.changes(NOW)
    files.commit(b"%d" % step, {"counts": step, "texts": step}, NOW)
    if step == 4:
        files.sync()


def take_steps(folder):
    files = TaskFiles(folder, SPECS, "identity")
    with files.locked():
        files.discard()
        files.commit(b"0", {}, NOW)
    for step in range(1, STEPS + 1):
        with files.locked():
            take_step(files, step)


def events_until(limit, act):
    """Runs `act` and dies at the `limit`-th line of the package; the number of lines if it is not reached."""
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        if PACKAGE not in frame.f_code.co_filename:
            return None
        seen += 1
        if seen == limit:
            os._exit(KILLED)
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return seen


def die_at(limit, folder, prepare=lambda: None):
    """In a process of its own: the folder is left as a killed process leaves it."""
    child = os.fork()
    if not child:
        try:
            prepare()
            events_until(limit, lambda: take_steps(folder))
        except BaseException:
            os._exit(1)
        os._exit(FINISHED)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (KILLED, FINISHED)


def held(files):
    counts, texts = files.stores["counts"], files.stores["texts"]
    rows = np.flatnonzero(counts.alive())
    counted = dict(zip(counts.keys(rows).to_pylist(), counts["count"][rows].tolist(), strict=True))
    rows = np.flatnonzero(texts.alive())
    return counted, dict(zip(texts.keys(rows).to_pylist(), texts.values(rows).to_pylist(), strict=True))


def verdict(folder):
    """ "unusable", "right", or "wrong": usable, and not what the token says."""
    files = TaskFiles(folder, SPECS, "identity", lock_wait_s=0)
    with files.locked():
        assert not files.is_private  # the lock went with the process
        if not files.is_usable(NOW, RETENTION_MS):
            return "unusable"
        step = int(files.token)
        expected = {} if not step else {"counts": step, "texts": step}
        return "right" if held(files) == model_after(step) and files.positions == expected else "wrong"


def verdicts(folder, points, prepare=lambda: None):
    seen = []
    for limit in points:
        shutil.rmtree(folder, ignore_errors=True)
        die_at(limit, folder, prepare)
        seen.append(verdict(folder))
    return seen


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """A folder without a disk, if there is one: hundreds of syncs would take minutes, and a kill needs none."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path_factory.mktemp("crashes")
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def lines(memory):
    folder = memory / "all"
    count = events_until(-1, lambda: take_steps(folder))
    assert verdict(folder) == "right"
    return count


def test_after_a_kill_at_any_line_the_state_is_unusable_or_exactly_what_was_committed(memory, lines):
    points = random.Random(5).sample(range(1, lines), 100)
    seen = verdicts(memory / "task", points)
    assert "wrong" not in seen
    assert {"unusable", "right"} <= set(seen)  # both sides of a commit were hit


def all_of_commit(memory):
    """Lines around the commits, every single one: where a wrong order of writes would show."""
    spots, seen = [], 0

    def trace(frame, event, _):
        nonlocal seen
        if PACKAGE not in frame.f_code.co_filename:
            return None
        seen += 1
        if frame.f_code.co_name in ("commit", "mark", "write", "begin"):
            spots.append(seen)
        return trace

    sys.settrace(trace)
    try:
        take_steps(memory / "spots")
    finally:
        sys.settrace(None)
    return random.Random(7).sample(spots, min(len(spots), 80))


def test_a_kill_at_any_line_of_begin_and_commit_leaves_the_truth(memory, lines):
    assert "wrong" not in verdicts(memory / "task", all_of_commit(memory))


def clean_before_the_token_is_written():
    commit = TaskFiles.commit

    def planted(self, *args):
        self._place.mark(CLEAN, synced=False)
        commit(self, *args)

    TaskFiles.commit = planted  # type: ignore[method-assign]


def no_mark_before_the_first_change():
    TaskFiles.begin = lambda self: None  # type: ignore[method-assign]


@pytest.mark.parametrize("plant", [clean_before_the_token_is_written, no_mark_before_the_first_change])
def test_planted_bugs_are_caught(memory, lines, plant):
    points = all_of_commit(memory) + random.Random(9).sample(range(1, lines), 40)
    assert "wrong" in verdicts(memory / "task", points, plant)


# -- a changelog that forgets deletions ------------------------------------------------------------


class Changelog:
    """A compacted topic: of each key the last record stays, and a deletion until delete.retention.ms has passed."""

    def __init__(self):
        self.records = []  # offset, time, key, value

    def append(self, now_ms, key, value):
        self.records.append((len(self.records), now_ms, key, value))

    def compact(self, now_ms):
        last = {key: offset for offset, _, key, _ in self.records}
        self.kept = [
            record
            for record in self.records
            if last[record[2]] == record[0] and (record[3] is not None or now_ms - record[1] < RETENTION_MS)
        ]

    def read(self, position):
        return [(key, value) for offset, _, key, value in self.kept if offset >= position]


def catch_up(files, changelog, now_ms, retention_ms):
    """As a stream task does: go on from the file's position if the file may be used, else from the start."""
    if not files.is_usable(now_ms, retention_ms):
        files.discard()
    files.begin()
    records = changelog.read(files.positions.get("counts", 0))
    files.stores["counts"].apply(binary([key for key, _ in records]), binary([value for _, value in records]))
    end = len(changelog.records)
    files.commit(b"caught up", {"counts": end}, now_ms)


@pytest.mark.parametrize(("hours", "rule"), [(11, True), (13, True), (25, True), (25, False)])
def test_a_deletion_that_the_changelog_has_forgotten_is_not_missed_by_a_warm_file(memory, hours, rule):
    """Without the rule of half the retention the deleted key would live for ever: that must be seen here."""
    changelog, later = Changelog(), NOW + hours * 3_600_000
    changelog.append(NOW, b"stays", bytes(8))
    changelog.append(NOW, b"goes", bytes(8))
    changelog.compact(NOW)
    files = TaskFiles(memory / f"{hours} {rule}", SPECS[:1], "identity")
    with files.locked():
        catch_up(files, changelog, NOW, RETENTION_MS)
        assert len(files.stores["counts"]) == 2
    changelog.append(NOW + 1, b"goes", None)  # while another host had the task
    changelog.compact(later)
    with files.locked():
        catch_up(files, changelog, later, RETENTION_MS if rule else sys.maxsize)
        store = files.stores["counts"]
        keys = store.keys(np.flatnonzero(store.alive())).to_pylist()
    assert keys == ([b"stays"] if rule else [b"stays", b"goes"])
