"""The writers behind `df.write` and `writeStream`: workers write, the driver commits."""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.taskcontext import TaskContext

from ottla.client.exactly_once import Marker, group_of, is_written
from ottla.spark.errors import ContinuousTrigger
from ottla.spark.markers import TaskMarker, first_marker, judge
from ottla.spark.options import WriteOptions
from ottla.spark.plain import told_plainly
from ottla.spark.record_schema import columns

TRANSACTION_TIMEOUT_MS = 900_000  # as long as a broker allows unless it is told otherwise
BUFFER_BYTES = 8 << 20
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
Encoding = tuple[str, int, str]  # how values are written: type, id and text of their schema


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task hands to the driver: how much it wrote, and the transaction that is still open."""

    task: int
    rows: int
    transaction: tuple[str, tuple[int, int], int] | None = None  # see commits.Open
    query: str = ""
    marker: Marker | None = None


def client_settings(options: WriteOptions) -> dict[str, Any]:
    asked = options.client.get("max.request.size", "")
    request_bytes = int(asked) if asked.isdecimal() else 0  # the client names what is wrong with it
    return {
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "linger.ms": 0,
        # Enough for what is on its way. More would only let every worker grow: Spark waits as well as the producer.
        "buffer.memory": max(BUFFER_BYTES, 4 * request_bytes),
        **options.client,
    }


class StreamWriter(DataSourceStreamArrowWriter):
    """Exactly once unless the options say otherwise: docs/spark.md tells how, and what that promises."""

    def __init__(self, options: WriteOptions, schema: Any) -> None:
        self._columns = columns(schema, options.topic, encoded=options.registered is not None)
        self._encoding = _encoding(options, schema)
        self._options = options

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Written:
        context = _context()
        rows = _picked(iterator, self._columns, self._encoding)
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if not self._options.exactly_once:
            return write_plainly(self._options, rows, context.partitionId())
        if query is None or batch is None:
            raise RuntimeError("Spark does not tell the micro-batch; write with guarantee=at-least-once")
        return write_once(self._options, rows, context.partitionId(), query, int(batch))

    @told_plainly
    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        if None in messages:
            raise ContinuousTrigger(
                "trigger(continuous=...) loses all rows: Spark hands none to a sink in Python. Stop the query, and "
                "start it with trigger(processingTime=...) and a new checkpoint"
            )
        if self._options.exactly_once:
            commit_micro_batch(self._options, messages, batchId)

    @told_plainly
    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        abort_transactions(self._options, messages)


class BatchWriter(DataSourceArrowWriter):
    """At least once, or with `guarantee=exactly-once` all rows in transactions that are committed together; inside
    `foreachBatch`, with the query's id and the micro-batch's number, as a stream writes."""

    def __init__(self, options: WriteOptions, schema: Any) -> None:
        self._columns = columns(schema, options.topic, encoded=options.registered is not None)
        self._encoding = _encoding(options, schema)
        self._options = options
        self._job = options.query or uuid.uuid4().hex

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Written:
        task, rows = _context().partitionId(), _picked(iterator, self._columns, self._encoding)
        if not self._options.exactly_once:
            return write_plainly(self._options, rows, task)
        return write_once(self._options, rows, task, self._job, self._options.batch)

    @told_plainly
    def commit(self, messages: Sequence[Any]) -> None:
        if self._options.batch is not None:
            commit_micro_batch(self._options, messages, self._options.batch)
        elif self._options.exactly_once:
            end_transactions(self._options, [message for message in messages if message is not None], None)

    @told_plainly
    def abort(self, messages: Sequence[Any]) -> None:
        abort_transactions(self._options, messages)


def _encoding(options: WriteOptions, schema: Any) -> Encoding | None:
    """In the driver: the schema of the values is registered before anything is written."""
    if options.registered is None:
        return None
    from ottla.spark.registry_writing import registered_id

    return options.registered.schema_type, *registered_id(options.registered, schema)


def _picked(rows: Iterator[Any], names: Sequence[str], encoding: Encoding | None) -> Iterator[Any]:
    """Only the columns of a record: the others need not be copied."""
    encode = None
    if encoding is not None:
        from ottla.spark.registry_writing import ValueEncoder

        encode = ValueEncoder(*encoding)
    for batch in rows:
        picked = batch.select(names)
        yield picked if encode is None else encode(picked)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only Spark's workers write"
    return context


# -- in a worker -----------------------------------------------------------------------------------


def write_plainly(options: WriteOptions, rows: Iterator[Any], task: int) -> Written:
    """Idempotent: what the client sends again is there once; what Spark does again is there twice."""
    from ottla.spark import clients, garbage

    producer = clients.producer(client_settings(options))
    garbage.freeze()
    try:
        count = _write(producer, rows, options.topic)
        producer.flush()
    except BaseException:
        clients.dropped(producer)
        raise
    return Written(task, count)


def write_once(
    options: WriteOptions, rows: Iterator[Any], task: int, query: str, batch: int | None
) -> Written:
    """Writes in a transaction and leaves it open for the driver. `batch` None: there is no replay to know."""
    from ottla.spark import clients, garbage

    transactional_id = _transactional_id(options, query, task)
    owner = clients.transaction_owner({**client_settings(options), "transactional.id": transactional_id})
    garbage.freeze()
    try:
        # First fence the previous attempt: from then on nobody else can change the marker.
        taken_over = owner.take_over(ended_elsewhere=True)
        began_ms = int(time.time() * 1000)
        marker = None if batch is None else owner.marker(group_of(transactional_id), options.marker_topic)
        if batch is not None and batch != options.assume_not_written and is_written(marker, query, batch):
            for _ in rows:
                pass  # Spark wants its rows taken
            return Written(task, 0, None, query, marker)
        count = _write(owner, _in_time(rows, began_ms, owner), options.topic)
        owner.flush()
    except BaseException:
        _give_up(owner)
        raise
    return Written(task, count, (transactional_id, taken_over.producer, began_ms), query, marker)


def _transactional_id(options: WriteOptions, query: str, task: int) -> str:
    return f"{options.prefix}-{query}-{task}"


def _write(producer: Any, rows: Iterator[Any], topic: str | None) -> int:
    count = 0
    for batch in rows:
        count += batch.num_rows
        producer.write(batch, topic)
    return count


def _in_time(rows: Iterator[Any], began_ms: int, producer: Any) -> Iterator[Any]:
    from ottla.spark.commits import timed_out

    limit_ms = producer.settings.transaction_timeout_ms
    for batch in rows:
        took_ms = time.time() * 1000 - began_ms
        if took_ms >= limit_ms:
            raise timed_out(took_ms, limit_ms)
        yield batch


def _give_up(producer: Any) -> None:
    from ottla.errors import OttlaError
    from ottla.spark import clients

    try:
        producer.abort()
    except OttlaError:
        pass  # fenced, or the broker is away: the next attempt sees to it
    finally:
        clients.dropped(producer)


# -- in the driver ---------------------------------------------------------------------------------


def commit_micro_batch(options: WriteOptions, messages: Sequence[Written | None], batch: int) -> None:
    """Judges the markers that the tasks found; then ends their transactions with new ones."""
    written = [message for message in messages if message is not None]
    if not written:
        return
    query = written[0].query
    written.sort(key=lambda message: message.task)
    markers = [TaskMarker(message.task, message.marker) for message in written]
    try:
        judge(markers, query, batch, options.assume_not_written)
        _end_former_tasks(options, query, first_marker(markers), len(written))
    except Exception:
        abort_transactions(options, messages)
        raise
    end_transactions(options, written, Marker(batch + 1, query, len(written)))


def _end_former_tasks(options: WriteOptions, query: str, first: Marker | None, tasks: int) -> None:
    """Tasks that the micro-batch no longer has may have left transactions open, if this is not its first attempt."""
    if first is not None and first.tasks > tasks:
        former = [_transactional_id(options, query, task) for task in range(tasks, first.tasks)]
        _committer(options).take_over(former)


def end_transactions(options: WriteOptions, written: Sequence[Written], marker: Marker | None) -> None:
    from ottla.spark.commits import Open

    open_transactions = [Open(*message.transaction) for message in written if message.transaction is not None]
    if open_transactions:
        _committer(options).commit(open_transactions, marker, options.marker_topic)


def abort_transactions(options: WriteOptions, messages: Sequence[Written | None]) -> None:
    from ottla.spark.commits import Open

    open_transactions = [
        Open(*message.transaction)
        for message in messages
        if message is not None and message.transaction is not None
    ]
    if open_transactions:
        _committer(options).abort(open_transactions)


def _committer(options: WriteOptions) -> Any:
    from ottla.spark import clients
    from ottla.spark.commits import Committer

    return clients.cached(Committer, client_settings(options))
