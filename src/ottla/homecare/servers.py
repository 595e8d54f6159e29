"""The demo's brokers: one alone, or several over a ZooKeeper server of the demo's own."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.homecare.processes import Process

if TYPE_CHECKING:
    from ottla.ensemble import Ensemble
    from ottla.homecare.secure import Secured


class Servers:
    """The first broker is the one that trouble befalls; of several it is the controller as a rule."""

    def __init__(self, count: int, folder: Path, secured: "Secured | None" = None) -> None:
        self._count, self._folder, self._secured = count, folder, secured
        self._brokers: dict[int, Process] = {}
        self._addresses: dict[int, str] = {}
        self._zookeeper: Ensemble | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(self._addresses.values())

    def start(self) -> None:
        if self._count > 1:
            from ottla.ensemble import Ensemble  # needs Java, which one alone does not

            self._zookeeper = Ensemble(self._folder, [_free_port()])
            self._zookeeper.start()
        for number in range(1, self._count + 1):
            self._start(number)
        self._addresses = {number: broker.wait_ready() for number, broker in self._brokers.items()}

    def kill_first(self) -> None:
        self._brokers[1].kill()

    def restart_first(self) -> None:
        self._start(1)
        self._brokers[1].wait_ready()

    def close(self) -> None:
        for broker in self._brokers.values():
            broker.kill()
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def _start(self, number: int) -> None:
        port = self._addresses[number].rsplit(":", 1)[1] if number in self._addresses else "0"
        name = "broker" if self._count == 1 else f"broker-{number}"
        data = "data" if self._count == 1 else f"data-{number}"
        command = ["start", "--data", str(self._folder / data), "--log-level", "WARNING"]
        if self._secured is None:
            command += ["--port", port]
        else:
            secured_port = int(port) or _free_port()
            command += ["--config", str(self._secured.broker_file(number, secured_port))]
        if self._zookeeper is not None:
            command += ["--zookeeper", self._zookeeper.connect, "--broker-id", str(number)]
            for setting in _replication(min(3, self._count)):
                command += ["--set", setting]
        self._brokers[number] = Process(name, command, self._folder / f"{name}.log")
        self._brokers[number].start()


def _replication(replicas: int) -> tuple[str, ...]:
    """One broker may be lost."""
    return (
        f"default.replication.factor={replicas}",
        f"min.insync.replicas={replicas - 1}",
        f"offsets.topic.replication.factor={replicas}",
        f"transaction.state.log.replication.factor={replicas}",
        f"transaction.state.log.min.isr={replicas - 1}",
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
