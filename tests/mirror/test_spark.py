"""A link as a Spark query: the same tasks in Spark's workers, which may be killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from ottla.client import Producer
from ottla.mirror import running
from ottla.mirror.errors import MirrorError
from ottla.mirror.status import status
from tests.mirror.local import link, records
from tests.oracle.ottla import Ottla
from tests.soak.processes import descendants

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from ottla.spark import session

    found = session("mirror-tests", cores=2, memory="512m")
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


@pytest.fixture
def sides() -> Iterator[tuple[Ottla, Ottla]]:
    with Ottla() as source, Ottla() as target:
        yield source, target


def send(broker: Ottla, count: int, round_: int = 0) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for i in range(count):
            producer.send("in", b"%d-%d" % (round_, i), partition=0)


def test_workers_that_are_killed_and_a_graceful_stop(spark: Any, sides: tuple[Ottla, Ottla]) -> None:
    source, target = sides
    send(source, 100)
    chosen = link(source.bootstrap, target.bootstrap, tasks=1)
    query = running.start(chosen, spark)
    wait_until(lambda: has_begun(chosen))
    stopped = threading.Event()
    killer = threading.Thread(target=kill_workers, args=(stopped,))
    killer.start()
    try:
        for round_ in range(1, 6):
            send(source, 200, round_)
            time.sleep(0.5)
        stopped.set()
        killer.join()
        send(source, 200, 6)
        query = wait_until_copied(query, chosen, spark)
    finally:
        stopped.set()
        query.stop()
    assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)


def wait_until_copied(query: Any, chosen: Any, spark: Any) -> Any:
    """A query that has lost too many workers is started again, as `running.run` does."""
    deadline = time.monotonic() + 240
    while status(chosen).lag != 0:
        assert time.monotonic() < deadline
        try:
            if query.wait(0.2):
                query = running.start(chosen, spark)
        except MirrorError:
            query = running.start(chosen, spark)
    return query


def has_begun(chosen: Any) -> bool:
    try:
        return bool(status(chosen).partitions)
    except MirrorError:
        return False


def wait_until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def kill_workers(stopped: threading.Event) -> None:
    """Those that step, not the one that plans: PySpark forks them from one daemon."""
    while not stopped.wait(0.7):
        for pid in descendants(os.getpid()):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                parent = int(Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[1])
                above = Path(f"/proc/{parent}/cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            if b"ottla.spark.daemon" in command and b"ottla.spark.daemon" in above:
                os.kill(pid, signal.SIGKILL)
                break
