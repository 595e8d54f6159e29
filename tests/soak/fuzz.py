"""Bad input against a live broker: it refuses, stays small, and other clients notice nothing.

    python -m tests.soak.fuzz [--seconds 600] [--seed N]

Random bytes, half frames, absurd lengths, damaged requests of every API and version, connections that never
read or write a byte a second; beside them a healthy client whose every record must be acknowledged in time
and come back. Prints a JSON summary; exits 1 if the broker died, grew or let the healthy client down.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tests.compat import raw
from tests.compat.batches import batch
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic, read_all

HEALTHY = "healthy"
_GROWTH_MB = 200
_PATIENCE_S = 10.0


@dataclass(slots=True)
class Report:
    attacks: int = 0
    healthy_records: int = 0
    slowest_ack_seconds: float = 0.0
    memory_mb_before: float = 0.0
    memory_mb_peak: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class Healthy(threading.Thread):
    """A client that does everything right, all the while."""

    def __init__(self, bootstrap: str, report: Report) -> None:
        super().__init__(name=HEALTHY)
        self._address, self._report, self.stop = bootstrap, report, threading.Event()

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self._address, "enable.idempotence": True, "linger.ms": 0})
        while not self.stop.is_set():
            begun = time.monotonic()
            producer.produce(
                HEALTHY, str(self._report.healthy_records).encode(), on_delivery=self._on_delivery
            )
            if producer.flush(_PATIENCE_S):
                self._report.wrong.append(
                    f"record {self._report.healthy_records} was not acknowledged in time"
                )
                return
            took = time.monotonic() - begun
            self._report.slowest_ack_seconds = max(self._report.slowest_ack_seconds, round(took, 3))
            self.stop.wait(0.005)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._report.healthy_records += 1
        else:
            self._report.wrong.append(f"the healthy client got {error}")


class Attacker:
    """One random bad thing after another, each on a connection of its own."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self._bootstrap, self._chance = bootstrap, chance
        self._apis = [
            (api, version) for api in raw.versions(bootstrap) for version in raw.served(bootstrap, api)
        ]
        self._lingering: list[socket.socket] = []
        self._attacks: list[Callable[[], None]] = [
            self._noise,
            self._half_a_frame,
            self._absurd_length,
            self._damaged_request,
            self._damaged_request,
            self._damaged_request,
            self._empty_request,
            self._damaged_records,
            self._never_reads,
            self._lingers,
        ]

    def attack(self) -> None:
        with contextlib.suppress(OSError, raw.Closed):
            self._chance.choice(self._attacks)()
        while len(self._lingering) > 100:
            self._lingering.pop(self._chance.randrange(len(self._lingering))).close()

    def close(self) -> None:
        for each in self._lingering:
            each.close()

    def _connect(self) -> socket.socket:
        host, port = self._bootstrap.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), 5)
        connection.settimeout(0.2)
        return connection

    def _say(self, data: bytes) -> None:
        with self._connect() as connection:
            connection.sendall(data)
            with contextlib.suppress(OSError):
                connection.recv(65536)

    def _noise(self) -> None:
        self._say(self._chance.randbytes(self._chance.randrange(1, 5000)))

    def _half_a_frame(self) -> None:
        data = self._framed(self._request())
        self._say(data[: self._chance.randrange(len(data))])

    def _absurd_length(self) -> None:
        size = self._chance.choice((-1, -(2**31), 2**31 - 1, 104_857_601, 0, 1, 7))
        self._say(struct.pack(">i", size) + self._request())

    def _damaged_request(self) -> None:
        frame = bytearray(self._request())
        for _ in range(self._chance.randrange(1, 6)):
            at = self._chance.randrange(len(frame))
            match self._chance.randrange(4):
                case 0:
                    frame[at] = self._chance.randrange(256)
                case 1:
                    frame[at : at + 4] = self._chance.choice(
                        (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0")
                    )
                case 2:
                    del frame[at : at + self._chance.randrange(1, 9)]
                case _:
                    frame[at:at] = self._chance.randbytes(self._chance.randrange(1, 9))
            if not frame:
                break
        self._say(self._framed(bytes(frame)))

    def _empty_request(self) -> None:
        api, version = self._chance.choice(self._apis)
        self._say(self._framed(struct.pack(">hhih", raw.KEYS[api], version, 1, -1)))

    def _damaged_records(self) -> None:
        records = bytearray(batch([b"v" * self._chance.randrange(1, 300)] * self._chance.randrange(1, 20)))
        for _ in range(self._chance.randrange(1, 4)):
            records[self._chance.randrange(len(records))] = self._chance.randrange(256)
        data = [{"name": "victim", "partition_data": [{"index": 0, "records": bytes(records)}]}]
        with raw.Raw(self._bootstrap, timeout_s=2) as client:
            client.call("produce", 9, {"acks": -1, "timeout": 1000, "topic_data": data})

    def _never_reads(self) -> None:
        """Asks and asks; the answers pile up until the broker stops listening to it."""
        with raw.Raw(self._bootstrap) as client:
            frame = self._framed(client.frame("metadata", 1, {"topics": None}))
        connection = self._connect()
        self._lingering.append(connection)
        with contextlib.suppress(OSError):
            connection.sendall(frame * 2000)

    def _lingers(self) -> None:
        connection = self._connect()
        connection.sendall(b"\0\0\1")  # and nothing more
        self._lingering.append(connection)

    def _request(self) -> bytes:
        api, version = self._chance.choice(self._apis)
        with raw.Raw(self._bootstrap) as client:
            try:
                return client.frame(api, version)
            except Exception:  # a message that cannot be all zeros
                return client.frame("metadata", 1)

    @staticmethod
    def _framed(frame: bytes) -> bytes:
        return struct.pack(">i", len(frame)) + frame


def run(seconds: float, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    report, chance = Report(), random.Random(seed)
    with Ottla() as broker:
        for topic in (HEALTHY, "victim"):
            make_topic(broker.bootstrap, topic, 1)
        report.memory_mb_before = memory_mb(broker.pid())
        healthy, attacker = Healthy(broker.bootstrap, report), Attacker(broker.bootstrap, chance)
        healthy.start()
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline and healthy.is_alive():
                attacker.attack()
                report.attacks += 1
                if report.attacks % 50 == 0:
                    report.memory_mb_peak = max(report.memory_mb_peak, memory_mb(broker.pid()))
                    say(
                        f"{report.attacks} attacks, {report.memory_mb_peak} MB, {report.healthy_records} sent"
                    )
        finally:
            healthy.stop.set()
            healthy.join()
            attacker.close()
        _judge(broker, report)
    return report


def _judge(broker: Ottla, report: Report) -> None:
    values = read_all(broker.bootstrap, HEALTHY, 0)
    if values != [str(i).encode() for i in range(report.healthy_records)]:
        report.wrong.append(f"{len(values)} records are there, {report.healthy_records} were acknowledged")
    if report.memory_mb_peak > report.memory_mb_before + _GROWTH_MB:
        report.wrong.append(f"grew from {report.memory_mb_before} to {report.memory_mb_peak} MB")


def memory_mb(pid: int) -> float:
    """Resident memory, as the kernel counts it; 0 if the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmRSS")), 0.0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    report = run(options.seconds, options.seed, lambda line: print(line, file=sys.stderr))
    print(
        json.dumps(
            {"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}, indent=1
        )
    )
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
