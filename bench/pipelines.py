"""Count per key, exactly once: `ottla.pipelines` on Spark beside Kafka Streams (Java) and Quix Streams, in one run.

    python -m bench.pipelines [--scale 1.0] [--keys 100000] [--rounds 3] [--only ottla streams quix]
    python -m bench.pipelines --growth docs/pipelines-growth.png      # ottla alone, 10 thousand to 10 million keys

Every peer reads a topic of its own that is full already (100 bytes a record, 4 partitions), on one Ottla broker, and
writes each new count to a result topic. The rate is taken from the committed positions of its group, between 20 % and
the end: what is committed is done. Quix needs `QUIX_PYTHON=` a Python of its own with quixstreams, the plot
needs matplotlib.
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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import conditions
from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.columnar import ColumnarProducer
from ottla.pipelines import Operator, Pipeline, Stage, Step, StoreSpec
from tests.oracle import programs
from tests.oracle.ottla import Ottla

PARTITIONS, VALUE = 4, b"x" * 84
RECORDS = {"ottla": 8_000_000, "streams": 1_000_000, "quix": 150_000}
TARGETS = {"streams": 8, "quix": 40}
_ROOT = Path(__file__).parents[1]
_SKIPPED = 0.2  # of the records: start and warm-up
_STUCK_S = 300
QUIX_PYTHON = (
    "QUIX_PYTHON"  # a Python that has quixstreams, which wants an older confluent-kafka than the tests
)


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


# -- the peers: each starts a process and is killed when its rate is known -------------------------------


def ottla(bootstrap: str, name: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.pipelines", "--peer", bootstrap, name, str(folder)]


def streams(bootstrap: str, name: str, folder: Path) -> list[str]:
    plain = programs.command("CountPerKey", bootstrap, name, f"{name}-in", f"{name}-out", str(folder), "2")
    class_path = plain[plain.index("-cp") :]
    # As an operator would run it: both compilers, the default collector, room for RocksDB.
    return [plain[0], "-Xmx1g", "-Dlog4j2.level=OFF", *class_path]


def quix(bootstrap: str, name: str, folder: Path) -> list[str]:
    program = f"""
from quixstreams import Application
app = Application(broker_address={bootstrap!r}, consumer_group={name!r}, auto_offset_reset="earliest",
    processing_guarantee="exactly-once", commit_interval=0.5, state_dir={str(folder)!r}, loglevel="ERROR")
def count(value, state):
    seen = state.get("n", 0) + 1
    state.set("n", seen)
    return seen
source = app.topic("{name}-in", key_deserializer="bytes", value_deserializer="bytes")
result = app.topic("{name}-out", key_serializer="bytes", value_serializer="int")
app.dataframe(source).apply(count, stateful=True).to_topic(result)
app.run()
"""
    return [os.environ.get(QUIX_PYTHON, sys.executable), "-c", program]


PEERS: dict[str, Callable[[str, str, Path], list[str]]] = {
    "ottla": ottla,
    "streams": streams,
    "quix": quix,
}


def peer_main(bootstrap: str, name: str, folder: str) -> None:
    import ottla.spark
    from ottla import pipelines

    operator = _Factory(f"{name}-out")
    stage = Stage(
        "count",
        inputs=(f"{name}-in",),
        operator=operator,
        stores=(StoreSpec("counts", (("n", "int64"),)),),
        outputs=(f"{name}-out",),
        columns=("key",),
    )
    chosen = Pipeline(name, (stage,), {"bootstrap.servers": bootstrap}, state_dir=folder)
    spark = ottla.spark.session("bench", cores=2)
    spark.sparkContext.setLogLevel("OFF")
    pipelines.run(chosen, spark)


class _Factory:
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
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def rate(bootstrap: str, peer: str, records: int, keys: int, number: int) -> float:
    """Committed records a second."""
    name = f"bench-{peer}-{keys}-{number}"
    fill(bootstrap, name, records, keys)
    seen: list[tuple[float, int]] = []
    deadline = time.monotonic() + _STUCK_S
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-pipelines-", ignore_cleanup_errors=True) as folder,
        Admin(bootstrap_servers=bootstrap) as admin,
        running(PEERS[peer](bootstrap, name, Path(folder))) as process,
    ):
        while not seen or seen[-1][1] < records:
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"{peer} ended or is stuck at {seen[-1:]} of {records}")
            offsets = admin.group_offsets(name)
            count = sum(at.offset for where, at in offsets.items() if where.topic == f"{name}-in")
            if count and (not seen or count > seen[-1][1]):
                seen.append((time.monotonic(), count))
            time.sleep(0.02)
    begun = next(at for at in seen if at[1] >= _SKIPPED * records)
    if begun is seen[-1]:
        raise RuntimeError(f"{peer} committed everything at once; more records are needed")
    return (seen[-1][1] - begun[1]) / (seen[-1][0] - begun[0])


def compare(peers: list[str], scale: float, keys: int, rounds: int) -> None:
    found: dict[str, list[float]] = {peer: [] for peer in peers}
    with conditions.watched() as others, Ottla() as broker:
        for number in range(rounds):
            for peer in peers:
                figure = rate(broker.bootstrap, peer, int(RECORDS[peer] * scale), keys, number)
                found[peer].append(figure)
                print(f"{peer}, round {number + 1}: {figure:,.0f} records/s", file=sys.stderr, flush=True)
    middle = {peer: statistics.median(figures) for peer, figures in found.items()}
    print(f"count per key, {keys:,} keys, exactly once; others kept {others.cores:.1f} cores busy")
    print("| peer | records/s | ottla is | goal |")
    print("|---|---|---|---|")
    for peer, figure in middle.items():
        ratio = f"{middle['ottla'] / figure:.1f} x" if "ottla" in middle and peer != "ottla" else ""
        goal = f">= {TARGETS[peer]} x" if peer in TARGETS else ""
        print(f"| {peer} | {figure:,.0f} | {ratio} | {goal} |")


def growth(picture: str, scale: float) -> None:
    """Ottla's rate from few keys to many, as a picture."""
    import matplotlib  # type: ignore[import-not-found,import-untyped,unused-ignore]

    matplotlib.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found,import-untyped,unused-ignore]

    sizes = [10_000, 100_000, 1_000_000, 10_000_000]
    rates = []
    for keys in sizes:
        with Ottla() as broker:
            rates.append(rate(broker.bootstrap, "ottla", int(RECORDS["ottla"] * scale), keys, 0))
        print(f"{keys:,} keys: {rates[-1]:,.0f} records/s", file=sys.stderr, flush=True)
    figure, axes = pyplot.subplots(figsize=(6, 3.5), dpi=110)
    axes.semilogx(sizes, [each / 1e6 for each in rates], marker="o")
    axes.set_ylim(0)
    axes.set_xlabel("keys")
    axes.set_ylabel("million records a second")
    axes.set_title("Count per key, exactly once, two cores")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(picture)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--growth", metavar="PNG")
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer_main(*options.peer)
    elif options.growth:
        growth(options.growth, options.scale)
    else:
        compare(options.only, options.scale, options.keys, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
