"""kafka-python: a worker in a thread, tested through its group."""

import json
import threading

from kafka import KafkaConsumer, KafkaProducer

from ottla.testing import Broker


class Worker(threading.Thread):
    """The code under test: adds up amounts, and commits what it has added."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.total = 0
        self._stopped = threading.Event()
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id="adders",
            client_id="adder",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        # kafka-python 3.0 may forget that it joined if it learns of the partitions later (docs/compatibility.md).
        self._consumer.partitions_for_topic(topic)

    def run(self) -> None:
        while not self._stopped.is_set():
            for records in self._consumer.poll(timeout_ms=100).values():
                self.total += sum(json.loads(record.value)["amount"] for record in records)
            self._consumer.commit()
        self._consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def send(bootstrap: str, topic: str, *amounts: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for amount in amounts:
        producer.send(topic, json.dumps({"amount": amount}).encode())
    producer.flush()
    producer.close()


def test_everything_is_added_and_committed(ottla_broker: Broker, ottla_topic: str) -> None:
    send(ottla_broker.bootstrap, ottla_topic, 1, 2, 3)
    worker = Worker(ottla_broker.bootstrap, ottla_topic)
    worker.start()
    ottla_broker.wait_for_lag("adders", 0)  # no sleep: it ends when the worker has committed
    worker.stop()
    assert worker.total == 6


def test_a_coordinator_that_moves_does_not_stop_the_worker(ottla_broker: Broker, ottla_topic: str) -> None:
    worker = Worker(ottla_broker.bootstrap, ottla_topic)
    worker.start()
    ottla_broker.wait_for_group("adders", members=1)
    ottla_broker.move_coordinator(group="adders")
    send(ottla_broker.bootstrap, ottla_topic, 4, 5)
    ottla_broker.wait_until(lambda: ottla_broker.group("adders").offsets.get((ottla_topic, 0)) == 2)
    worker.stop()
    assert worker.total == 9
