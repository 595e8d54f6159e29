"""What connectors and tasks are doing: in memory for answers, in the status topic for everybody else."""

import logging
import threading
from dataclasses import dataclass
from typing import Any

from ottla.client import Producer
from ottla.connect.store.formats import connector_status_key, dumps, loads, task_status_key, topic_status_key
from ottla.connect.store.table import TopicTable

log = logging.getLogger(__name__)
VERSION = "4.3.1"  # of Kafka Connect, whose answers these are


@dataclass(frozen=True, slots=True)
class Status:
    state: str
    worker_id: str
    trace: str | None = None

    def to_record(self, generation: int) -> bytes:
        document = {
            "state": self.state, "trace": self.trace, "worker_id": self.worker_id, "generation": generation,
            "version": VERSION,
        }  # fmt: skip
        return dumps(document)

    def to_answer(self) -> dict[str, Any]:
        document: dict[str, Any] = {"state": self.state, "worker_id": self.worker_id, "version": VERSION}
        return {**document, "trace": self.trace} if self.trace is not None else document


class Statuses:
    """Threads share it. The producer's records are sent in the background: a status is news, not truth."""

    def __init__(self, producer: Producer | None, table: TopicTable | None, topic: str) -> None:
        self._producer, self._table, self._topic = producer, table, topic
        self._lock = threading.Lock()
        self.connectors: dict[str, Status] = {}
        self.tasks: dict[str, dict[int, Status]] = {}
        self.generation = 1

    def set_connector(self, name: str, status: Status) -> None:
        with self._lock:
            self.connectors[name] = status
        self._send(connector_status_key(name), status.to_record(self.generation))

    def set_tasks(self, name: str, statuses: dict[int, Status]) -> None:
        """All tasks of a connector: those that are not among them are gone."""
        with self._lock:
            gone = self.tasks.get(name, {}).keys() - statuses.keys()
            self.tasks[name] = dict(statuses)
        for index in gone:
            self._send(task_status_key(name, index), None)
        for index, status in statuses.items():
            self._send(task_status_key(name, index), status.to_record(self.generation))

    def remove(self, name: str) -> None:
        self.set_tasks(name, {})
        with self._lock:
            self.connectors.pop(name, None)
            self.tasks.pop(name, None)
        self._send(connector_status_key(name), None)
        self.reset_topics(name)

    def topics(self, name: str) -> list[str]:
        """Tasks write there themselves which topics they use."""
        if self._table is None:
            return []
        with self._lock:
            self._table.catch_up()
            rows = list(self._table.rows.items())
        names: set[str | None] = set()
        for key, value in rows:
            if key.startswith(b"status-topic-") and key.endswith(f":connector-{name}".encode()):
                names.add(_topic_name(key, value))
        return sorted(name for name in names if name is not None)

    def reset_topics(self, name: str) -> None:
        for topic in self.topics(name):
            self._send(topic_status_key(topic, name), None)
        if self._producer is not None:
            self._producer.flush()

    def _send(self, key: bytes, value: bytes | None) -> None:
        if self._producer is not None:
            self._producer.send(self._topic, value, key)


def _topic_name(key: bytes, value: bytes) -> str | None:
    """None if the record is none of Connect's: it is logged and passed over, as Java's workers do."""
    try:
        name = loads(value)["topic"]["name"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        log.error("record %r of the status topic cannot be read, and is passed over: %s", key, error)
        return None
    return name if isinstance(name, str) else None
