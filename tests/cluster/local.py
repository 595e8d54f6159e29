"""Brokers of one cluster in this process, over the in-process metadata log: real sockets, disks in memory.

Unlike `ottla.testing.Cluster` all of them run on one loop: a test looks into several of them at once, and holds one up
by closing a part of it."""

import time

from ottla.config.settings import Config
from ottla.metadata.shared import Shared
from ottla.server.node import Node, memory_disk
from ottla.testing.background import Background


class LocalCluster:
    """`with LocalCluster(3) as cluster:`; everything runs on a loop of its own, in a thread."""

    def __init__(self, brokers=3, racks=None, **settings):
        self.settings = {
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            **{name.replace("_", "."): str(value) for name, value in settings.items()},
        }
        self.racks = racks or {}
        self.shared = Shared()
        self.nodes = {}
        self.disks = {}  # by broker, one for each of its log folders
        self.ports = {}
        self._ids = range(1, brokers + 1)
        self._background = Background("ottla-local-cluster")

    def __enter__(self):
        for broker_id in self._ids:
            self.start(broker_id)
        return self

    def __exit__(self, *_):
        for broker_id in list(self.nodes):
            self.kill(broker_id)
        self._background.close()

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def run(self, coroutine, timeout=60):
        return self._background.run(coroutine, timeout)

    def call(self, function, *arguments):
        return self._background.call(lambda: function(*arguments))

    def start(self, broker_id, **settings):
        disks = self.disks.setdefault(broker_id, [memory_disk()])
        config = self.settings | {
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports.get(broker_id, 0)}",
            **({"broker.rack": self.racks[broker_id]} if broker_id in self.racks else {}),
            **{name.replace("_", "."): str(value) for name, value in settings.items()},
        }
        node = Node(Config(config), disks=list(disks), metadata_log=self.shared.session())
        self.run(node.start())
        self.nodes[broker_id] = node
        self.ports[broker_id] = node.endpoints[0].port
        return node

    def kill(self, broker_id):
        """As SIGKILL: nothing is said, the session goes with it."""
        self.run(self.nodes.pop(broker_id).crash())

    def stop(self, broker_id):
        self.run(self.nodes.pop(broker_id).stop())

    # What it looks like

    def any(self):
        return next(iter(self.nodes.values())).broker

    def state(self, topic="t", index=0):
        return self.call(lambda: self.any().image.partition(topic, index))

    def leader(self, topic="t", index=0):
        return self.state(topic, index).leader

    def partition(self, broker_id, topic="t", index=0):
        return self.nodes[broker_id].broker.replicas.partitions[topic, index]

    def until(self, condition, timeout=60.0):
        """Waits for something to become true; a test never sleeps for a guessed time."""
        deadline = time.monotonic() + timeout
        while not self.call(condition):
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.005)

    def until_in_sync(self, topic="t", count=3, timeout=60.0):
        def in_sync():
            found = self.any().image.topics.get(topic)
            return found is not None and all(len(each.isr) == count for each in found.partitions)

        self.until(in_sync, timeout)

    def replicas_agree(self, topic="t"):
        """The bytes from log start to high watermark are the same everywhere."""

        def bytes_of(log, start, end):
            return bytes(log.read(start, max_bytes=1 << 30, up_to=end).data) if end > start else b""

        def agree():
            for state in self.any().image.topics[topic].partitions:
                logs = [self.partition(each, topic, state.index).log for each in state.replicas]
                start, end = max(x.log_start_offset for x in logs), logs[0].high_watermark
                if len({x.high_watermark for x in logs}) > 1:
                    return False
                assert len({bytes_of(each, start, end) for each in logs}) == 1, state
            return True

        self.until(agree)
