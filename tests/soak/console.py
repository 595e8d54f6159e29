"""Live pages of the console in a browser while records arrive: its memory and the pages' stay flat.

    python -m tests.soak.console [--seconds 600]

Needs Chromium (`make tools`) and playwright (`make setup`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla import Consumer, Producer
from ottla.testing import Broker
from tests.console.consoles import CHROMIUM, FLAGS, Console

TOPICS, GROUPS = 20, ("classic", "consumer")
PAGES = ("/", "/topics", "/group?id=readers-consumer", "/topics/live-00/messages?live=1")
STEPS = 12  # memory is read so often, evenly
# From the middle third of the run to its last: history fills for five minutes, allocators keep what they had once.
CONSOLE_GROWTH_MB, PAGE_GROWTH_MB, NODES_GROWTH = 4.0, 3.0, 1.25
LIST_FULL_S = 150  # the page of live records keeps 500; until then its document grows


@dataclass(slots=True)
class Report:
    seconds: float = 0.0
    records: int = 0
    shown: int = 0  # what the overview said about the rate, counted by change
    console_mb: list[float] = field(default_factory=list)
    pages_mb: list[float] = field(
        default_factory=list
    )  # of JavaScript, after a collection, all pages together
    nodes: list[int] = field(default_factory=list)  # of the documents
    troubles: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return (
            not self.troubles
            and self.shown >= self.seconds / 6
            and _growth(self.console_mb) <= CONSOLE_GROWTH_MB
            and _growth(self.pages_mb) <= PAGE_GROWTH_MB
            and (self.seconds < 3 * LIST_FULL_S or self._nodes_are_flat)
        )

    @property
    def _nodes_are_flat(self) -> bool:
        return max(self.nodes[-STEPS // 3 :]) <= NODES_GROWTH * max(self.nodes[: -STEPS // 3])


def _growth(values: list[float]) -> float:
    third = len(values) // 3
    return statistics.median(values[-third:]) - statistics.median(values[third : 2 * third])


def why_not() -> str | None:
    """The reason why no browser runs here, or None."""
    if CHROMIUM is None:
        return "Chromium is not installed (make tools)"
    try:
        import playwright.sync_api  # type: ignore[import-not-found,unused-ignore] # noqa: F401
    except ImportError:
        return "playwright is not installed"
    return None


def run(seconds: float, say: Callable[[str], None] = lambda _: None) -> Report:
    report = Report(seconds)
    settings = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0}
    with Broker(settings) as broker:
        for i in range(TOPICS):
            broker.create_topic(f"live-{i:02d}", 2)
        with _load(broker.bootstrap, report), Console(broker.bootstrap) as console:
            _watch(console, report, say)
    return report


@contextmanager
def _load(bootstrap: str, report: Report) -> Iterator[None]:
    """Records to every topic, and groups that read them."""
    over = threading.Event()

    def send() -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            while not over.wait(0.2):
                for i in range(TOPICS):
                    producer.send(f"live-{i:02d}", b'{"number": %d}' % report.records, key=b"k%d" % i)
                    report.records += 1

    def read(protocol: str) -> None:
        settings = {"group.id": f"readers-{protocol}", "group.protocol": protocol, "client.id": protocol}
        with Consumer(settings, bootstrap_servers=bootstrap) as consumer:
            consumer.subscribe([f"live-{i:02d}" for i in range(TOPICS)])
            while not over.is_set():
                consumer.poll(0.5)

    threads = [threading.Thread(target=send), *(threading.Thread(target=read, args=(g,)) for g in GROUPS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _watch(console: Console, report: Report, say: Callable[[str], None]) -> None:
    from playwright.sync_api import sync_playwright  # type: ignore[import-not-found,unused-ignore]

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(60_000)
        context.new_page().goto(console.login())
        pages = []
        for path in PAGES:
            page = context.new_page()
            page.on("pageerror", lambda error: report.troubles.append(str(error)))
            _until_there(page, console.base + path)
            pages.append(page)
        sessions = [context.new_cdp_session(page) for page in pages]
        for session in sessions:
            session.send("Performance.enable")
        rate, before = pages[0].locator('[data-k="figure/records"]'), ""
        began = time.monotonic()
        for step in range(1, STEPS + 1):
            while time.monotonic() < began + report.seconds * step / STEPS:
                shown = rate.inner_text()
                report.shown, before = report.shown + (shown != before), shown
                pages[0].wait_for_timeout(500)
            _measure(console, sessions, report)
            say(f"{step} of {STEPS}: console {report.console_mb[-1]} MB, pages {report.pages_mb[-1]} MB")
        browser.close()


def _until_there(page: Any, address: str) -> None:
    """A group whose members have not joined yet is not there for a moment."""
    deadline = time.monotonic() + 60
    while page.goto(address).status != 200:
        assert time.monotonic() < deadline, address
        page.wait_for_timeout(500)


def _measure(console: Console, sessions: list[Any], report: Report) -> None:
    heap, nodes = 0.0, 0
    for session in sessions:
        session.send("HeapProfiler.collectGarbage")
        found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        heap += found["JSHeapUsedSize"]
        nodes += int(found["Nodes"])
    report.console_mb.append(round(_resident_mb(console.process.pid), 1))
    report.pages_mb.append(round(heap / 2**20, 1))
    report.nodes.append(nodes)


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return kilobytes / 1024


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    report = run(options.seconds, lambda line: print(line, file=sys.stderr, flush=True))
    print(
        json.dumps({"clean": report.is_clean, **{name: getattr(report, name) for name in report.__slots__}})
    )
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
