"""A cluster of processes: ZooKeeper, brokers, a proxy before each, and signals for all of them."""

import signal
import tempfile
import threading
import time
from pathlib import Path

from ottla.client import Admin
from ottla.ensemble import Ensemble
from tests.cluster.proxy import Proxies
from tests.oracle.ports import free_ports
from tests.oracle.process import start_broker


class ProcessCluster:
    """Brokers reach each other and ZooKeeper through proxies; clients reach the brokers directly.

    A proxy takes connections for a broker that is dead: what a dead broker's port tells is seen only without
    (`proxied=False`). Then nothing can be cut."""

    def __init__(self, brokers=3, zookeepers=1, session_ms=3000, proxied=True, **settings):
        self._proxied = proxied
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-cluster-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        ports = free_ports(zookeepers * 3 + brokers * 2)
        self.zookeepers = Ensemble(
            self.folder, ports[:zookeepers], ports[zookeepers : zookeepers * 3] if zookeepers > 1 else ()
        )
        self._zookeeper_ports = ports[:zookeepers]  # where brokers connect
        rest = ports[zookeepers * 3 :]
        self.ids = list(range(1, brokers + 1))
        self.ports = dict(zip(self.ids, rest[:brokers], strict=True))
        self._inside = dict(zip(self.ids, rest[brokers:], strict=True))
        self.processes = {}
        self.settings = {
            "zookeeper.session.timeout.ms": str(session_ms),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "replica.lag.time.max.ms": "3000",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            "inter.broker.listener.name": "INSIDE",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            **{name.replace("_", "."): str(value) for name, value in settings.items()},
        }

    def __enter__(self):
        self.zookeepers.start()
        self._proxies = Proxies()
        self.before = {each: self._proxies.add(self._inside[each]) for each in self.ids}
        self.to_zookeeper = {
            each: [self._proxies.add(port) for port in self._zookeeper_ports] for each in self.ids
        }
        starting = [threading.Thread(target=self.start, args=(each,)) for each in self.ids]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        assert len(self.processes) == len(self.ids), "not all brokers started"
        return self

    def __exit__(self, *_):
        for broker_id in list(self.processes):
            self.kill(broker_id)
        self.zookeepers.stop()
        self._proxies.close()
        self._folder.cleanup()

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def client(self):
        """What a client of the brokers has to set."""
        return {"bootstrap.servers": self.bootstrap}

    def listeners(self, broker_id, inside):
        """With the port at which the brokers talk to each other."""
        return f"PLAINTEXT://127.0.0.1:{self.ports[broker_id]},INSIDE://127.0.0.1:{inside}"

    def settings_of(self, broker_id):
        inside = self.before[broker_id].port if self._proxied else self._inside[broker_id]
        return {
            "listeners": self.listeners(broker_id, self._inside[broker_id]),
            "advertised.listeners": self.listeners(broker_id, inside),
        }

    def start(self, broker_id, timeout=90):
        connect = self.zookeepers.connect
        if self._proxied:
            connect = ",".join(f"127.0.0.1:{each.port}" for each in self.to_zookeeper[broker_id])
        settings = self.settings | self.settings_of(broker_id)
        options = ["--broker-id", str(broker_id), "--zookeeper", connect]
        options += ["--data", str(self.folder / f"broker-{broker_id}")]
        options += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        log = self.folder / f"broker-{broker_id}.log"
        self.processes[broker_id], _ = start_broker(options, log, timeout_s=timeout)

    def kill(self, broker_id, number=signal.SIGKILL):
        process = self.processes.pop(broker_id)
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        process.wait(30)
        process.stdout.close()

    def stop(self, broker_id):
        self.kill(broker_id, signal.SIGTERM)

    def pause(self, broker_id):
        self.processes[broker_id].send_signal(signal.SIGSTOP)

    def resume(self, broker_id):
        self.processes[broker_id].send_signal(signal.SIGCONT)

    def isolate(self, broker_id):
        """Nobody reaches it from the other brokers."""
        self.before[broker_id].cut()

    def cut_from_zookeeper(self, broker_id):
        for each in self.to_zookeeper[broker_id]:
            each.cut()

    def heal(self, broker_id):
        self.before[broker_id].heal()
        for each in self.to_zookeeper[broker_id]:
            each.heal()

    def logs(self):
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}"
            for path in sorted(self.folder.glob("broker-*.log"))
        )

    def replicas_agree(self, topic="t"):
        """Stops all brokers; what the replicas have on disk is the same, byte for byte."""
        for broker_id in list(self.processes):
            self.stop(broker_id)
        for folder in sorted(path.name for path in (self.folder / "broker-1").glob(f"{topic}-*")):
            found = {
                b"".join(
                    path.read_bytes()
                    for path in sorted((self.folder / f"broker-{each}" / folder).glob("*.log"))
                )
                for each in self.ids
            }
            assert len(found) == 1 and b"" not in found, f"{folder} differs"

    # What clients see

    def describe(self, topic="t"):
        with Admin(self.client) as admin:
            return admin.describe_topics([topic])[topic].partitions

    def leader(self, topic="t", partition=0):
        return self.describe(topic)[partition].leader

    def controller(self):
        with Admin(self.client) as admin:
            return admin.describe_cluster().controller

    def until_in_sync(self, topic="t", count=3, timeout=90.0):
        deadline = time.monotonic() + timeout
        while True:
            found = self.describe(topic)
            if all(len(each.isr) == count and each.leader >= 0 for each in found.values()):
                return
            assert time.monotonic() < deadline, f"not in sync: {found}\n{self.logs()}"
            time.sleep(0.1)
