"""Which partition each row goes to: by its own column, by its key as Java hashes it, or sticky."""

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.core.cluster import Topic
from ottla.client.errors import ClientError
from ottla.wire import kernel
from ottla.wire.columns import binary_buffers


class BadRow(ClientError):
    """A row that cannot become a record; the text names it."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"row {number}: {text}")
        self.number = number


def asks_for_more(rows: pa.RecordBatch, topic: Topic) -> bool:
    """Whether a row names a partition that the topic is not known to have."""
    if "partition" not in rows.schema.names:
        return False
    highest = pc.max(rows.column("partition")).as_py()
    return highest is not None and highest >= len(topic.partitions)


class Partitioning:
    """Rows without a key go to one partition a call, and to the next one the next time."""

    def __init__(self, turn: int = 0) -> None:
        self._turn = turn

    def split(
        self, topic: Topic, rows: pa.RecordBatch, numbers: pa.Array
    ) -> Iterator[tuple[int, pa.RecordBatch, pa.Array]]:
        """Partition, its rows in their order, and their numbers."""
        chosen = self._chosen(topic, rows, numbers)
        partitions = sorted(pc.unique(chosen).to_pylist())
        if len(partitions) == 1:
            yield partitions[0], rows, numbers
            return
        # One stable sort and one gather, however many partitions there are.
        order = pc.array_sort_indices(chosen)
        sorted_rows, sorted_numbers = rows.take(order), numbers.take(order)
        counts = {count["values"].as_py(): count["counts"].as_py() for count in pc.value_counts(chosen)}
        first = 0
        for partition in partitions:
            count = counts[partition]
            yield partition, sorted_rows.slice(first, count), sorted_numbers.slice(first, count)
            first += count

    def _chosen(self, topic: Topic, rows: pa.RecordBatch, numbers: pa.Array) -> pa.Array:
        by_key = self._by_key(topic, rows)
        if "partition" not in rows.schema.names:
            return by_key
        asked = rows.column("partition").cast(pa.int32())
        wrong = pc.fill_null(pc.invert(pc.is_in(asked, pa.array(list(topic.partitions), pa.int32()))), False)
        wrong = pc.and_(wrong, asked.is_valid())
        if pc.any(wrong).as_py():
            at = pc.index(wrong, True).as_py()
            text = f"partition {asked[at].as_py()} does not exist, {topic.name} has {len(topic.partitions)}"
            raise BadRow(numbers[at].as_py(), text)
        return pc.coalesce(asked, by_key)

    def _by_key(self, topic: Topic, rows: pa.RecordBatch) -> pa.Array:
        hashed = kernel.partition_column(rows.num_rows, binary_buffers(rows, "key"), len(topic.partitions))
        hashes = pa.Array.from_buffers(pa.int32(), rows.num_rows, [None, pa.py_buffer(hashed)], 0)
        without_key = pc.less(hashes, 0)
        if not pc.any(without_key).as_py():
            return hashes
        able = [p.index for p in topic.partitions.values() if p.leader >= 0] or list(topic.partitions)
        self._turn += 1
        sticky = pa.scalar(sorted(able)[self._turn % len(able)], pa.int32())
        return pc.if_else(without_key, sticky, hashes)
