"""`make test`: a process for each folder, two at a time where neither measures time; what failed is told at the end.

    python -m tests.run [--limit-s 3000] [FOLDER ...]

A folder's output is printed when the folder ends. A folder that takes longer than the limit is ended with
everything it started, and counts as failed. So nothing can hang: a test has pytest's time-out, a folder has this one.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

# Stages follow each other. The lanes of a stage run side by side, each from left to right. The second stage has one:
# its folders measure time, or fill both cores and a good part of the memory (JVMs, Spark).
STAGES = (
    (
        (
            "tests/unit",
            "tests/property",
            "tests/simulation",
            "tests/testing",
            "tests/pipelines",
            "tests/streams",
            "tests/connect",
            "tests/registry",
            "tests/console",
            "tests/metrics",
            "tests/mirror",
            "examples",
        ),
        ("tests/compat", "tests/course", "tests/deploy"),
    ),
    (
        (
            "tests/integration",
            "tests/cluster",
            "tests/spark",
            "tests/homecare",
            "tests/soak/test_strangers.py",
        ),
    ),
    # These wait more than they work: for sessions and locks to end, for processes to start again.
    (
        ("tests/soak/test_short.py",),
        (
            "tests/soak/test_systems.py",
            "tests/soak/test_api.py",
            "tests/soak/test_ownership.py",
            "tests/soak/test_share_history.py",
        ),
    ),
)
_MARK = "OTTLA_TEST_FOLDER"  # in the environment of everything that a folder starts
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed|warnings?)\b")
_SUMMARY = re.compile(
    r"^(?:=+ )?((?:\d+ [a-z]+,? ?)+ in [\d.]+s.*?|no tests ran in .*?)(?: =+)?$", re.MULTILINE
)
_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] [^:]+(?::\d+)?: (.*)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) \S.*$", re.MULTILINE)


@dataclass(slots=True)
class Outcome:
    folder: str
    summary: str
    seconds: float
    failed: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


class Run:
    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._printing = threading.Lock()
        self._stopped = threading.Event()
        self.outcomes: list[Outcome] = []

    def all(self, folders: list[str]) -> None:
        """Folders of the plan in their stages, two at a time; then the others, one by one."""
        for stage in STAGES:
            self._stage([deque(each for each in lane if each in folders) for lane in stage])
        planned = {each for stage in STAGES for lane in stage for each in lane}
        self._lane(deque(each for each in folders if each not in planned))

    def _stage(self, lanes: list[deque[str]]) -> None:
        threads = [threading.Thread(target=self._lane, args=(lane,)) for lane in lanes]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._stopped.set()  # whoever presses Ctrl-C waits for the folders to be ended, not for their tests
            for thread in threads:
                thread.join()
            raise

    def _lane(self, folders: deque[str]) -> None:
        while folders and not self._stopped.is_set():
            self._folder(folders.popleft())

    def _folder(self, folder: str) -> None:
        began = time.monotonic()
        mark = f"{os.getpid()}:{folder}"
        with tempfile.TemporaryFile("w+b") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "-ra", folder],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, _MARK: mark, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
            try:
                ended = self._wait(process, began)
            finally:
                _end_all(process, mark)
            output.seek(0)
            text = output.read().decode(errors="replace")
        outcome = _outcome(folder, text, process.returncode, ended, time.monotonic() - began)
        with self._printing:
            self.outcomes.append(outcome)
            print(f"== {folder}\n{text.rstrip()}\n== {folder}: {outcome.summary}", flush=True)

    def _wait(self, process: subprocess.Popen[bytes], began: float) -> bool:
        """Whether it ended by itself."""
        while process.poll() is None:
            if self._stopped.wait(0.2) or time.monotonic() - began > self._limit_s:
                return False
        return True


def _end_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """The folder's processes, also those of which pytest lost sight: a test that timed out ended it at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{_MARK}={mark}".encode() in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended, or is somebody else's


def _outcome(folder: str, text: str, code: int, ended: bool, seconds: float) -> Outcome:
    found = _SUMMARY.findall(text)
    summary = found[-1] if found else ""
    counts: Counter[str] = Counter()
    for number, word in _COUNT.findall(summary):
        counts["failed" if word.startswith("error") else word] += int(number)
    if not summary or not ended:
        summary = f"ended without a summary after {seconds:.0f} s (exit code {code})"
        counts["failed"] += 1
    elif code not in (0, 5) and not counts["failed"]:
        summary += f" (exit code {code})"
        counts["failed"] += 1
    skipped: Counter[str] = Counter()
    for number, reason in _SKIPPED.findall(text):
        skipped[reason] += int(number)
    return Outcome(folder, summary, seconds, _FAILED.findall(text), counts, skipped)


def _report(outcomes: list[Outcome], seconds: float) -> int:
    skipped: Counter[str] = sum((each.skipped for each in outcomes), Counter())
    if skipped:
        print("\n== skipped, and why")
        for reason, number in skipped.most_common():
            print(f"{number:5}  {reason}")
    print("\n== folders")
    for each in outcomes:
        print(f"{'FAILED' if each.counts['failed'] else 'passed'}  {each.folder}: {each.summary}")
        for line in each.failed if each.counts["failed"] else ():
            print(f"        {line}")
    counts: Counter[str] = sum((each.counts for each in outcomes), Counter())
    told = ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped"))
    print(f"{told} in {seconds:.0f}s", flush=True)
    return 1 if counts["failed"] or not counts["passed"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", help="all of them if none is named")
    parser.add_argument("--limit-s", type=float, default=3000, help="of each folder (%(default)s)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell starts what runs in the background without SIGINT; programs under test are stopped with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    run = Run(options.limit_s)
    run.all(options.folders or [each for stage in STAGES for lane in stage for each in lane])
    return _report(run.outcomes, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
