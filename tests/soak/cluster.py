"""python -m tests.soak.cluster [FAULTS] [SEED]: a cluster of processes over three ZooKeepers, under faults."""

import random
import sys
import time

from tests.cluster.faults import Faults
from tests.cluster.load import Load, create
from tests.cluster.processes import ProcessCluster


class EnsembleFaults(Faults):
    """One server of three goes: the ensemble stays."""

    def kill_zookeeper(self):
        index = self._chance.randrange(3)
        self.cluster.zookeepers.kill(index)
        time.sleep(self._chance.uniform(0, 3))
        self.cluster.zookeepers.restart(index)


def main(count=100, seed=1):
    with ProcessCluster(3, zookeepers=3) as cluster:
        create(cluster.bootstrap)
        faults = EnsembleFaults(cluster, random.Random(seed))
        with Load(cluster.bootstrap, pause_s=0.005) as load:
            for number in range(count):
                began = time.monotonic()
                faults.one()
                load.wait_for(50, timeout=120)
                print(f"{number + 1:4} {faults.history[-1]:20} {time.monotonic() - began:5.1f} s", flush=True)
            faults.heal()
            cluster.until_in_sync()
        load.check()
        cluster.replicas_agree()
    print(f"{load.count} acknowledged, none lost, none twice; the longest silence was {load.gap_s:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
