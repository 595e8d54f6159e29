"""The topic `_schemas` as the registry's only store: followed by a thread, written under one transactional id.

Any number of registries may share a topic. The transactional id is the lock: a registry that wants to write and was not
the last writer takes the id over, which fences the last one, reads to the end, and decides on what it read. The fenced
registry learns of it with its next write, and does the same. So no id is given twice, and none is lost.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError, WakeUp
from ottla.client.producer import Producer
from ottla.client.values import TopicPartition
from ottla.errors import InvalidConfig, MessageTooLarge, OttlaError, ProtocolError, TopicAlreadyExists
from ottla.registry import errors
from ottla.registry.decisions import Decision, Registry
from ottla.registry.records import Record, read
from ottla.registry.state import State

log = logging.getLogger(__name__)
TOPIC = "_schemas"
_PAUSE_S, _PAUSE_S_MAX = 0.02, 0.5
_POLL_S = 0.5
_LATEST = -1
_WRITER_SETTING = "ottla.writer.transactional.id"


class TopicStore:
    """`ask` reads, `change` writes; both may be called from any thread."""

    def __init__(
        self,
        client: Mapping[str, Any],
        topic: str = TOPIC,
        *,
        replication_factor: int = 3,
        timeout_s: float = 30,
    ) -> None:
        self._client, self._topic, self._timeout_s = dict(client), topic, timeout_s
        self._replicas = replication_factor
        self._partition = TopicPartition(topic, 0)
        self._transactional_id = f"schema-registry-{topic}"
        self._registry = Registry(State())
        self._moved = threading.Condition()  # guards the state and the position
        self._position = 0
        self._writing = threading.Lock()
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._failure: BaseException | None = None
        self._stopped = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="registry-follower", daemon=True)

    def start(self) -> None:
        """Returns once everything that the topic has is known."""
        self._admin = Admin(self._client)
        self._ensure_topic()
        self._follower.start()
        self.catch_up()

    def close(self) -> None:
        self._stopped.set()
        if self._consumer is not None:
            self._consumer.wakeup()
        if self._follower.is_alive():
            self._follower.join(self._timeout_s)
        with self._writing:
            self._drop_producer()
        self._admin.close()

    # -- reading ---------------------------------------------------------------------------------------

    def ask(self, question: Callable[[Registry], Any]) -> Any:
        with self._moved:
            return question(self._registry)

    def catch_up(self) -> None:
        """Everything that is committed by now is known afterwards."""
        end = self._admin.list_offsets({self._partition: _LATEST}, committed_only=True)
        self._wait_for(end[self._partition].offset)

    def cluster_id(self) -> str:
        return self._admin.describe_cluster().id or ""

    def _wait_for(self, position: int) -> None:
        deadline = time.monotonic() + self._timeout_s
        with self._moved:
            while self._position < position:
                if self._failure is not None:
                    raise errors.store_failed(str(self._failure))
                if not self._moved.wait(deadline - time.monotonic()) and time.monotonic() > deadline:
                    raise errors.timed_out(f"{self._topic} was read to {self._position} of {position}")

    def _follow(self) -> None:
        settings = {**self._client, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        try:
            with Consumer(settings) as consumer, suppress(WakeUp):
                self._consumer = consumer
                consumer.assign([self._partition])
                consumer.seek(self._partition, 0)
                while not self._stopped.is_set():
                    polled = consumer.poll(_POLL_S)
                    with self._moved:
                        for record in polled:
                            self._apply(record.key, record.value, list(record.headers))
                        self._position = consumer.position(self._partition)
                        self._moved.notify_all()
        except BaseException as error:
            log.exception("the registry can no longer read %s", self._topic)
            with self._moved:
                self._failure = error
                self._moved.notify_all()

    def _apply(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
        """A record that cannot be read is left out: if it stopped one registry, it would stop them all, for good."""
        try:
            record = None if key is None else read(key, value, headers)
            if record is None:
                log.warning("%s has a record that is none of a registry's: key %.100r", self._topic, key)
                return
            self._registry.state.apply(record)
        except Exception as error:
            log.warning("%s has a record that cannot be read (%r): key %.100r", self._topic, error, key)

    # -- writing ---------------------------------------------------------------------------------------

    def change(self, decide: Callable[[Registry], Decision]) -> Any:
        """The decision's answer, once its records are committed and applied here."""
        with self._writing:
            deadline, pause_s = time.monotonic() + self._timeout_s, _PAUSE_S
            while True:
                try:
                    return self._change(decide)
                except errors.RegistryError:
                    raise
                except MessageTooLarge as error:
                    self._drop_producer()
                    raise errors.too_large(str(error)) from error
                except (ProtocolError, ClientError) as error:
                    # Fenced, or unknown whether it was committed: what the topic says then decides.
                    log.info("another registry wrote, or the write failed: %s", error)
                    self._drop_producer()
                    if time.monotonic() > deadline:
                        raise errors.store_failed(str(error)) from error
                # Two that write at the same time would fence each other for ever: each waits for a while of its own.
                self._stopped.wait(random.uniform(0, pause_s))
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def _change(self, decide: Callable[[Registry], Decision]) -> Any:
        producer = self._owner()
        decision = self._decided(decide)
        if decision.records:
            self._wait_for(self._write(producer, decision.records) + 1)
        return decision.answer

    def _decided(self, decide: Callable[[Registry], Decision]) -> Decision:
        """A decision to write is checked by the write itself: a fenced registry learns of it there. One to write
        nothing is not, so it is only made on everything that is committed by then."""
        try:
            with self._moved:
                decision = decide(self._registry)
            if decision.records:
                return decision
        except errors.RegistryError:
            pass
        self.catch_up()
        with self._moved:
            return decide(self._registry)

    def _owner(self) -> Producer:
        """The producer whose epoch is the latest, with everything read that was written before it."""
        if self._producer is None:
            settings = {
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": 10_000,
                "acks": "all",
                "linger.ms": 0,
            }
            self._producer = Producer({**self._client, **settings})
            self._producer.init_transactions()
            self.catch_up()
        return self._producer

    def _write(self, producer: Producer, records: list[Record]) -> int:
        """The offset of the last record."""
        producer.begin_transaction()
        deliveries = [
            producer.send(
                self._topic, record.value_bytes(), record.key_bytes(), partition=0, headers=record.headers()
            )
            for record in records
        ]
        offset = max(delivery.result(self._timeout_s).offset for delivery in deliveries)
        producer.commit_transaction()
        return offset

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(1.0)
            except OttlaError as error:
                log.debug("closing a fenced producer: %s", error)

    def _ensure_topic(self) -> None:
        topics = self._admin.list_topics()
        if self._topic not in topics:
            brokers = len(self._admin.describe_cluster().brokers)
            with suppress(TopicAlreadyExists):  # by another registry that was quicker
                self._create_topic(min(self._replicas, brokers))
            return
        if len(topics[self._topic].partitions) != 1:
            raise errors.store_failed(f"the topic {self._topic} has several partitions; a registry needs one")

    def _create_topic(self, replicas: int) -> None:
        """On Ottla nobody but the holder of the registry's transactional id may write to it."""
        settings = {"cleanup.policy": "compact"}
        try:
            self._admin.create_topic(
                self._topic, 1, replicas, {**settings, _WRITER_SETTING: self._transactional_id}
            )
        except InvalidConfig:  # another Kafka does not know the setting
            self._admin.create_topic(self._topic, 1, replicas, settings)
