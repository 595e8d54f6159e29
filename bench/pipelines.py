"""Count per key, exactly once, with `ottla.pipelines` on Spark: how the rate grows with the number of keys.

    python -m bench.pipelines [--scale 1.0] [--keys 10000 1000000] [--picture docs/pipelines-growth.png]
    python -m bench.pipelines --guarantee at_least_once       # what transactions cost
    python -m bench.pipelines --alone                         # without Spark: one process

The topic is full already (100 bytes a record, 4 partitions). The rate is taken from the committed positions, between
20 % and the end: what is committed is done. With `--alone` driver and stream tasks are one process, which takes 250,000
records of a partition at a time, and seconds are those of its processor, broker not counted: load of others matters
less. The picture needs matplotlib. bench.streams_peers compares with others.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.columnar import ColumnarProducer
from ottla.pipelines import Operator, Pipeline, Stage, Step, StoreSpec
from ottla.pipelines.driver import Driver
from ottla.pipelines.topology import AT_LEAST_ONCE, EXACTLY_ONCE
from ottla.pipelines.worker import Worker
from tests.oracle.ottla import Ottla
from tests.soak.processes import descendants, kill

PARTITIONS, VALUE = 4, b"x" * 84
RECORDS = 8_000_000
STEP = 250_000  # records of a stream task, without Spark
_ROOT = Path(__file__).parents[1]
_SKIPPED = 0.2  # of the records: start and warm-up
_STUCK_S = 300


class Count(Operator):
    def __init__(self, out: str) -> None:
        self._out = out

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        counts = step.stores["counts"]
        places = counts.rows(rows.column("key"))
        counts["n"][:] += np.bincount(places, minlength=len(counts["n"]))
        changed = counts.touch(places)
        columns = [counts.keys(changed), _longs(counts["n"][changed])]
        step.emit(self._out, pa.RecordBatch.from_arrays(columns, names=["key", "value"]))


def _longs(numbers: Any) -> pa.Array:
    """As Java's LongSerializer writes them."""
    data = pa.py_buffer(numbers.astype(">i8").tobytes())
    return pa.Array.from_buffers(pa.binary(8), len(numbers), [None, data]).cast(pa.binary())


# -- the process that is measured, and killed when its rate is known ----------------------------------------


def peer_command(bootstrap: str, name: str, folder: Path, guarantee: str = EXACTLY_ONCE) -> list[str]:
    return [sys.executable, "-m", "bench.pipelines", "--peer", bootstrap, name, str(folder), guarantee]


def peer_main(bootstrap: str, name: str, folder: str, guarantee: str) -> None:
    import ottla.spark
    from ottla import pipelines

    spark = ottla.spark.session("bench", cores=2)
    spark.sparkContext.setLogLevel("OFF")
    pipelines.run(counting(bootstrap, name, folder, guarantee), spark)


def counting(bootstrap: str, name: str, folder: str, guarantee: str) -> Pipeline:
    stage = Stage(
        "count",
        inputs=(f"{name}-in",),
        operator=Factory(f"{name}-out"),
        stores=(StoreSpec("counts", (("n", "int64"),)),),
        outputs=(f"{name}-out",),
        columns=("key",),
    )
    client = {"bootstrap.servers": bootstrap}
    return Pipeline(name, (stage,), client, state_dir=folder, guarantee=guarantee)


class Factory:
    def __init__(self, out: str) -> None:
        self._out = out

    def __call__(self) -> Count:
        return Count(self._out)


# -- measuring -------------------------------------------------------------------------------------------


def fill(bootstrap: str, name: str, records: int, keys: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{name}-{end}", PARTITIONS) for end in ("in", "out")])
    chance = np.random.default_rng(1)
    piece = 100_000
    values = pa.array([VALUE] * piece, pa.binary())
    with ColumnarProducer(bootstrap_servers=bootstrap) as producer:
        for _ in range(0, records, piece):
            numbers = pa.array(chance.integers(0, keys, piece)).cast(pa.string())
            rows = pa.RecordBatch.from_arrays([numbers.cast(pa.binary()), values], names=["key", "value"])
            producer.write(rows, f"{name}-in")
        producer.flush()


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    process = subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        for pid in [process.pid, *descendants(process.pid)]:  # Spark's JVM is a session of its own
            kill(pid)
        process.wait()


def rate(bootstrap: str, records: int, keys: int, number: int, guarantee: str) -> float:
    """Committed records a second."""
    name = f"bench-{keys}-{number}"
    fill(bootstrap, name, records, keys)
    seen: list[tuple[float, int]] = []
    deadline = time.monotonic() + _STUCK_S
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-pipelines-", ignore_cleanup_errors=True) as folder,
        Admin(bootstrap_servers=bootstrap) as admin,
        running(peer_command(bootstrap, name, Path(folder), guarantee)) as process,
    ):
        while not seen or seen[-1][1] < records:
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"the pipeline ended or is stuck at {seen[-1:]} of {records}")
            offsets = admin.group_offsets(name)
            count = sum(at.offset for where, at in offsets.items() if where.topic == f"{name}-in")
            if count and (not seen or count > seen[-1][1]):
                seen.append((time.monotonic(), count))
            time.sleep(0.02)
    begun = next(at for at in seen if at[1] >= _SKIPPED * records)
    if begun is seen[-1]:
        raise RuntimeError("everything was committed at once; more records are needed")
    return (seen[-1][1] - begun[1]) / (seen[-1][0] - begun[0])


def rate_alone(bootstrap: str, records: int, keys: int, number: int, guarantee: str) -> float:
    """Committed records for a second of this process's processor time."""
    name = f"bench-{keys}-{number}"
    fill(bootstrap, name, records, keys)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-pipelines-") as folder:
        chosen = replace(counting(bootstrap, name, folder, guarantee), records_max=STEP)
        driver, worker = Driver(chosen), Worker(chosen)
        driver.start()
        counts: dict[str, int] = {}  # of records, by stream task
        begun = (0, 0.0)
        try:
            while sum(counts.values()) < records:
                for work in driver.plan():
                    (commit,) = worker.run([work], driver.member(), retried=False)
                    counts[commit.task] = commit.figures.records
                    if not begun[0] and sum(counts.values()) >= _SKIPPED * records:
                        begun = sum(counts.values()), time.process_time()
            return (records - begun[0]) / (time.process_time() - begun[1])
        finally:
            worker.close()
            driver.close()


def measure(
    sizes: list[int],
    scale: float,
    rounds: int,
    guarantee: str,
    rate: Callable[[str, int, int, int, str], float] = rate,
) -> list[float]:
    """The middle rate for each number of keys."""
    rates = []
    for keys in sizes:
        with Ottla() as broker:
            records = max(int(RECORDS * scale), keys)
            found = [rate(broker.bootstrap, records, keys, number, guarantee) for number in range(rounds)]
        rates.append(statistics.median(found))
        print(f"{keys:,} keys, {guarantee}: {rates[-1]:,.0f} records/s", flush=True)
    return rates


def draw(picture: str, sizes: list[int], rates: list[float], alone: bool) -> None:
    import matplotlib  # type: ignore[import-not-found,import-untyped,unused-ignore]

    matplotlib.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found,import-untyped,unused-ignore]

    figure, axes = pyplot.subplots(figsize=(6, 3.5), dpi=110)
    axes.semilogx(sizes, [each / 1e6 for each in rates], marker="o")
    axes.set_ylim(0)
    axes.set_xlabel("keys")
    axes.set_ylabel("million records a second" + (" of the processor" if alone else ""))
    axes.set_title("Count per key, exactly once, " + ("one process" if alone else "two cores"))
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(picture)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--guarantee", choices=[EXACTLY_ONCE, AT_LEAST_ONCE], default=EXACTLY_ONCE)
    parser.add_argument(
        "--alone", action="store_true", help="one process without Spark, by its processor time"
    )
    parser.add_argument("--picture", metavar="PNG")
    parser.add_argument("--peer", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer_main(*options.peer)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the pipeline and the broker end too
    how = rate_alone if options.alone else rate
    rates = measure(options.keys, options.scale, options.rounds, options.guarantee, how)
    if options.picture:
        draw(options.picture, options.keys, rates, options.alone)
    return 0


if __name__ == "__main__":
    sys.exit(main())
