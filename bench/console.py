"""The console with many topics and groups, and a search in a large topic.

    python -m bench.console [--topics 1000] [--groups 200] [--records 10000000]
    python -m bench.console --prepare --data DIR    # only writes the topics; later runs with --data DIR measure

Prints: time to the first view and to later ones, time from a record to its number in the stream of events, memory of
the console, its share of a core; the search's rate and memory, and the broker's latency beside it. Latencies of a
broker alone, with an idle console, with one that is watched, and beside a search are taken in turns of a few seconds,
so that what else happens on the machine falls on all of them.
"""

from __future__ import annotations

import argparse
import os
import signal
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

CHUNK = 200_000
TURN_S = 8.0
WATCHED_S = 11.0  # a console samples for ten seconds after a page was asked for


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


def large(bootstrap: str, records: int) -> None:
    """A topic with a header on every record, and one to probe latencies with."""
    import pyarrow as pa

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("large", 4, 1), NewTopic("probe", 1, 1)])
    began = time.perf_counter()
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        for begin in range(0, records, CHUNK):
            numbers = range(begin, min(begin + CHUNK, records))
            rows = pa.table(
                {
                    "value": pa.array(
                        [b'{"number":%d,"text":"0123456789"}' % i for i in numbers], pa.binary()
                    ),
                    "key": pa.array([b"%d" % i for i in numbers], pa.binary()),
                    "partition": pa.array([i % 4 for i in numbers], pa.int32()),
                    "headers": pa.array([[{"key": "trace", "value": b"t%d" % i}] for i in numbers], header),
                }
            )
            producer.send_batch(rows, "large").result(120)
    print(f"{records:,} records sent in {time.perf_counter() - began:.0f} s", flush=True)


def measure_search(bootstrap: str, rounds: int = 4) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = admin.list_offsets({TopicPartition("large", p): -1 for p in range(4)})
    records = sum(each.offset for each in ends.values())
    probe = Probe(bootstrap)
    console = Running("console", "--bootstrap", bootstrap, "--port", "0")
    browser = Browser(console.line("console "))
    took: list[float] = []
    memory = [0.0]
    try:
        for turn in range(rounds):
            time.sleep(WATCHED_S)  # until nobody watches any more
            for name in ("alone", "idle") if turn % 2 else ("idle", "alone"):
                if name == "alone":
                    os.kill(console.process.pid, signal.SIGSTOP)  # as if it were not there
                probe.measure(name, TURN_S)
                os.kill(console.process.pid, signal.SIGCONT)
            browser.get("/topics")  # counts as watched for ten seconds
            probe.measure(
                "watched", min(TURN_S, WATCHED_S - 2), lambda: bool(browser.get("/topics")) and False
            )
            path = f"/topics/large/search?q=t{records - 1}&part=header&mode=exact&run={turn}"
            browser.get(path)
            began = time.perf_counter()

            def is_over() -> bool:
                memory[0] = max(memory[0], console.memory_mb)
                return "The whole topic was searched" in browser.get(path)  # noqa: B023 - called in this turn

            probe.measure("search", 120, is_over)
            took.append(time.perf_counter() - began)
            assert "1 match" in browser.get(path)
            print(
                f"turn {turn}: "
                + ", ".join(f"{name} {quantile(times[-1]):.2f}" for name, times in probe.times.items()),
                flush=True,
            )
    finally:
        console.stop()
    median = statistics.median(took)
    print(
        f"search of {records:,} records by a header's value: {median:.1f} s, {records / median:,.0f} records/s"
    )
    print(f"memory of console and worker: {memory[0]:.0f} MB at most")
    alone = probe.p99("alone")
    for name in probe.times:
        print(f"produce p99 {name:<8} {probe.p99(name):6.2f} ms, {probe.p99(name) / alone:5.0%} of alone")


class Probe:
    """Acknowledged sends, one at a time, by what else goes on."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(bootstrap_servers=bootstrap, linger_ms=0)
        self.times: dict[str, list[list[float]]] = {}
        self.measure("warm-up", 2)
        self.times.clear()

    def measure(self, name: str, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        times: list[float] = []
        deadline = time.perf_counter() + seconds
        over = threading.Event()
        watching = threading.Thread(target=_watch, args=(is_over, over), daemon=True)
        watching.start()
        while time.perf_counter() < deadline and not over.is_set():
            began = time.perf_counter()
            self._producer.send("probe", b"x").result(30)
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(0.002)
        over.set()
        watching.join()
        self.times.setdefault(name, []).append(times)

    def p99(self, name: str) -> float:
        """Over all turns together."""
        return quantile([each for turn in self.times[name] for each in turn])


def _watch(is_over: Callable[[], bool], over: threading.Event) -> None:
    while not over.wait(0.5):
        if is_over():
            over.set()


def quantile(times: list[float]) -> float:
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
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--data", metavar="DIR", help="where the broker's data is, or will be")
    parser.add_argument("--prepare", action="store_true", help="only write the topics to --data")
    parser.add_argument("--rounds", type=int, default=4, help="turns of the measurement of latencies")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="ottla-bench-") as folder:
        prepared = options.data is not None and not options.prepare
        broker = Running("start", "--port", "0", "--data", options.data or folder, "--log-level", "ERROR")
        bootstrap = broker.line("ready ")
        try:
            if not prepared and options.topics:
                many(bootstrap, options.topics, options.groups)
            if not prepared and options.records:
                large(bootstrap, options.records)
            if options.topics and not options.prepare:
                measure_views(bootstrap, options.topics, options.groups)
            if options.records and not options.prepare:
                measure_search(bootstrap, options.rounds)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
