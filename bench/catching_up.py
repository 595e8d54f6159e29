"""What it costs that Spark places a stream task on any host: count per key with one, two and four hosts.

    python -m bench.catching_up [--hosts 1 2 4] [--keys 100000] [--records 50000] [--steps 40]

Each host is a `Worker` with state of its own in its memory; all are in one process and work one after the other, so the
figures are costs, not rates of a cluster. Every step of a stream task goes to a host by chance, as Spark's do. A host
that had it last goes on; another one first reads from the changelog what was written since it had it.
"""

from __future__ import annotations

import argparse
import random
import time

from bench.pipelines import PARTITIONS, Factory, fill
from ottla.pipelines import Pipeline, Stage, StoreSpec
from ottla.pipelines.driver import Driver
from ottla.pipelines.worker import Worker
from tests.oracle.ottla import Ottla


def pipeline(bootstrap: str, name: str, records: int) -> Pipeline:
    store = StoreSpec("counts", (("n", "int64"),))
    stage = Stage(
        "count", (f"{name}-in",), Factory(f"{name}-out"), (store,), (f"{name}-out",), columns=("key",)
    )
    return Pipeline(name, (stage,), {"bootstrap.servers": bootstrap}, records_max=records)


def measure(bootstrap: str, hosts: int, keys: int, records: int, steps: int) -> tuple[float, float]:
    """Milliseconds of a step, and changelog records that were read again for each record of the input."""
    name = f"hosts-{hosts}"
    fill(bootstrap, name, records * (steps + PARTITIONS * hosts), keys)
    chosen, chance = pipeline(bootstrap, name, records), random.Random(1)
    driver, workers = Driver(chosen), [Worker(chosen) for _ in range(hosts)]
    driver.start()
    took_s = restored = done = 0.0
    try:
        while done < steps:
            for work in driver.plan():
                worker = chance.choice(workers)
                begun = time.perf_counter()
                (commit,) = worker.run([work], driver.member(), retried=False)
                if (
                    commit.figures.rows * PARTITIONS > 0.9 * keys
                ):  # every key has its row: the steps are alike
                    took_s += time.perf_counter() - begun
                    restored += commit.figures.restored
                    done += 1
    finally:
        for worker in workers:
            worker.close()
        driver.close()
    return 1000 * took_s / done, restored / (done * records)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=50_000, help="of a step of a stream task")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    print("| hosts | a step | changelog records read for each record |")
    print("|---|---|---|")
    for hosts in options.hosts:
        with Ottla() as broker:
            took_ms, share = measure(broker.bootstrap, hosts, options.keys, options.records, options.steps)
        print(f"| {hosts} | {took_ms:.0f} ms | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
