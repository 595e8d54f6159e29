"""Streams on Spark's own cluster: count per key with one and with two workers; with an executor that is killed on the
way and comes back, and with a worker that is killed and does not.

    python -m bench.streams_workers [--records 6000000]

Master, workers, executors and broker share the machine: what is to be seen is that a second worker takes half of the
stream tasks, and that nothing but time is lost with a worker. In the end the counts must be exact.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from bench.pipelines import running
from bench.streams_peers import PIECE, fill, ours, rate_of
from ottla.client import Consumer
from tests.oracle.ottla import Ottla
from tests.soak.pipelines import kill_one
from tests.spark.standalone import standalone

VICTIMS = {"executor": b"CoarseGrainedExecutorBackend", "worker": b"org.apache.spark.deploy.worker.Worker"}


def measure(workers: int, records: int, victim: str | None) -> tuple[float, bool]:
    """Records a second, and whether the counts add up to the records."""
    name = "bench-workers"
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-", ignore_cleanup_errors=True) as folder,
        standalone(Path(folder), "1g", workers) as master,
        Ottla() as broker,
    ):
        fill(broker.bootstrap, "count", name, records)
        victims = [] if victim is None else [VICTIMS[victim]]

        def on_progress(share: float) -> None:
            if share > 0.4 and victims:
                assert kill_one(victims.pop(), random.Random(1)), f"there is no {victim} to kill"

        command = [*ours("count", broker.bootstrap, name, Path(folder) / "state"), master]
        with running(command) as process:
            found = rate_of(broker.bootstrap, name, records, process, on_progress)
        return found.wall, counted(broker.bootstrap, f"{name}-out") == records


def counted(bootstrap: str, topic: str) -> int:
    """The sum of the last counts of all keys."""
    last: dict[bytes, int] = {}
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", **settings}) as consumer:
        consumer.subscribe([topic])
        idle = 0
        while idle < 5:
            rows = consumer.poll_arrow(1.0)
            idle = 0 if rows.num_rows else idle + 1
            keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
            last.update(zip(keys, map(int.from_bytes, values), strict=True))
    return sum(last.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=6_000_000)
    options = parser.parse_args()
    records = max(PIECE, options.records // PIECE * PIECE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    right = True
    for workers, victim in ((1, None), (2, None), (2, "executor"), (2, "worker")):
        found, exact = measure(workers, records, victim)
        what = f"{workers} workers" + (f", one {victim} killed" if victim else "")
        print(f"{what}: {found:,.0f} records/s, counts {'exact' if exact else 'WRONG'}", flush=True)
        right &= exact
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
