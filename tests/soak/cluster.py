"""python -m tests.soak.cluster [--faults 100] [--seed N] [--client ottla] [--outage 60] [--secured]

Three brokers, processes over three ZooKeeper servers, under faults. An idempotent load with acks=all and copiers
that are exactly once run all the while; both must be right and go on after every fault. In the end all ZooKeeper
servers are away for a time, in which nobody may notice. With --secured every connection is TLS with a login: those
of clients, those between brokers, and those to ZooKeeper.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Producer

from tests.cluster.faults import Faults
from tests.cluster.load import QUIET, Load, create
from tests.cluster.processes import ProcessCluster
from tests.cluster.secured import SecuredCluster
from tests.soak import transactions
from tests.soak.transactions import INPUT, OUTPUT, PARTITIONS, Copiers, Watcher

COPIERS = ("ottla", "java")  # librdkafka may go silent, see cluster_copier.py
_GO_ON_S = 120
_COPIED_A_FAULT = 90


@dataclass(slots=True)
class Report:
    faults: int = 0
    client: str = ""
    secured: bool = False
    acknowledged: int = 0
    longest_silence_s: float = 0.0
    input: int = 0
    output: int = 0
    copier_exits: int = 0
    slowest_copy_s: float = 0.0
    without_zookeeper_s: float = 0.0
    silence_without_zookeeper_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class EnsembleFaults(Faults):
    """One server of three goes: the ensemble stays."""

    def kill_zookeeper(self) -> None:
        index = self._chance.randrange(3)
        self.cluster.zookeepers.kill(index)
        time.sleep(self._chance.uniform(0, 3))
        self.cluster.zookeepers.restart(index)


class Copying:
    """Copiers, what they have to copy, and somebody who watches what comes out."""

    def __init__(self, bootstrap: str, client: str, seed: int, report: Report, login: dict[str, str]) -> None:
        self._bootstrap, self._report, self._login = bootstrap, report, login
        self._copies = transactions.Report(client)
        self._written = [0] * PARTITIONS
        self._source = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
            | QUIET
            | login
        )
        self._watcher = Watcher(bootstrap, self._copies, login)
        self._copiers = Copiers(client, bootstrap, seed, self._copies, login)

    def __enter__(self) -> Copying:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._copiers.close()
        self._watcher.stop.set()
        self._watcher.join()

    def write(self) -> None:
        transactions._write(self._source, self._written, _COPIED_A_FAULT)

    def catch_up(self, when: str) -> None:
        """All that was written is copied, in time; copiers that gave up are started again, as their owner would."""
        began = time.monotonic()
        while any(self._watcher.seen[p] < count for p, count in enumerate(self._written)):
            self._source.poll(0)
            self._copiers.revive()
            if time.monotonic() - began > _GO_ON_S:
                self._report.wrong.append(
                    f"{when}: {dict(self._watcher.seen)} of {self._written} were copied"
                )
                return
            time.sleep(0.05)
        self._report.slowest_copy_s = round(max(self._report.slowest_copy_s, time.monotonic() - began), 1)

    def judge(self) -> None:
        transactions._judge(self._bootstrap, self._written, self._copies, self._login)
        self._report.wrong += self._copies.wrong
        self._report.input, self._report.output = self._copies.input, self._copies.output
        self._report.copier_exits = self._copies.copier_exits


def run(
    faults: int,
    seed: int,
    client: str = "ottla",
    outage_s: float = 60,
    say: Callable[[str], None] = lambda _: None,
    *,
    secured: bool = False,
) -> Report:
    report = Report(faults, client, secured=secured)
    with SecuredCluster(3, zookeepers=3) if secured else ProcessCluster(3, zookeepers=3) as cluster:
        login = {name: text for name, text in cluster.client.items() if name != "bootstrap.servers"}
        for topic in ("t", INPUT, OUTPUT):
            create(cluster.bootstrap, topic, partitions=PARTITIONS, login=login)
        happening = EnsembleFaults(cluster, random.Random(seed))
        with (
            Load(cluster.bootstrap, pause_s=0.005, login=login) as load,
            Copying(cluster.bootstrap, client, seed, report, login) as copying,
        ):
            for number in range(faults):
                began = time.monotonic()
                copying.write()
                happening.one()
                over = time.monotonic()
                load.wait_for(50, timeout=_GO_ON_S)
                produced = time.monotonic()
                copying.catch_up(f"fault {number + 1}, {happening.history[-1]}")
                copied = time.monotonic()
                say(
                    f"{number + 1:4} {happening.history[-1]:20} {over - began:5.1f} s, "
                    f"produced after {produced - over:5.1f} s, copied after {copied - over:5.1f} s"
                )
            happening.heal()
            for topic in ("t", INPUT, OUTPUT):
                cluster.until_in_sync(topic)
            report.longest_silence_s = round(load.gap_s, 1)
            _without_zookeeper(cluster, load, copying, outage_s, report)
        load.check()
        report.acknowledged = load.count
        copying.judge()
        for topic in ("t", INPUT, OUTPUT):
            cluster.until_in_sync(topic)
        cluster.replicas_agree()
    return report


def _without_zookeeper(
    cluster: ProcessCluster, load: Load, copying: Copying, outage_s: float, report: Report
) -> None:
    """Leaders go on under the ISR they know: produce, consume and transactions go on."""
    for index in range(3):
        cluster.zookeepers.kill(index)
    load.gap_s, began = 0.0, time.monotonic()
    while time.monotonic() - began < outage_s:
        copying.write()
        load.wait_for(50, timeout=_GO_ON_S)
        copying.catch_up("without ZooKeeper")
    report.without_zookeeper_s = round(time.monotonic() - began, 1)
    report.silence_without_zookeeper_s = round(load.gap_s, 1)
    cluster.zookeepers.start()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--client", choices=COPIERS, default="ottla")
    parser.add_argument("--outage", type=float, default=60, help="seconds without any ZooKeeper server (60)")
    parser.add_argument("--secured", action="store_true", help="TLS and a login on every connection")
    options = parser.parse_args()
    report = run(options.faults, options.seed, options.client, options.outage, print, secured=options.secured)
    print(json.dumps({"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
