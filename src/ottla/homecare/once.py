"""One Kafka transaction for each micro-batch: results, state, how far was read and the batch's number, or none of it.

A driver may die anywhere. Spark then gives the same micro-batch again, and the number tells whether it is done. The
transactional id belongs to one driver: whoever opens it next ends what the last one left and shuts it out, so a
driver that was thought dead cannot write any more. As the positions are in the same transaction, a lost checkpoint
costs nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.columnar import ColumnarProducer
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.homecare.pieces import join, split
from ottla.homecare.reading import latest

Positions = dict[tuple[str, int], int]
Writes = Sequence[tuple[str, pa.RecordBatch]]


class Once:
    """`open` first; then `commit` for every micro-batch that `is_done` does not know."""

    def __init__(self, bootstrap: str, name: str, state_topic: str) -> None:
        self._bootstrap, self._state_topic = bootstrap, state_topic
        self._group = f"homecare-{name}"
        self._producer = ColumnarProducer(
            bootstrap_servers=bootstrap,
            transactional_id=self._group,
            linger_ms=0,
            default_api_timeout_ms=30_000,
            delivery_timeout_ms=30_000,
        )
        self._marker: OffsetAndMetadata | None = None

    def open(self) -> dict[str, bytes]:
        """Shuts out whoever had it before; gives the state as it was committed last."""
        self._producer.take_over()
        self._marker = self._producer.committed(self._group, self._state_topic, 0)
        return join(latest(self._bootstrap, self._state_topic))

    def positions(self, partitions: Iterable[tuple[str, int]]) -> Positions:
        """How far the committed micro-batches have read."""
        found: Positions = {}
        for topic, partition in partitions:
            told = self._producer.committed(self._group, topic, partition)
            if told is not None:
                found[topic, partition] = told.offset
        return found

    def is_done(self, query: str, batch: int) -> bool:
        """The number counts only for the query that gave it: a new checkpoint counts from 0 again."""
        return self._marker is not None and self._marker.metadata == query and self._marker.offset > batch

    def commit(
        self,
        query: str,
        batch: int,
        writes: Writes,
        state: Iterable[tuple[str, bytes]],
        positions: Mapping[tuple[str, int], int],
    ) -> None:
        for topic, rows in writes:
            if rows.num_rows:
                self._producer.write(rows, topic)
        saved = split(state)
        if saved:
            columns: list[Any] = [
                pa.array(list(saved), pa.string()),
                pa.array(list(saved.values()), pa.binary()),
            ]
            self._producer.write(
                pa.RecordBatch.from_arrays(columns, names=["key", "value"]), self._state_topic
            )
        self._producer.flush()
        marker = OffsetAndMetadata(batch + 1, query)
        offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
            TopicPartition(self._state_topic, 0): marker,
            **{TopicPartition(*where): offset for where, offset in positions.items()},
        }
        self._producer.send_offsets_to_transaction(offsets, self._group)
        self._producer.commit_transaction()
        self._marker = marker
        self._producer.begin_transaction()

    def close(self) -> None:
        """Whatever is open stays uncommitted; whoever opens it next ends it."""
        self._producer.close(0)
