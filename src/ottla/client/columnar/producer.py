"""`ColumnarProducer`: Arrow to topics, with the sending, the retries and the transactions of `Producer`."""

import time
from collections.abc import Iterator, Mapping

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla import errors
from ottla.client.columnar.batches import Encoding, Outcomes, cut
from ottla.client.columnar.partitioning import BadRow, Partitioning, asks_for_more
from ottla.client.core.deliveries import ROW_OVERHEAD_BYTES
from ottla.client.errors import BufferFull
from ottla.client.producer import Producer
from ottla.client.timeouts import Timeout
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.wire import compression

__all__ = ["BadRow", "ColumnarProducer"]

GATHER_BYTES = 4 * 1024 * 1024  # small record batches are put together, so that the broker's are large
GATHER_ROWS = 100_000


class ColumnarProducer(Producer):
    """`write` takes rows with the columns value and, as wanted, key, topic, partition, headers, timestamp.

    Rows are numbered from 0 since the last `flush`; errors name them.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, /, **more: object) -> None:
        super().__init__(settings, **more)
        self._partitioning = Partitioning(turn=hash(self.settings.transactional_id) & 0xFFFF)
        self._gathered: list[tuple[str | None, pa.RecordBatch]] = []
        self._gathered_bytes = self._gathered_rows = 0
        self._number = 0
        self._counted = pa.array([], pa.int64())
        self._outcomes = Outcomes()

    def write(self, rows: pa.RecordBatch, topic: str | None = None) -> None:
        """Queues rows, for `topic` or for the topics in their column. Blocks while the buffer is full."""
        if self._gathered and self._gathered[0][0] != topic:
            self._send_gathered()
        self._gathered.append((topic, rows))
        self._gathered_bytes += rows.nbytes
        self._gathered_rows += rows.num_rows
        if self._gathered_bytes >= GATHER_BYTES or self._gathered_rows >= GATHER_ROWS:
            self._send_gathered()
        self._raise_failure()

    def flush(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        """Waits until all is acknowledged; raises what went wrong, naming the first row of its batch."""
        self._send_gathered()
        super().flush(timeout, timeout_ms=timeout_ms)
        self._number = 0
        self._raise_failure()

    def acknowledged(self) -> dict[TopicPartition, int]:
        """Where partitions ended with the batches acknowledged since the last call; -1: the broker did not say."""
        ends = dict(self._outcomes.ends)
        self._outcomes.ends.clear()
        return ends

    # -- inside ------------------------------------------------------------------------------------

    def _send_gathered(self) -> None:
        if not self._gathered:
            return
        topic, batches = self._gathered[0][0], [rows for _, rows in self._gathered]
        self._forget_gathered()
        rows = batches[0]
        if len(batches) > 1:
            (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0]]
        numbers = self._numbers(rows.num_rows)
        self._check_sizes(rows, numbers)
        for name, part, part_numbers in self._by_topic(topic, rows, numbers):
            self._send_topic(name, part, part_numbers)

    def _numbers(self, count: int) -> pa.Array:
        """Of the next rows. Counted in Python once: that costs more than to encode the rows."""
        if len(self._counted) < count:
            self._counted = pa.array(range(count), pa.int64())
        first, self._number = self._number, self._number + count
        return pc.add(self._counted.slice(0, count), first)

    def _by_topic(
        self, topic: str | None, rows: pa.RecordBatch, numbers: pa.Array
    ) -> Iterator[tuple[str, pa.RecordBatch, pa.Array]]:
        if topic is not None:
            yield topic, rows, numbers
            return
        if "topic" not in rows.schema.names:
            raise BadRow(numbers[0].as_py(), "no topic: give one, or a column topic")
        names = rows.column("topic").cast(pa.string())
        if names.null_count:
            raise BadRow(numbers[pc.index(names.is_null(), True).as_py()].as_py(), "its topic is null")
        for name in pc.unique(names).to_pylist():
            wanted = pc.equal(names, name)
            yield name, rows.filter(wanted), numbers.filter(wanted)

    def _send_topic(self, name: str, rows: pa.RecordBatch, numbers: pa.Array) -> None:
        if not rows.num_rows:
            return
        try:
            known = self._topic(name)
            if asks_for_more(rows, known):  # it may have grown since it was asked for
                self._engine.run(self._cluster.refresh([name]))
                known = self._route(name).topic
        except OttlaError as error:
            raise BadRow(numbers[0].as_py(), f"topic {name} cannot be written: {error}") from error
        settings = self.settings
        encoding = Encoding(
            compression.NAMES.index(settings.compression_type),
            settings.level,
            self._identity.transactional,
            now_ms=int(time.time() * 1000),
            created_ms=int(time.monotonic() * 1000),
        )
        for partition, part, part_numbers in self._partitioning.split(known, rows, numbers):
            where = TopicPartition(name, partition)
            for batch in cut(where, part, part_numbers, encoding, self._outcomes):
                if not self._accumulator.add(batch, settings.max_block_ms):
                    text = f"the buffer stayed full for max.block.ms={settings.max_block_ms}"
                    raise BufferFull(f"{text}: the brokers are slower than this, or away")
                self._wake()

    def _check_sizes(self, rows: pa.RecordBatch, numbers: pa.Array) -> None:
        """A record larger than a request can never be sent: better said at once, with its number."""
        sizes = None
        for name in ("key", "value"):
            if name in rows.schema.names:
                column = rows.column(name).cast(pa.binary())
                lengths = pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())
                sizes = lengths if sizes is None else pc.add(sizes, lengths)
        largest = 0 if sizes is None or not len(sizes) else pc.max(sizes).as_py()
        limit = self.settings.max_request_size
        if largest + ROW_OVERHEAD_BYTES > limit:
            at = pc.index(sizes, largest).as_py()
            text = f"the record takes {largest + ROW_OVERHEAD_BYTES} bytes, max.request.size is {limit}"
            raise BadRow(numbers[at].as_py(), text)

    def _raise_failure(self) -> None:
        if self._outcomes.failures:
            number, partition, error = self._outcomes.failures[0]
            self._outcomes.failures.clear()
            text = error.message if isinstance(error, errors.ProtocolError) else str(error)
            where = "" if str(partition) in text else f"{partition}: "
            raise BadRow(number, f"{where}{text}") from error

    def _drop_gathered(self) -> None:
        self._forget_gathered()
        self._number = 0
        self._outcomes.failures.clear()

    def _forget_gathered(self) -> None:
        self._gathered = []
        self._gathered_bytes = self._gathered_rows = 0
