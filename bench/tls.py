"""TLS beside Apache Kafka's: throughput, processor time, handshakes, what an idle connection costs."""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench import load
from bench.measure import Benchmark, Measured, Metric, Peer, Scale, cpu_seconds, memory_mb
from ottla.security.certificates import Authority
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla

PARTITIONS = 4
PROTOCOLS = "PLAINTEXT:SSL"  # the name that `ottla start --port` gives its listener


@contextlib.contextmanager
def secured(peer: Peer) -> Iterator[tuple[Oracle | Ottla, dict[str, str]]]:
    """A server with one TLS listener, and what its clients have to set."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-tls-") as folder:
        if peer.name == "kafka":
            with Oracle(listeners="ssl") as kafka:
                yield kafka, _client(kafka.bootstrap, kafka.data / "ca.pem")
            return
        authority = Authority()
        identity = authority.issue("broker", "localhost", "127.0.0.1")
        server, ca = Path(folder) / "server.pem", Path(folder) / "ca.pem"
        server.write_text(identity.key + identity.certificate)
        ca.write_text(authority.pem)
        settings = {"listener.security.protocol.map": PROTOCOLS, "ssl.keystore.location": server}
        with Ottla(settings=settings) as ottla:
            yield ottla, _client(ottla.bootstrap, ca)


def _client(bootstrap: str, ca: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(ca),
        "ssl.endpoint.identification.algorithm": "none",
    }


def throughput_of(size: int, count: int) -> Benchmark:
    label = f"{size} B" if size < 1000 else "1 KB"

    def run(peer: Peer, scale: Scale) -> Measured:
        records = scale(count, 20_000)
        gigabytes = records * size / 1e9
        with secured(peer) as (server, client):
            _make_topics(client, "warm-up", "measured")
            load.produce("", "warm-up", records // 10, size, PARTITIONS, client=client)
            before = cpu_seconds(server.pid())
            wrote = load.produce("", "measured", records, size, PARTITIONS, client=client)
            between = cpu_seconds(server.pid())
            read = load.consume("", "measured", records, PARTITIONS, client=client)
            after = cpu_seconds(server.pid())
        return {
            Metric(f"TLS produce {label}", "k msg/s", "higher", ">= 1.0"): records / wrote / 1000,
            Metric(f"TLS produce {label}, broker CPU per GB", "s", "lower", "<= 0.5"): (between - before)
            / gigabytes,
            Metric(f"TLS consume {label}", "k msg/s", "higher", ">= 1.0"): records / read / 1000,
            Metric(f"TLS consume {label}, broker CPU per GB", "s", "lower", "<= 0.5"): (after - between)
            / gigabytes,
        }

    return Benchmark(f"tls-{label.replace(' ', '').lower()}", run)


def connections(peer: Peer, scale: Scale) -> Measured:
    count = scale(1000, 100)
    with secured(peer) as (server, client):
        host, port = client["bootstrap.servers"].rsplit(":", 1)
        context = ssl.create_default_context(cafile=client["ssl.ca.location"])
        context.check_hostname = False
        _shake_hands(context, host, int(port), count // 5)[0].close()  # warm-up
        before_mb, begun = memory_mb(server.pid()), time.perf_counter()
        opened = _shake_hands(context, host, int(port), count)
        took = time.perf_counter() - begun
        used_mb = memory_mb(server.pid()) - before_mb
        for each in opened:
            each.close()
    return {
        Metric("TLS handshakes", "a second", "higher", ">= 1.0"): count / took,
        Metric("idle TLS connection", "KB", "lower", "35 KB"): used_mb * 1024 / count,
    }


def _shake_hands(context: ssl.SSLContext, host: str, port: int, count: int) -> list[ssl.SSLSocket]:
    return [context.wrap_socket(socket.create_connection((host, port))) for _ in range(count)]


def _make_topics(client: dict[str, str], *names: str) -> None:
    admin = AdminClient(client)
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(60)


BENCHMARKS = (
    throughput_of(100, 3_000_000),
    throughput_of(1000, 1_000_000),
    Benchmark("tls-connections", connections),
)
