"""The console with many topics and groups, and a search in a large topic.

    python -m bench.console [--topics 1000] [--groups 200] [--records 1000000]

Prints: time to the first view and to later ones, time from a record to its number in the stream of events, memory of
the console, its share of a core; the search's rate and memory, and the broker's latency beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

from ottla import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition


class Running:
    """A command of ours, and the first line that begins with a word."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla", *command], stdout=subprocess.PIPE, text=True, env={**os.environ}
        )

    def line(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return line.removeprefix(word).strip()
        raise SystemExit("it ended before it was ready")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    @property
    def memory_mb(self) -> float:
        """Of the process and those that it started."""
        return sum(_rss_mb(pid) for pid in (self.process.pid, *_children(self.process.pid)))


class Browser:
    """Only what is measured: pages, and the stream of events."""

    def __init__(self, address: str) -> None:
        base, _, token = address.partition("/?")
        self._host = base.removeprefix("http://")
        connection = HTTPConnection(self._host)
        connection.request("GET", f"/?{token}")
        answer = connection.getresponse()
        answer.read()
        self._cookie = answer.headers["set-cookie"].split(";")[0]

    def get(self, path: str) -> str:
        connection = HTTPConnection(self._host, timeout=120)
        connection.request("GET", path, headers={"cookie": self._cookie})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text[:500]
        return text

    def follow(self, page: str, on_event: Callable[[str, str], None]) -> None:
        csrf = self.get("/changes").split('name="csrf" content="')[1].split('"')[0]
        connection = HTTPConnection(self._host, timeout=120)
        connection.request("GET", "/events", headers={"cookie": self._cookie})
        stream = connection.getresponse()

        def listen() -> None:
            name = ""
            for raw in stream:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    if name == "hello":
                        identity = line.split('"id": "')[1].split('"')[0]
                        posting = HTTPConnection(self._host)
                        headers = {"cookie": self._cookie, "x-csrf": csrf}
                        posting.request("POST", f"/events/{identity}", page.encode(), headers)
                        posting.getresponse().read()
                    on_event(name, line[6:])

        threading.Thread(target=listen, daemon=True).start()


def many(bootstrap: str, topics: int, groups: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for begin in range(0, topics, 100):
            admin.create_topics(
                [NewTopic(f"topic-{i:04d}", 2, 1) for i in range(begin, min(begin + 100, topics))]
            )
        for i in range(groups):
            places = {
                TopicPartition(f"topic-{(i * 5 + j) % topics:04d}", 0): OffsetAndMetadata(0) for j in range(5)
            }
            admin.alter_group_offsets(f"group-{i:03d}", places)


def measure_views(bootstrap: str, topics: int, groups: int) -> None:
    began = time.perf_counter()
    console = Running("console", "--bootstrap", bootstrap, "--port", "0")
    browser = Browser(console.line("console "))
    print(f"start of the process to its first answer: {time.perf_counter() - began:.2f} s")
    try:
        for path in (
            "/",
            "/topics",
            "/topics?sort=-rate",
            "/groups",
            "/topics?filter=99",
            "/topics/topic-0001",
        ):
            times = []
            size = 0
            for _ in range(4):
                began = time.perf_counter()
                size = len(browser.get(path))
                times.append(time.perf_counter() - began)
            later = statistics.median(times[1:]) * 1000
            print(f"{path:<22} first {times[0] * 1000:6.0f} ms, then {later:5.0f} ms, {size / 1024:5.0f} KB")
        _measure_update(bootstrap, browser)
        cpu = _cpu_s(console.process.pid)
        time.sleep(10)
        print(f"watched by one page: {(_cpu_s(console.process.pid) - cpu) / 10:.1%} of a core")
        print(f"memory of the console with {topics:,} topics and {groups} groups: {console.memory_mb:.0f} MB")
    finally:
        console.stop()


def _measure_update(bootstrap: str, browser: Browser) -> None:
    """From an acknowledged record to the event that has the new number of records."""
    heard = threading.Event()
    browser.follow(
        "/topics", lambda name, data: heard.set() if name == "page" and "topic-0003/records" in data else None
    )
    time.sleep(5)
    times = []
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(5):
            heard.clear()
            producer.send("topic-0003", b"x")
            producer.flush()
            began = time.perf_counter()
            if not heard.wait(60):
                raise SystemExit("the page did not change within a minute")
            times.append(time.perf_counter() - began)
    print(
        f"record to number on the page: median {statistics.median(times):.2f} s, longest {max(times):.2f} s"
    )


def measure_search(bootstrap: str, records: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("large", 4, 1), NewTopic("probe", 1, 1)])
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4", linger_ms=20) as producer:
        began = time.perf_counter()
        for i in range(records):
            producer.send(
                "large",
                b'{"number":%d,"text":"0123456789"}' % i,
                key=b"%d" % i,
                headers=[("trace", b"t%d" % i)],
                partition=i % 4,
            )
        producer.flush()
    print(f"{records:,} records sent in {time.perf_counter() - began:.0f} s")
    console = Running("console", "--bootstrap", bootstrap, "--port", "0")
    browser = Browser(console.line("console "))
    try:
        alone = _latency(bootstrap, lambda: False, 5)
        browser.get("/topics")  # an idle console: it asks every second while a page is open
        browser.follow("/topics", lambda name, data: None)
        idle = _latency(bootstrap, lambda: False, 5)
        path = f"/topics/large/search?q=t{records - 1}&part=header&mode=exact&run=1"
        began = time.perf_counter()
        browser.get(path)
        memory = [0.0]

        def is_over() -> bool:
            memory[0] = max(memory[0], console.memory_mb)
            return "The whole topic was searched" in browser.get(path)

        beside = _latency(bootstrap, is_over, 120)
        took = time.perf_counter() - began
        assert "1 match" in browser.get(path)
        print(
            f"search of {records:,} records by a header's value: {took:.1f} s, {records / took:,.0f} records/s"
        )
        own = _rss_mb(console.process.pid)
        print(f"memory of console and worker: {memory[0]:.0f} MB at most, {own:.0f} MB of the console itself")
        print(f"produce p99, ms: alone {alone:.1f}, idle console {idle:.1f}, beside the search {beside:.1f}")
    finally:
        console.stop()


def _latency(bootstrap: str, is_over: Callable[[], bool], seconds: float) -> float:
    """The 99th percentile of acknowledged sends, one at a time, until it is over."""
    times = []
    deadline = looked = time.perf_counter()
    deadline += seconds
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        producer.send("probe", b"x").result(30)
        while time.perf_counter() < deadline:
            began = time.perf_counter()
            producer.send("probe", b"x").result(30)
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)
            if time.perf_counter() - looked > 0.5:
                looked = time.perf_counter()
                if is_over():
                    break
    return statistics.quantiles(times, n=100)[98]


def _rss_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _cpu_s(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="ottla-bench-") as folder:
        broker = Running("start", "--port", "0", "--data", folder, "--log-level", "ERROR")
        bootstrap = broker.line("ready ")
        try:
            if options.topics:
                many(bootstrap, options.topics, options.groups)
                measure_views(bootstrap, options.topics, options.groups)
            if options.records:
                measure_search(bootstrap, options.records)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
