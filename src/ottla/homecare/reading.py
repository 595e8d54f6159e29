"""Whole topics as they are now, for those who begin: states, totals, results."""

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.columnar import ColumnarReader, Range
from ottla.client.consumer import Consumer
from ottla.client.values import TopicPartition
from ottla.homecare.client import Client

Ends = dict[TopicPartition, int]


def edges(client: Client, topic: str) -> tuple[Ends, Ends]:
    """Where the topic's partitions begin and end, for who reads committed records only."""
    with Consumer(client, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, index) for index in consumer.partitions_for(topic)]
        return consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)


def read(client: Client, topic: str, start: Ends | None = None) -> Iterator[pa.RecordBatch]:
    """All committed records from the beginning (or `start`) to the end as it is now."""
    begins, ends = edges(client, topic)
    begins |= {where: at for where, at in (start or {}).items() if at > begins.get(where, 0)}
    yield from read_ranges(client, begins, ends)


def read_ranges(client: Client, begins: Ends, ends: Ends) -> Iterator[pa.RecordBatch]:
    ranges = [Range(*where, begins[where], end) for where, end in ends.items() if end > begins[where]]
    with ColumnarReader(client) as reader:
        yield from reader.read(ranges)


def latest(client: Client, topic: str) -> dict[str, bytes]:
    """The latest value of each key of a compacted topic; what was deleted is left out."""
    latest_values: dict[str, bytes] = {}
    for rows in read(client, topic):
        for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
            if value is None:
                latest_values.pop(key.decode(), None)
            else:
                latest_values[key.decode()] = value
    return latest_values
