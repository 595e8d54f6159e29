"""What sarama's own functional tests need: five brokers behind toxiproxy, and `docker compose` to stop and start them.

Its Docker set-up is rebuilt without Docker: toxiproxy is built from its Go module, and a script named `docker` asks
this process to stop, start or tell the log of a broker.
"""

from __future__ import annotations

import json
import os
import re
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster.processes import ProcessCluster
from tests.oracle.ports import free_ports

SARAMA, TOXIPROXY = "v1.61.1", "v2.12.0"
BROKERS = 5
CLIENTS_PORT = 29_090  # in its source: broker 1 is asked at 29091
# As in its docker-compose.yml; the rest are Kafka's defaults where ProcessCluster has others.
_SETTINGS = {
    "default_replication_factor": 2,
    "offsets_topic_replication_factor": 2,
    "transaction_state_log_replication_factor": 2,
    "transaction_state_log_min_isr": 1,
    "auto_create_topics_enable": "false",
    "replica_selector_class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "min_insync_replicas": 1,
    "replica_lag_time_max_ms": 30_000,
    "offsets_topic_num_partitions": 50,
    "transaction_state_log_num_partitions": 50,
}
_DOCKER = """\
#!{python}
import socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    connection.sendall(" ".join(sys.argv[1:]).encode() + b"\\n")
    code, _, text = connection.makefile().read().partition("\\n")
print(text)
sys.exit(int(code or 1))
"""


def functional_tests(source: Path) -> str:
    """A pattern of their names: the package has hundreds of others, which need no broker."""
    names = [
        name
        for file in sorted(source.glob("functional_*_test.go"))
        for name in re.findall(r"^func (Test\w+)\(t ", file.read_text(), re.MULTILINE)
        if name != "TestMain"
    ]
    return f"^({'|'.join(names)})$"


@contextmanager
def surroundings(cache: Path) -> Iterator[dict[str, str]]:
    """Everything is running: the environment for `go test`."""
    proxy = _built_toxiproxy(cache)
    with ExitStack() as stack:
        cluster = stack.enter_context(BehindToxiproxy())
        folder = Path(stack.enter_context(TemporaryDirectory()))
        address = stack.enter_context(_toxiproxy(proxy, folder, cluster.ports))
        stack.enter_context(_docker(folder, cluster))
        yield {
            "TOXIPROXY_ADDR": address,
            "KAFKA_VERSION": "4.3.1",
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        }


class BehindToxiproxy(ProcessCluster):
    """Clients are sent to the proxies; brokers reach each other without. Each broker is a rack."""

    def __init__(self) -> None:
        super().__init__(BROKERS, session_ms=6000, proxied=False, **_SETTINGS)

    def settings_of(self, broker_id: int) -> dict[str, str]:
        inside = f"INSIDE://127.0.0.1:{self._inside[broker_id]}"
        return {
            **super().settings_of(broker_id),
            "advertised.listeners": f"PLAINTEXT://localhost:{CLIENTS_PORT + broker_id},{inside}",
            "broker.rack": str(broker_id),
        }


def _built_toxiproxy(cache: Path) -> Path:
    folder = cache / f"toxiproxy-{TOXIPROXY}"
    if not (folder / "server").exists():
        package = f"github.com/Shopify/toxiproxy/v2/cmd/server@{TOXIPROXY}"
        subprocess.run(["go", "install", package], env={**os.environ, "GOBIN": str(folder)}, check=True)
    return folder / "server"


@contextmanager
def _toxiproxy(program: Path, folder: Path, upstream: dict[int, int]) -> Iterator[str]:
    """Its tests look for proxies named kafka1 to kafka5, and make them only if there are none."""
    proxies = [
        {
            "name": f"kafka{broker_id}",
            "listen": f"127.0.0.1:{CLIENTS_PORT + broker_id}",
            "upstream": f"127.0.0.1:{port}",
            "enabled": True,
        }
        for broker_id, port in upstream.items()
    ]
    config = folder / "toxiproxy.json"
    config.write_text(json.dumps(proxies))
    (port,) = free_ports(1)
    with (folder / "toxiproxy.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "-host", "127.0.0.1", "-port", str(port), "-config", config], stdout=log, stderr=log
        )
    try:
        _until_proxied(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _until_proxied(address: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(f"{address}/proxies", timeout=5) as answer:
                if len(json.load(answer)) == BROKERS:
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise RuntimeError(f"toxiproxy is not ready after {timeout_s:.0f} s")
        time.sleep(0.1)


@contextmanager
def _docker(folder: Path, cluster: ProcessCluster) -> Iterator[None]:
    class Asked(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            code, text = _compose(cluster, self.rfile.readline().decode().split())
            self.wfile.write(f"{code}\n{text}".encode())

    address = str(folder / "docker.socket")
    script = folder / "docker"
    script.write_text(_DOCKER.format(python=sys.executable, address=address))
    script.chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(address, Asked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def _compose(cluster: ProcessCluster, words: list[str]) -> tuple[int, str]:
    """`docker compose stop kafka-2`, `start` and `logs`: its exit code and what it prints."""
    broker_id = int(words[-1].removeprefix("kafka-"))
    match words[1]:
        case "stop":
            if broker_id in cluster.processes:
                cluster.stop(broker_id)
            return 0, ""
        case "start":
            if broker_id not in cluster.processes:
                cluster.start(broker_id)
            return 0, ""
        case "logs":
            return 0, (cluster.folder / f"broker-{broker_id}.log").read_text(errors="replace")
        case _:
            return 1, f"docker {' '.join(words)}: not provided here"
