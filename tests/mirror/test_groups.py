"""A group that changes sides goes on at the right record: none lost, none twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.mirror import formats
from ottla.mirror.journal import Journal, run_records
from ottla.mirror.runs import Run
from ottla.testing import Broker
from tests.mirror.local import copy, link, records, runner, with_offsets


@pytest.fixture
def sides() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        yield source, target


def fill(broker: Any, seed: int = 1, steps: int = 12) -> None:
    """Transactions, some aborted, and plain records: offsets of both sides drift apart."""
    chance = random.Random(seed)
    with (
        Producer(bootstrap_servers=broker.bootstrap, transactional_id="t") as transactional,
        Producer(bootstrap_servers=broker.bootstrap) as plain,
    ):
        transactional.init_transactions()
        for step in range(steps):
            transactional.begin_transaction()
            for i in range(chance.randint(1, 12)):
                transactional.send("in", b"t%d-%d-%d" % (seed, step, i), partition=chance.randint(0, 1))
            transactional.flush()
            transactional.commit_transaction() if chance.random() < 0.7 else transactional.abort_transaction()
            for i in range(chance.randint(0, 12)):
                plain.send("in", b"p%d-%d-%d" % (seed, step, i), partition=chance.randint(0, 1))
            plain.flush()


def test_every_position_is_translated_to_the_very_same_record(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=2)
    with runner(link(source.bootstrap, target.bootstrap, bytes_max=500)) as running:
        for seed in range(4):
            fill(source, seed)
            while running.round():
                pass
        running.driver.keep(whole=True)
        for partition in (0, 1):
            here = with_offsets(source.bootstrap, "in", partition)
            there = with_offsets(target.bootstrap, "A.in", partition)
            end = running.driver.ends[TopicPartition("in", partition)]
            assert len(here) == len(there) > 50
            for position in range(end + 1):
                translated = running.driver.translate(TopicPartition("in", partition), position)
                left_here = [plain for offset, plain in here if offset >= position]
                left_there = [plain for offset, plain in there if offset >= translated]
                assert left_here == left_there, position


def test_positions_are_translated_by_runs_whose_commit_is_still_being_written(
    sides: tuple[Broker, Broker],
) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    chosen, where = link(source.bootstrap, target.bootstrap), TopicPartition("in", 0)
    with (
        runner(chosen) as running,
        Producer(bootstrap_servers=target.bootstrap, transactional_id="late") as late,
    ):
        copy_id = running.driver.survey.pairs["in"].target.id
        late.init_transactions()
        late.begin_transaction()
        for key, value in run_records(where, copy_id, [Run(5, 9, 3)]):
            late.send(chosen.journal, value, key=key, partition=0)
        late.flush()
        committing = threading.Timer(0.3, late.commit_transaction)
        committing.start()
        running.driver.keep(whole=True)
        committing.join()
        assert running.driver.keeper.journal.maps[where, copy_id].translate(6) == 10


def test_a_new_driver_translates_from_what_the_journal_says(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=2)
    chosen = link(source.bootstrap, target.bootstrap, bytes_max=500)
    fill(source)
    copy(chosen)
    with runner(chosen) as running:
        running.driver.keep(whole=True)
        here = with_offsets(source.bootstrap, "in", 0)
        there = with_offsets(target.bootstrap, "A.in", 0)
        for (offset, plain), (copied, same) in zip(here, there, strict=True):
            assert plain == same
            assert running.driver.translate(TopicPartition("in", 0), offset) == copied


def test_what_the_mirror_forgets_costs_a_restarted_one_no_position(sides: tuple[Broker, Broker]) -> None:
    """The source's log start moves into the middle of the runs of one record of the journal."""
    source, target = sides
    source.create_topic("in", partitions=2)
    chosen, where = link(source.bootstrap, target.bootstrap), TopicPartition("in", 0)
    fill(source, steps=30)
    copy(chosen)
    end = with_offsets(source.bootstrap, "in", 0)[-1][0] + 1
    log_start = end // 2
    with runner(chosen) as running, Admin(bootstrap_servers=source.bootstrap) as admin:
        running.driver.keep(whole=True)
        expected = [running.driver.translate(where, offset) for offset in range(log_start, end)]
        admin.delete_records({where: log_start})
        running.driver.keep(whole=True)
        copy_id = running.driver.survey.pairs["in"].target.id
    journal = Journal()
    latest = {key: value for key, value, _, _ in records(target.bootstrap, chosen.journal, 0)}
    for key, value in latest.items():  # as compaction leaves it
        if key is not None and value is not None:
            journal.apply(key, value)
    assert [journal.maps[where, copy_id].translate(offset) for offset in range(log_start, end)] == expected


def test_a_consumer_that_changes_sides_reads_each_record_once(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=2)
    read: list[bytes] = []
    with runner(link(source.bootstrap, target.bootstrap, sync_groups_s=0)) as running:
        fill(source, 1)
        with consumer(source, "in") as here:
            read += take(here, 20)
            fill(source, 2)  # the mirror runs, the consumer too
            running.round()
            read += take(here, 15)
            running.round()
        running.driver.keep(whole=True)
    everything = [r[1] for partition in (0, 1) for r in records(source.bootstrap, "in", partition)]
    with consumer(target, "A.in") as there:
        read += take(there, len(everything) - len(read))
        read += [record.value for record in there.poll(1.0)]
    assert sorted(read) == sorted(everything)


def test_a_group_that_is_active_at_the_target_is_left_alone(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    for i in range(20):
        source.send("in", f"v{i}")
    chosen = link(source.bootstrap, target.bootstrap)
    copy(chosen)
    where, place = TopicPartition("in", 0), TopicPartition("A.in", 0)
    with Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.alter_group_offsets("g", {where: OffsetAndMetadata(5)})
    with consumer(target, "A.in") as there:
        assert len(take(there, 15)) >= 15
        copy(chosen)
        there.commit()
    with Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.alter_group_offsets("g", {where: OffsetAndMetadata(6)})
    copy(chosen)
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        assert admin.group_offsets("g")[place].offset >= 15  # never back to 6


def test_checkpoints_and_offset_syncs_are_in_mirrormakers_bytes(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    source.create_topic("in", partitions=1)
    for i in range(20):
        source.send("in", f"v{i}")
    with Admin(bootstrap_servers=source.bootstrap) as admin:
        admin.alter_group_offsets("g", {TopicPartition("in", 0): OffsetAndMetadata(7, "mark")})
    copy(link(source.bootstrap, target.bootstrap, emit_heartbeats=True))
    key, value, _, _ = records(target.bootstrap, "A.checkpoints.internal", 0)[-1]
    assert formats.read_checkpoint(key, value) == ("g", TopicPartition("A.in", 0), 7, 7, "mark")
    syncs = [
        formats.read_offset_sync(key, value)
        for key, value, _, _ in records(source.bootstrap, "mm2-offset-syncs.B.internal", 0)
    ]
    assert (TopicPartition("in", 0), 0, 0) in syncs
    key, value, _, _ = records(target.bootstrap, "heartbeats", 0)[-1]
    assert formats.read_heartbeat(key, value)[:2] == ("A", "B")


def consumer(broker: Broker, topic: str) -> Consumer:
    found = Consumer(
        bootstrap_servers=broker.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=5,
    )
    found.subscribe([topic])
    return found


def take(found: Consumer, count: int) -> list[bytes]:
    """At least so many records, committed."""
    read: list[bytes] = []
    deadline = time.monotonic() + 120
    while len(read) < count:
        assert time.monotonic() < deadline, f"only {len(read)} of {count} records came"
        read += [record.value for record in found.poll(0.2)]
    found.commit()
    return read
