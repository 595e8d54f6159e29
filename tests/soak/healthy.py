"""A client that does everything right, all the while, in a process of its own: what others do to Python's lock is
not its latency."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection

from confluent_kafka import KafkaError, Message, Producer

TOPIC = "healthy"
PATIENCE_S = 10.0
PAUSE_S = 0.005
_TIMES, _STOP = "times", "stop"


class Healthy:
    """Sends one record after the other, and waits for each. A context manager."""

    def __init__(self, bootstrap: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(bootstrap, theirs), name="healthy", daemon=True)
        self.records = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Healthy:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def is_alive(self) -> bool:
        return self._process.is_alive() and not self.wrong

    def latencies_ms(self) -> list[float]:
        """Since it was last asked, in order of size."""
        return self._ask(_TIMES)

    def stop(self) -> list[float]:
        """What was measured since it was last asked."""
        if not self._process.is_alive():
            return []
        times = self._ask(_STOP)
        self._process.join()
        return times

    def _ask(self, what: str) -> list[float]:
        self._ours.send(what)
        times, self.records, self.wrong = self._ours.recv()
        return sorted(times)


class _Client:
    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        self.times_ms: list[float] = []
        self.records = 0
        self.wrong: list[str] = []

    def send_one(self) -> None:
        begun = time.monotonic()
        self._producer.produce(TOPIC, str(self.records).encode(), on_delivery=self._on_delivery)
        if self._producer.flush(PATIENCE_S):
            self.wrong.append(f"record {self.records} was not acknowledged in time")
        else:
            self.times_ms.append((time.monotonic() - begun) * 1000)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.records += 1
        else:
            self.wrong.append(f"the healthy client got {error}")


def _run(bootstrap: str, asked: Connection) -> None:
    client = _Client(bootstrap)
    client.send_one()
    client.times_ms.clear()  # half a second of it is the client's own: it asks for its producer id again
    while True:
        if not client.wrong:
            client.send_one()
        if asked.poll(PAUSE_S):
            what = asked.recv()
            asked.send((client.times_ms, client.records, client.wrong))
            client.times_ms = []
            if what == _STOP:
                return
