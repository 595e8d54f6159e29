"""Planted bugs for the simulated world: each breaks one rule, and the check of that rule must say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest import MonkeyPatch

from ottla.broker.transactions.markers import MarkerWriter
from ottla.broker.waits import Wait
from ottla.coordination.groups import membership
from ottla.coordination.groups import records as r
from ottla.coordination.groups.consumer_group import ConsumerGroup
from ottla.coordination.groups.offset_table import OffsetTable
from ottla.coordination.groups.table import GroupTable
from ottla.coordination.shard import Shard
from ottla.coordination.transactions import producers as transactional_producers
from ottla.coordination.transactions.records import TransactionRecords
from ottla.metadata.image import Image
from ottla.replication.partition import Partition
from ottla.storage import recovery
from ottla.storage.log import Log
from ottla.storage.producers import Producers
from ottla.wire import batch as batches
from tests.simulation.planted import Mutants

MUTANTS = Mutants()
caught_as = MUTANTS.caught_as


# -- logs --------------------------------------------------------------------------------------------------


@caught_as("the high watermark falls|the log ends at|was acknowledged at")
def what_is_not_synced_is_acknowledged(patch: MonkeyPatch) -> None:
    def advance(self: Partition) -> None:
        if self.log is not None and self.log.end_offset > self.log.high_watermark:
            self.log.advance_high_watermark(self.log.end_offset)
            self.on_high_watermark()

    patch.setattr(Partition, "advance", advance)


@caught_as("is written twice")
def sequences_are_not_looked_at(patch: MonkeyPatch) -> None:
    patch.setattr(Producers, "check", lambda self, header: None)


@caught_as("a gap at")
def offsets_are_skipped(patch: MonkeyPatch) -> None:
    real = Log.append

    def append(self: Log, *args: Any, **options: Any) -> Any:
        done = real(self, *args, **options)
        if done.next_offset % 7 == 0 and not self.folder.startswith("__"):
            self.end_offset += 1
        return done

    patch.setattr(Log, "append", append)


@caught_as("has changed|saw something else|CRC|checksum")
def a_record_is_not_what_it_was(patch: MonkeyPatch) -> None:
    real = Log.read
    calls = [0]

    def read(self: Log, *args: Any, **options: Any) -> Any:
        taken = real(self, *args, **options)
        calls[0] += 1
        if calls[0] % 50 or not taken.data or self.folder.startswith("__"):
            return taken
        data = bytearray(taken.data)
        data[-2] ^= 1  # the end of the last value: behind it is only the count of headers
        return (
            taken._replace(data=bytes(data))
            if hasattr(taken, "_replace")
            else replace(taken, data=bytes(data))  # type: ignore[type-var]
        )

    patch.setattr(Log, "read", read)


@caught_as("the high watermark falls")
def whoever_does_not_lead_forgets_what_is_committed(patch: MonkeyPatch) -> None:
    real = Partition.on_state

    def on_state(self: Partition, state: Any) -> None:
        real(self, state)
        if not self.is_leader and self.log is not None:
            self.log.high_watermark = self.log.log_start_offset

    patch.setattr(Partition, "on_state", on_state)


@caught_as("above the high watermark")
def consumers_see_what_is_not_committed(patch: MonkeyPatch) -> None:
    patch.setattr(Partition, "visible_end", lambda self, log, read_committed: log.end_offset)


@caught_as("the leader epoch falls")
def a_restart_begins_with_the_first_epoch(patch: MonkeyPatch) -> None:
    real = Image._restart_sole_replicas

    def restart(self: Image, broker_id: int) -> None:
        real(self, broker_id)
        for topic in self.topics.values():
            topic.partitions = [each._replace(leader_epoch=0) for each in topic.partitions]

    patch.setattr(Image, "_restart_sole_replicas", restart)


@caught_as("CRC|checksum|corrupt")
def a_torn_tail_is_believed(patch: MonkeyPatch) -> None:
    patch.setattr(recovery, "check", batches.read_header)


@caught_as("metadata: replay differs")
def a_snapshot_forgets_a_record(patch: MonkeyPatch) -> None:
    real = Image.records
    patch.setattr(Image, "records", lambda self: list(real(self))[1:])


# -- transactions ------------------------------------------------------------------------------------------


@caught_as("is not stable")
def open_transactions_are_stable(patch: MonkeyPatch) -> None:
    patch.setattr(Log, "last_stable_offset", property(lambda self: self.high_watermark))


@caught_as("read_committed saw aborted")
def consumers_are_not_told_what_was_aborted(patch: MonkeyPatch) -> None:
    patch.setattr(Log, "aborted_transactions", lambda self, start, end: [])


@caught_as("waits for ever|never ended")
def a_partition_is_not_told_of_the_end(patch: MonkeyPatch) -> None:
    real = MarkerWriter.write

    def write(self: MarkerWriter, each: Any, markers: Any, settle: Any) -> None:
        if each == ("money", 1):
            settle(each, 0)
        else:
            real(self, each, markers, settle)

    patch.setattr(MarkerWriter, "write", write)


@caught_as("half committed|was committed, b.* is aborted|was aborted, b.* is committed|read_committed saw")
def a_partition_is_told_the_opposite(patch: MonkeyPatch) -> None:
    real = MarkerWriter.write

    def write(self: MarkerWriter, each: Any, markers: Any, settle: Any) -> None:
        told = replace(markers, committed=not markers.committed) if each == ("money", 1) else markers
        real(self, each, told, lambda _, code: settle(each, code))

    patch.setattr(MarkerWriter, "write", write)


@caught_as("transactions: replay differs")
def partitions_of_a_transaction_are_not_read_back(patch: MonkeyPatch) -> None:
    real = TransactionRecords.decode

    def decode(self: TransactionRecords, key: bytes, value: bytes | None) -> Any:
        decoded = real(self, key, value)
        return replace(decoded, partitions=frozenset()) if hasattr(decoded, "partitions") else decoded  # type: ignore[arg-type]

    patch.setattr(TransactionRecords, "decode", decode)


@caught_as("the producer's epoch falls")
def a_producer_that_comes_back_gets_an_old_epoch(patch: MonkeyPatch) -> None:
    real = transactional_producers.initialize

    def initialize(*args: Any, **options: Any) -> Any:
        step = real(*args, **options)
        return replace(step, record=replace(step.record, producer_epoch=0))

    patch.setattr(transactional_producers, "initialize", initialize)


# -- groups ------------------------------------------------------------------------------------------------


@caught_as("two own")
def partitions_of_others_are_given_away(patch: MonkeyPatch) -> None:
    patch.setattr(membership._Others, "__contains__", lambda self, partition: False)


@caught_as("the epoch .*falls")
def a_groups_epoch_goes_back(patch: MonkeyPatch) -> None:
    real = ConsumerGroup.apply

    def apply(self: ConsumerGroup, record: Any) -> None:
        real(self, record)
        if isinstance(record, r.ConsumerGroupMetadata):
            self.epoch %= 5

    patch.setattr(ConsumerGroup, "apply", apply)


@caught_as("an acknowledged commit is gone|replay differs")
def a_restart_forgets_commits(patch: MonkeyPatch) -> None:
    real = GroupTable.on_loaded

    def on_loaded(self: GroupTable, now_ms: int) -> Any:
        self.state.offsets.committed.clear()
        return real(self, now_ms)

    patch.setattr(GroupTable, "on_loaded", on_loaded)


@caught_as("acknowledged that is not there")
def commits_are_acknowledged_and_forgotten(patch: MonkeyPatch) -> None:
    patch.setattr(OffsetTable, "apply", lambda self, record, log_offset, producer: None)


@caught_as("committed offsets: replay differs|an acknowledged commit is gone")
def a_replay_ignores_markers(patch: MonkeyPatch) -> None:
    from ottla.broker.coordinators.shards import LocalShard

    real = LocalShard._replay

    def replay(self: LocalShard, data: Any, position: int, header: batches.BatchHeader) -> None:
        if not header.is_control:
            real(self, data, position, header)

    patch.setattr(LocalShard, "_replay", replay)


# -- everybody ---------------------------------------------------------------------------------------------


@caught_as("waits for ever")
def replies_are_parked_and_left_there(patch: MonkeyPatch) -> None:
    patch.setattr(Shard, "on_committed", lambda self: None)


@caught_as("waits for ever")
def whoever_waits_for_a_leader_is_not_woken(patch: MonkeyPatch) -> None:
    real = Wait.set

    def set_(self: Wait[Any], value: Any) -> None:
        if not isinstance(value, Exception):
            real(self, value)

    patch.setattr(Wait, "set", set_)
