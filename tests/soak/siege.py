"""python -m tests.soak.siege [--faults 30] [--seed N]

Three brokers over ZooKeeper under faults (kills, pauses longer than a session, reassignments), with the attacks of
the fuzz soak on all of them at the same time. A load with acks=all must go on after every fault, and all that was
acknowledged must be there, once and in order, on replicas that agree.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.client import Admin
from ottla.client.values import TopicPartition as At
from tests.cluster.faults import Faults
from tests.cluster.load import Load, create
from tests.cluster.processes import ProcessCluster
from tests.soak.attack_batches import BOMBS, VICTIM
from tests.soak.attacks import LARGE, Attacker, fill

_GO_ON_S = 120
_LARGE_MB = 30


@dataclass(slots=True)
class Report:
    faults: int = 0
    attacks: int = 0
    acknowledged: int = 0
    longest_silence_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class MovingFaults(Faults):
    """Brokers are killed and paused; replicas go to two brokers and back to three."""

    def __init__(self, cluster: ProcessCluster, chance: random.Random) -> None:
        super().__init__(cluster, chance, zookeeper=False)
        self._kinds = [
            self.kill_leader,
            self.kill_follower,
            self.kill_controller,
            self.pause_leader,
            self.pause_controller,
            self.reassign,
        ]

    def reassign(self) -> None:
        for count in (2, 3):
            with Admin(bootstrap_servers=self.cluster.bootstrap) as admin:
                indexes = self.cluster.describe()
                admin.reassign(
                    {At("t", index): self._chance.sample(self.cluster.ids, count) for index in indexes}
                )
            self.cluster.until_in_sync(count=count)


class Attackers(threading.Thread):
    """One after the other, all the while: a broker that is away is left out."""

    def __init__(self, bootstraps: list[str], chance: random.Random) -> None:
        super().__init__(name="attackers")
        self._attackers = [Attacker(each, chance) for each in bootstraps]
        self.stop, self.count = threading.Event(), 0

    def run(self) -> None:
        while not self.stop.is_set():
            self._attackers[self.count % len(self._attackers)].attack()
            self.count += 1

    def __enter__(self) -> Attackers:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.join()
        for each in self._attackers:
            each.close()


def run(faults: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    report, chance = Report(faults), random.Random(seed)
    with ProcessCluster(3) as cluster:
        bootstraps = [f"127.0.0.1:{port}" for port in cluster.ports.values()]
        for topic, partitions in (("t", 3), (VICTIM, BOMBS), (LARGE, 1)):
            create(cluster.bootstrap, topic, partitions, retention_ms=-1)
        fill(bootstraps, LARGE, megabytes=_LARGE_MB)
        happening = MovingFaults(cluster, chance)
        with Load(cluster.bootstrap, pause_s=0.005) as load:
            with Attackers(bootstraps, random.Random(seed + 1)) as attackers:
                _happen(happening, faults, load, attackers, say)
            report.attacks, report.longest_silence_s = attackers.count, round(load.gap_s, 1)
        report.acknowledged = load.count
        for check in (load.check, cluster.until_in_sync, cluster.replicas_agree):
            with _noting(report):
                check()
    return report


def _happen(
    happening: Faults, faults: int, load: Load, attackers: Attackers, say: Callable[[str], None]
) -> None:
    for number in range(faults):
        began = time.monotonic()
        happening.one()
        over = time.monotonic()
        load.wait_for(50, timeout=_GO_ON_S)
        say(
            f"{number + 1:4} {happening.history[-1]:20} {over - began:5.1f} s, "
            f"produced after {time.monotonic() - over:5.1f} s, {attackers.count} attacks"
        )
    happening.heal()


@contextlib.contextmanager
def _noting(report: Report):
    try:
        yield
    except AssertionError as error:
        report.wrong.append(str(error))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    report = run(options.faults, options.seed, print)
    print(json.dumps({"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
