"""A steady load with acks=all that notes every acknowledgement: silences, throughput, what is missing in the end."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

_PARTITION_EOF = -191
_FLOWING_S = 1.0
_READ_S = 90.0


class At(NamedTuple):
    topic: str
    partition: int


class Found(NamedTuple):
    lost: int
    twice: int


class Probe:
    """`with Probe(bootstrap, lanes, rate, size)`: the numbers 0, 1, 2... to each place, `rate` a second in all.

    Every lane has a producer of its own: what shares a connection with a partition that waits for its replicas
    waits with it.
    """

    def __init__(self, bootstrap: str, lanes: Sequence[Sequence[At]], rate: float, size: int = 100) -> None:
        self._bootstrap, self._rate = bootstrap, rate
        self._places = [at for lane in lanes for at in lane]
        self._padding = b"x" * (size - 8)
        self._times = {at: array("d") for at in self._places}
        self._numbers = {at: array("q") for at in self._places}
        self.errors: list[KafkaError] = []
        self._stop = threading.Event()
        self._ended = 0.0
        self._unanswered = 0
        self._producers = [Producer(_settings(bootstrap)) for _ in lanes]
        self._producer_of = [
            producer for producer, lane in zip(self._producers, lanes, strict=True) for _ in lane
        ]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Probe:
        self._thread.start()
        try:
            self.until_flowing()
        except BaseException:
            self._stop.set()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._unanswered:
            raise RuntimeError(f"{self._unanswered} records were never answered")

    # -- while it runs ---------------------------------------------------------------------------

    def until_flowing(self, timeout_s: float = 90.0) -> None:
        """Until every place was acknowledged something a moment ago."""
        deadline = time.monotonic() + timeout_s
        while not all(len(x) and time.monotonic() - x[-1] < _FLOWING_S for x in self._times.values()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"no acknowledgement for {timeout_s} s; errors: {self.errors[:3]}")
            time.sleep(0.05)

    # -- what it saw -----------------------------------------------------------------------------

    def silence(self, places: Sequence[At], since: float, until: float | None = None) -> float:
        """The longest that any of these places was without an acknowledgement."""
        end = until or self._ended or time.monotonic()
        return max((self._silence(self._times[at], since, end) for at in places), default=0.0)

    def throughput(self, since: float, until: float) -> float:
        """Acknowledgements a second."""
        return sum(bisect_left(x, until) - bisect_left(x, since) for x in self._times.values()) / (
            until - since
        )

    def lowest_second(self, since: float, until: float) -> float:
        """Of all seconds between, moved on by a tenth each time."""
        steps = range(max(1, int((until - since - 1) * 10)))
        return min(self.throughput(since + step / 10, since + step / 10 + 1) for step in steps)

    @staticmethod
    def _silence(times: array[float], since: float, until: float) -> float:
        first = max(0, bisect_right(times, since) - 1)  # what came last before counts as its begin
        seen = [*times[first : bisect_left(times, until)], until]
        return max((b - a for a, b in pairwise(seen)), default=until - since)

    # -- afterwards ------------------------------------------------------------------------------

    def read_back(self) -> Found:
        """Reads everything, and says on standard error what is wrong with it."""
        found = self._read()
        lost = [(at, n) for at in self._places for n in sorted(set(self._numbers[at]) - set(found[at]))]
        twice = [(at, b) for at in self._places for a, b in pairwise(found[at]) if b <= a]
        for what, places in (("acknowledged, but not there", lost), ("twice or out of order", twice)):
            for at, number in places[:10]:
                print(f"{at.topic}-{at.partition}: {number} is {what}", file=sys.stderr, flush=True)
        return Found(len(lost), len(twice))

    def _read(self) -> dict[At, array[int]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 1,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(at.topic, at.partition, OFFSET_BEGINNING) for at in self._places])
        found = {at: array("q") for at in self._places}
        left, deadline = set(self._places), time.monotonic() + _READ_S
        while left:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{sorted(left)[:3]} were not read to their ends")
            for message in consumer.consume(10_000, 0.1):
                at = At(message.topic(), message.partition())
                if message.error() is None:
                    found[at].append(int.from_bytes(message.value()[:8], "big"))
                elif message.error().code() == _PARTITION_EOF:
                    left.discard(at)
        consumer.close()
        return found

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        began, sent, places = time.monotonic(), 0, len(self._places)
        while not self._stop.is_set():
            due = int((time.monotonic() - began) * self._rate)
            while sent < due:
                place = sent % places
                at = self._places[place]
                try:
                    self._producer_of[place].produce(
                        at.topic,
                        (sent // places).to_bytes(8, "big") + self._padding,
                        partition=at.partition,
                        on_delivery=self._on_delivery,
                    )
                except BufferError:
                    break  # what is due stays due
                sent += 1
            for producer in self._producers:
                producer.poll(0)
            time.sleep(0.001)
        self._ended = time.monotonic()
        self._unanswered = sum(producer.flush(120) for producer in self._producers)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        at = At(message.topic(), message.partition())
        self._times[at].append(time.monotonic())
        self._numbers[at].append(int.from_bytes(message.value()[:8], "big"))


def _settings(bootstrap: str) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 2,
        "log_level": 0,
        "queue.buffering.max.messages": 1_000_000,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.max.ms": 200,
    }
