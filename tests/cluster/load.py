"""A steady idempotent load with acks=all, and the check afterwards: once, in order, nothing missing."""

import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

QUIET = {"log_level": 0}


def create(bootstrap, name="t", partitions=3, replicas=3, login=None, **config):
    """`login` is what a client sets besides the address."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET, **(login or {})})
    wanted = NewTopic(name, partitions, replicas, config={k.replace("_", "."): v for k, v in config.items()})
    admin.create_topics([wanted])[name].result(60)
    return admin


class Load:
    """`with Load(bootstrap) as load: ...`; the numbers 0, 1, 2... go to each partition in turn."""

    def __init__(self, bootstrap, topic="t", partitions=3, pause_s=0.001, login=None, **settings):
        self._login = login or {}
        self.bootstrap, self.topic, self.partitions, self.pause_s = bootstrap, topic, partitions, pause_s
        self.acknowledged = {index: [] for index in range(partitions)}
        self.failed = []
        self.last_ack = 0.0
        self.gap_s = 0.0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 200,
                **QUIET,
                **self._login,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    @property
    def count(self):
        return sum(map(len, self.acknowledged.values()))

    def wait_for(self, more, timeout=60.0):
        """Until so many more are acknowledged."""
        goal, deadline = self.count + more, time.monotonic() + timeout
        while self.count < goal:
            assert time.monotonic() < deadline, f"{goal - self.count} not acknowledged; {self.failed[:3]}"
            time.sleep(0.002)

    def _run(self):
        number = 0
        while not self._stop.is_set():
            for index in range(self.partitions):
                self._producer.produce(
                    self.topic, str(number).encode(), partition=index, on_delivery=self._on_delivery
                )
            number += 1
            self._producer.poll(0)
            time.sleep(self.pause_s)
        left = self._producer.flush(60)
        assert not left, f"{left} were never answered"

    def _on_delivery(self, error, message):
        if error is not None:
            self.failed.append((message.partition(), message.value(), error))
            return
        now = time.monotonic()
        if self.last_ack:
            self.gap_s = max(self.gap_s, now - self.last_ack)
        self.last_ack = now
        self.acknowledged[message.partition()].append((message.offset(), int(message.value())))

    def check(self, isolation="read_committed"):
        """What was acknowledged is there, once, in order, where it was said to be."""
        assert not self.failed, self.failed[:3]
        found = read_all(self.bootstrap, self.topic, self.partitions, isolation, login=self._login)
        for index, acknowledged in self.acknowledged.items():
            values = [value for _, value in found[index]]
            assert values == sorted(set(values)), f"partition {index}: twice or out of order"
            missing = {v for _, v in acknowledged} - set(values)
            assert not missing, f"partition {index}: {sorted(missing)[:5]} of {len(missing)} are missing"
            told, there = dict(acknowledged), dict(found[index])
            told.pop(None, None)  # acknowledged by one that came after: the client was not told where it is
            wrong = [o for o, v in told.items() if there.get(o) != v]
            assert not wrong, f"partition {index}: offsets {wrong[:5]} hold something else"


def read_all(bootstrap, topic, partitions, isolation="read_committed", timeout=120.0, login=None):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            **QUIET,
            **(login or {}),
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    found = {index: [] for index in range(partitions)}
    ended, deadline = set(), time.monotonic() + timeout
    while len(ended) < partitions:
        assert time.monotonic() < deadline, "reading takes too long"
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                found[message.partition()].append((message.offset(), int(message.value())))
            elif message.error().code() == -191:  # the end of a partition
                ended.add(message.partition())
    consumer.close()
    return found
