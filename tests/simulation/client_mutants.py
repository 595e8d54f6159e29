"""Planted bugs for our own client: each breaks one promise, and the world must say which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest import MonkeyPatch

from ottla.client.core.accumulator import Queue
from ottla.client.core.chunks import Chunk
from ottla.client.core.deliveries import Batch
from ottla.client.core.fetched import Place
from ottla.client.core.fetcher import Fetcher
from ottla.client.core.sender import Sender
from ottla.client.core.sessions import FetchSession
from ottla.client.errors import ConnectionLost
from ottla.client.values import RecordMetadata, TopicPartition
from ottla.errors import OttlaError
from tests.simulation.planted import Mutants

MUTANTS = Mutants()
caught_as = MUTANTS.caught_as


# -- the producer ------------------------------------------------------------------------------------------


@caught_as("is written twice")
def a_retry_has_a_new_sequence(patch: MonkeyPatch) -> None:
    real = Queue.put_back

    def put_back(self: Queue, batch: Batch) -> None:
        batch.sequence, batch.data = -1, None
        real(self, batch)

    patch.setattr(Queue, "put_back", put_back)


@caught_as("writer-real-.* was acknowledged at")
def what_is_sent_counts_as_acknowledged(patch: MonkeyPatch) -> None:
    """At the offset that follows the batch before it."""
    ends: dict[TopicPartition, int] = {}
    start, done = Sender._start, Sender._done

    def start_and_succeed(self: Sender, node: int, connection: Any, sent: list[tuple[Queue, Batch]]) -> None:
        start(self, node, connection, sent)
        for queue, batch in sent:
            batch.succeed(ends.get(queue.partition, 0), None)

    def remember(self: Sender, queue: Queue, batch: Batch, base_offset: int, time_ms: int | None) -> None:
        ends[queue.partition] = base_offset + len(batch.rows)
        done(self, queue, batch, base_offset, time_ms)

    patch.setattr(Sender, "_start", start_and_succeed)
    patch.setattr(Sender, "_done", remember)


@caught_as("writer-real-.* was acknowledged at")
def a_lost_answer_counts_as_an_acknowledgement(patch: MonkeyPatch) -> None:
    """At the offset that follows the batch before it."""
    ends: dict[TopicPartition, int] = {}
    done, on_error = Sender._done, Sender._on_error

    def remember(self: Sender, queue: Queue, batch: Batch, base_offset: int, time_ms: int | None) -> None:
        ends[queue.partition] = base_offset + len(batch.rows)
        done(self, queue, batch, base_offset, time_ms)

    def succeed(self: Sender, queue: Queue, batch: Batch, error: OttlaError, **options: Any) -> None:
        if isinstance(error, ConnectionLost) and batch in queue.in_flight:
            self._done(queue, batch, ends.get(queue.partition, 0), None)
        else:
            on_error(self, queue, batch, error, **options)

    patch.setattr(Sender, "_done", remember)
    patch.setattr(Sender, "_on_error", succeed)


@caught_as("writer-real-.* was acknowledged at")
def all_records_of_a_batch_get_its_first_offset(patch: MonkeyPatch) -> None:
    real = Batch.metadata

    def metadata(self: Batch, index: int) -> RecordMetadata:
        return real(self, index)._replace(offset=self.base_offset)

    patch.setattr(Batch, "metadata", metadata)


@caught_as(r"waits for ever: .*writer-real-.*\(producers\)")
def a_batch_without_an_answer_is_forgotten(patch: MonkeyPatch) -> None:
    real = Sender._on_error

    def on_error(self: Sender, queue: Queue, batch: Batch, error: OttlaError, **options: Any) -> None:
        if isinstance(error, ConnectionLost) and batch in queue.in_flight:
            queue.in_flight.remove(batch)
        else:
            real(self, queue, batch, error, **options)

    patch.setattr(Sender, "_on_error", on_error)


# -- the consumer ------------------------------------------------------------------------------------------


def _end_moved(patch: MonkeyPatch, by: Callable[[Chunk, int], int]) -> None:
    real = Chunk.end

    def end(self: Chunk) -> tuple[int, int]:
        offset, epoch = real(self)
        return offset + by(self, offset), epoch

    patch.setattr(Chunk, "end", end)


@caught_as("our consumer skipped")
def a_fetch_begins_one_record_too_late(patch: MonkeyPatch) -> None:
    """Never beyond the end: there the position would be reset."""
    _end_moved(patch, lambda chunk, offset: int(offset < chunk.high_watermark))


@caught_as("our consumer got .* again")
def a_fetch_begins_one_record_too_early(patch: MonkeyPatch) -> None:
    _end_moved(patch, lambda chunk, offset: -int(offset > chunk.fetch_offset + 1))


@caught_as("read_committed saw aborted")
def aborted_records_are_handed_out(patch: MonkeyPatch) -> None:
    real = Fetcher._take_in

    def take_in(self: Fetcher, partition: TopicPartition, place: Place, data: Any, fetch_offset: int) -> None:
        data.aborted_transactions = None
        real(self, partition, place, data, fetch_offset)

    patch.setattr(Fetcher, "_take_in", take_in)


@caught_as(r"waits for ever: .*reader-real-.*\(clients\)")
def a_session_outlives_its_broker(patch: MonkeyPatch) -> None:
    patch.setattr(FetchSession, "reset", lambda self: None)
