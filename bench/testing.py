"""The testing kit: how soon a test has a broker, and what a fresh one for every test costs."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import Benchmark, Measured, Metric, Peer, Scale

FIRST_ACK = Metric("a broker for a test, to the first ack", "ms", "lower", "< 50 ms")
WITH_IMPORT = Metric("the same, with the import", "ms", "lower", "< 300 ms")
FRESH = Metric("start and stop of a broker", "ms", "lower")
THOUSAND = Metric("1,000 tests, each with a broker of its own", "s", "lower", "< 30 s")
GROWTH = Metric("memory that 1,000 brokers leave behind", "MB", "lower")

_IN_A_PROCESS = """
import time
from confluent_kafka import Producer
began = time.perf_counter()
from ottla.testing import Broker
Broker
imported = time.perf_counter()
def first_ack():
    began = time.perf_counter()
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        producer.produce("t", b"x")
        assert producer.flush(20) == 0
        return time.perf_counter() - began
print(imported - began + first_ack(), first_ack())
"""

_TESTS = """
import gc, os, threading
import pytest

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

STATE = {}

@pytest.mark.parametrize("number", range(%d))
def test_own_broker(ottla_broker, number):
    ottla_broker.create_topic("t")
    if number == 100:  # caches are warm
        STATE.update(mb=resident_mb(), handles=len(os.listdir("/proc/self/fd")))

def test_nothing_is_left():
    gc.collect()
    assert [each.name for each in threading.enumerate() if each.name.startswith("ottla")] == []
    assert len(os.listdir("/proc/self/fd")) <= STATE["handles"]
    print("growth", resident_mb() - STATE["mb"])
"""


def run(peer: Peer, scale: Scale) -> Measured:
    if peer.name == "kafka":
        began = time.perf_counter()
        with peer.running() as server:
            _produce(server.bootstrap)
            return {FIRST_ACK: (time.perf_counter() - began) * 1000}
    pairs = [_in_a_process() for _ in range(scale(5, least=2))]
    seconds, growth = _thousand(scale(1000, least=200))
    return {
        FIRST_ACK: statistics.median(pair[1] for pair in pairs) * 1000,
        WITH_IMPORT: statistics.median(pair[0] for pair in pairs) * 1000,
        FRESH: _fresh(scale(100, least=10)) * 1000,
        THOUSAND: seconds,
        GROWTH: growth,
    }


def _produce(bootstrap: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.produce("t", b"x")
    assert producer.flush(60) == 0


def _in_a_process() -> tuple[float, float]:
    output = subprocess.run(
        [sys.executable, "-c", _IN_A_PROCESS], check=True, capture_output=True, text=True
    ).stdout
    with_import, after_import = map(float, output.split())
    return with_import, after_import


def _fresh(count: int) -> float:
    from ottla.testing import Broker

    times = []
    for _ in range(count):
        began = time.perf_counter()
        with Broker():
            times.append(0.0)
        times[-1] = time.perf_counter() - began
    return statistics.median(times)


def _thousand(count: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        Path(folder, "test_many.py").write_text(_TESTS % count)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", folder],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        seconds = time.perf_counter() - began
    found = re.search(r"^growth (\S+)$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return seconds, float(found[1])


BENCHMARKS = (Benchmark("testing-kit", run),)
