"""Kill -9 under load through our own API: idempotent sends, and copies in transactions.

    python -m tests.soak.api [--kills 100] [--seed N]

The harnesses are those of `kills` and `transactions`; the clients are `ottla.Producer` and `ottla.Consumer`.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import ottla
from tests.oracle.ottla import Ottla
from tests.soak import kills, transactions
from tests.soak.kills import PARTITIONS, TOPIC, Load, Report

CLIENT = "ottla"  # of `copier`
_PAYLOAD = b"." * 200


class OurLoad(Load):
    """As `kills.Load`, with our producer: idempotent by default, its buffer short."""

    def _run(self) -> None:
        producer = ottla.Producer(
            bootstrap_servers=self.bootstrap,
            linger_ms=2,
            buffer_memory=500_000,
            delivery_timeout_ms=300_000,
            max_block_ms=120_000,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            retry_backoff_ms=20,
        )
        number = 0
        while not self.stop.is_set():
            partition = number % PARTITIONS
            mine = self.sent[partition]
            value = f"{self.name} {mine} ".encode() + _PAYLOAD
            producer.send(TOPIC, value, partition=partition, callback=self._told(partition, mine))
            self.sent[partition] = mine + 1
            number += 1
            if number % 100 == 0:
                time.sleep(0.002)  # leaves the processor to the broker now and then
        producer.close(120)
        lost = sum(self.sent.values()) - self.count - len(self.failures)
        if lost:
            self.failures.append(f"{lost} records were neither acknowledged nor refused")

    def _told(self, partition: int, number: int) -> Callable[[Any, Exception | None], None]:
        def told(_: Any, error: Exception | None) -> None:
            if error is None:
                self.acknowledged[partition].append(number)
            else:
                self.failures.append(f"record {number} of partition {partition}: {error}")

        return told


def run_idempotent(kill_count: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    """Nothing acknowledged may be missing, doubled or out of order."""
    chance, report, stop = random.Random(seed), Report(kill_count), threading.Event()
    with Ottla() as broker:
        kills.make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        loads: list[Load] = [OurLoad(broker.bootstrap, f"p{i}", stop) for i in range(2)]
        for load in loads:
            load.start()
        try:
            seen = 0
            for number in range(kill_count):
                seen = kills.wait_for_progress(loads, beyond=seen)
                time.sleep(chance.choice((0.0, 0.05, 0.3)) * chance.uniform(0.2, 1.5))
                took = kills.kill_and_restart(broker)
                say(f"kill {number + 1}/{kill_count}: back after {took:.2f} s")
            time.sleep(0.5)
        finally:
            stop.set()
            for load in loads:
                load.join()
        found = [kills.read_all(broker.bootstrap, TOPIC, partition) for partition in range(PARTITIONS)]
    kills.judge(report, loads, found)
    return report


def run_transactions(
    kill_count: int, seed: int, say: Callable[[str], None] = lambda _: None
) -> transactions.Report:
    """Copies stay exactly once, whoever is killed."""
    return transactions.run(kill_count, seed, CLIENT, say)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    reports = [run(options.kills, options.seed, print) for run in (run_idempotent, run_transactions)]
    for report in reports:
        print(options.seed, report)
    return 0 if all(report.is_clean for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
