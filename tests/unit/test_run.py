"""`make test` itself: what it tells, and that nothing hangs or stays behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.run import STAGES

_PROJECT = Path(__file__).parents[2]
_CHILD = """
import subprocess, threading, pytest

@pytest.mark.timeout({timeout}, method="thread")
def test_hangs():
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    open({pid!r}, "w").write(str(child.pid))
    threading.Event().wait()
"""


def _folder(path: Path, source: str) -> str:
    path.mkdir()
    (path / "test_it.py").write_text(source)
    return str(path)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.run", *arguments]
    return subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, timeout=200)


def test_the_last_lines_tell_what_failed_and_what_was_skipped(tmp_path: Path) -> None:
    good = _folder(
        tmp_path / "good", "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no anvil')\n"
    )
    bad = _folder(tmp_path / "bad", "def test_c(): assert 1 == 2\ndef test_d(): pass\n")
    done = _run(good, bad)
    assert done.returncode == 1
    told = done.stdout[done.stdout.index("== skipped, and why") :].splitlines()
    assert told[1].split(None, 1) == ["1", "no anvil"]
    assert f"passed  {good}: 1 passed, 1 skipped in" in done.stdout
    assert f"FAILED  {bad}: 1 failed, 1 passed in" in done.stdout
    assert any(line.strip().startswith("FAILED") and "test_c" in line for line in told[-3:])
    assert told[-1].startswith("2 passed, 1 failed, 1 skipped in")
    assert _run(good).returncode == 0


def test_a_test_that_times_out_fails_its_folder_and_leaves_no_process_behind(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = _run(_folder(tmp_path / "hangs", _CHILD.format(pid=str(pid), timeout=6)))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("0 passed, 1 failed")
    assert "ended without a summary" in done.stdout
    assert not _runs(int(pid.read_text()))


def test_a_folder_over_its_limit_is_ended(tmp_path: Path) -> None:
    done = _run(
        "--limit-s", "0.1", _folder(tmp_path / "slow", "import time\ndef test_a(): time.sleep(1000)\n")
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("0 passed, 1 failed")


def test_every_test_is_in_one_place_of_the_plan() -> None:
    """But for those that need a KDC: `make test-kerberos`."""
    plan = [_PROJECT / each for stage in STAGES for lane in stage for each in lane]
    files = [*_PROJECT.glob("tests/**/test_*.py"), *_PROJECT.glob("examples/**/test_*.py")]
    wrong = [file for file in files if sum(file.is_relative_to(each) for each in plan) != 1]
    assert {file.relative_to(_PROJECT).parts[1] for file in wrong} <= {"kerberos"}


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
