"""Two brokers and a link between them, in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ottla.client import Admin, Consumer
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.ranges import Range
from ottla.client.values import TopicPartition
from ottla.mirror.link import Link
from ottla.mirror.local import LocalRunner
from ottla.testing import Broker
from ottla.wire.batch import HEADER_BYTES, BatchHeader


def link(source: str, target: str, **more: Any) -> Link:
    values: dict[str, Any] = {"topics": ("in.*",), "emit_heartbeats": False, **more}
    return Link("A", "B", {"bootstrap.servers": source}, {"bootstrap.servers": target}, **values)


@contextlib.contextmanager
def runner(link: Link) -> Iterator[LocalRunner]:
    running = LocalRunner(link)
    try:
        running.start()
        yield running
    finally:
        running.close()


def copy(link: Link) -> None:
    with runner(link) as running:
        running.run_once()


Plain = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]


def records(bootstrap: str, topic: str, partition: int) -> list[Plain]:
    """Everything a reader of committed records sees, in order."""
    return [told for _, told in with_offsets(bootstrap, topic, partition)]


def with_offsets(bootstrap: str, topic: str, partition: int, begin: int = 0) -> list[tuple[int, Plain]]:
    where = TopicPartition(topic, partition)
    settings = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    found: list[tuple[int, Plain]] = []
    with Consumer(settings) as consumer:
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        consumer.seek(where, begin)
        while consumer.position(where) < end:
            for record in consumer.poll(1.0):
                plain = (record.key, record.value, record.timestamp, tuple(record.headers))
                found.append((record.offset, plain))
    return found


def raw(broker: Broker, topic: str, partition: int = 0) -> list[tuple[BatchHeader, bytes]]:
    """The headers and bodies of all batches with records, as the broker sends them."""
    where = TopicPartition(topic, partition)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        end = admin.list_offsets({where: -1})[where].offset
    with ColumnarReader(bootstrap_servers=broker.bootstrap) as reader:
        return [
            (header, bytes(data[HEADER_BYTES:]))
            for chunks in reader.read_chunks([Range(*where, 0, end)])
            for chunk in chunks
            for header, data in chunk.batches()
        ]
