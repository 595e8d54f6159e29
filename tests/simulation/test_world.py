"""Whole worlds from seeds; and planted bugs, each of which must be noticed for what it is."""

import os
import subprocess
import sys
from functools import partial
from itertools import count

import pytest

from ottla.testing.asking import ask
from ottla.testing.world.ledger import Broken, Entry, Ledger, Truth
from ottla.testing.world.world import World
from ottla.wire import batch as batches
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.simulation.planted import assert_caught
from tests.simulation.world_mutants import MUTANTS

SEEDS = int(os.environ.get("OTTLA_SEEDS", "200"))
CHUNK = 10
SEEDS_FOR_A_MUTANT = 80  # most need one or two; the rarest shows in one world of eight


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_everything_comes_right_whatever_happens(first):
    for seed in range(first, min(first + CHUNK, SEEDS)):
        World(seed).run()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name, monkeypatch):
    assert_caught(MUTANTS[name], monkeypatch, (partial(World, seed) for seed in range(SEEDS_FOR_A_MUTANT)))


def test_a_broken_world_says_how_to_see_it_again(monkeypatch):
    MUTANTS["open_transactions_are_stable"].plant(monkeypatch)
    with pytest.raises(Broken, match=r"seed 3, event \d+, replay with: make sim SEED=3"):
        World(3).run()


def test_a_seed_is_one_world_in_every_process():
    """Whatever order sets have there."""
    runs = [
        subprocess.run(
            [sys.executable, "-m", "ottla.testing.world", "--seed", "5"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def test_what_was_done_before_the_disk_failed_is_taken_note_of_although_the_process_is_useless_after_it():
    """One request, one event: the first partition takes its records, the disk fails under the second."""
    world = next(each for each in map(World, count()) if not each.careful)  # nothing waits for a sync
    world.start()
    world._create_topics()
    written = {("plain", index): f"record {index}".encode() for index in (0, 1)}
    data = [
        PartitionProduceData(index=index, records=batches.build([Record(0, 5, None, value)]))
        for (_, index), value in written.items()
    ]
    request = ProduceRequest(
        acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name="plain", partition_data=data)]
    )
    world.disk.fail("append", path_part="plain-1")
    world.time.call_later(1, lambda: world.drive(ask(world.process.broker, request, 11)))
    world.until(lambda: world.process.is_useless, 1_000, "the disk")
    world.ledger.on_read(("plain", 0), 0, written["plain", 0], read_committed=True)


PRODUCER = 7, 0


def ended(ledger: Ledger, transaction: str, *, fate: str, committed: bool) -> None:
    """Its client was told one thing; what became of its record is another."""
    value = f"{transaction}/0".encode()
    truth = ledger.truths.setdefault(("money", 0), Truth())
    truth.entries.append(Entry(value, 0, PRODUCER[0], fate))
    ledger.on_ended(PRODUCER, transaction, committed, [value])


def test_a_transaction_must_end_as_its_client_was_told_unless_an_end_of_another_one_came_late():
    for late in ("first", "second", None):
        ledger = Ledger()
        ledger.on_begun(PRODUCER, "first")
        ended(ledger, "first", fate="committed", committed=True)
        ledger.on_begun(PRODUCER, "second")
        if late is not None:
            ledger.on_late_end(PRODUCER, late)
        ended(ledger, "second", fate="committed", committed=False)
        if late == "first":
            ledger.check_transactions()
        else:  # its own end, repeated, changes nothing
            with pytest.raises(Broken, match="second was aborted, b'second/0' is committed"):
                ledger.check_transactions()


def test_an_end_that_comes_between_two_transactions_excuses_neither():
    ledger = Ledger()
    ledger.on_begun(PRODUCER, "first")
    ended(ledger, "first", fate="aborted", committed=True)
    ledger.on_late_end(PRODUCER, "zeroth")
    with pytest.raises(Broken, match="first was committed, b'first/0' is aborted"):
        ledger.check_transactions()
