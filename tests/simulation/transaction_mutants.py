"""Bugs to plant: each takes away one rule of the transaction coordinator or of a partition's gate."""

from dataclasses import replace

from ottla.coordination.shard import Shard
from ottla.coordination.transactions import ending, partitions, producers, transaction
from ottla.coordination.transactions.gate import Gate
from ottla.coordination.transactions.machine import TransactionMachine
from ottla.coordination.transactions.markers import MarkerQueue
from ottla.coordination.transactions.records import TransactionRecords
from ottla.effects import NOTHING, Effects
from tests.simulation.planted import Mutants

MUTANTS = Mutants()
caught_as = MUTANTS.caught_as


@caught_as("has hanging transactions")
def failed_markers_count(patch):
    real = MarkerQueue.on_written
    patch.setattr(
        MarkerQueue, "on_written", lambda self, sent, results: real(self, sent, dict.fromkeys(results, 0))
    )


@caught_as("has hanging transactions|torn:")
def any_report_counts(patch):
    def on_written(self, sent, results):
        writing = self._writing.get(sent.transactional_id)
        return None if writing and writing.missing <= set(results) else NOTHING

    patch.setattr(MarkerQueue, "on_written", on_written)


@caught_as("still waiting: .*Prepare")
def decisions_are_forgotten_at_a_restart(patch):
    patch.setattr(TransactionMachine, "on_loaded", lambda self, now_ms: NOTHING)


@caught_as("still waiting: .*(Prepare|Ongoing)")
def clocks_stand_still_after_a_restart(patch):
    real = TransactionMachine.on_loaded

    def on_loaded(self, now_ms):
        effects = real(self, now_ms)
        return Effects(effects.records, sends=effects.sends)

    patch.setattr(TransactionMachine, "on_loaded", on_loaded)


@caught_as("still waiting: .*Prepare")
def what_the_log_refused_is_forgotten(patch):
    patch.setattr(TransactionMachine, "_sweep", lambda self, now_ms: NOTHING)


@caught_as("torn:")
def time_outs_do_not_fence(patch):
    def fence(old, *, transaction_version, now_ms, ids):
        record = transaction.prepared(
            old, commit=False, epoch=old.producer_epoch, client_version=0, now_ms=now_ms
        )
        return producers.Step(record, -1)

    patch.setattr(producers, "fence", fence)


@caught_as("torn:|aborted read:")
def the_end_keeps_the_epoch(patch):
    def bumped(old, commit, now_ms, ids):
        epoch = old.producer_epoch
        record = transaction.prepared(old, commit=commit, epoch=epoch, client_version=0, now_ms=now_ms)
        return producers.Step(record, -1)

    patch.setattr(ending, "_bumped", bumped)


@caught_as("a record outside of any transaction")
def verifying_always_succeeds(patch):
    patch.setattr(partitions, "verify", lambda known, holder, named: dict.fromkeys(named, 0))


@caught_as("a record outside of any transaction")
def partitions_join_while_markers_are_written(patch):
    def add(old, holder, added, *, version, now_ms):
        return transaction.with_partitions(old, added, client_version=version, now_ms=now_ms)

    patch.setattr(partitions, "add", add)


@caught_as("torn:|lost write:|aborted read:")
def a_zombie_may_end_what_is_not_its_own(patch):
    real = ending.end
    patch.setattr(
        ending,
        "end",
        lambda old, holder, **how: real(old, (old.producer_id, old.producer_epoch), **how),
    )


@caught_as("a record outside of any transaction")
def markers_leave_the_gate_open(patch):
    patch.setattr(Gate, "on_marker", lambda self, producer_id: None)
    patch.setattr(Gate, "on_appended", lambda self, producer_id: None)


@caught_as("still waiting: .*Prepare")
def the_next_epoch_slips_into_an_open_transaction(patch):
    real = Gate.ask
    patch.setattr(
        Gate, "ask", lambda self, who, epoch, at: None if at is not None else real(self, who, epoch, at)
    )
    patch.setattr(Gate, "check", lambda self, who, epoch, at, guard: None)


@caught_as("has hanging transactions")
def an_open_transaction_is_taken_over(patch):
    def take_over(self, old, now_ms):
        return Effects(
            records=(
                transaction.initialized(
                    old, old.producer_id, old.producer_epoch + 1, timeout_ms=old.timeout_ms, now_ms=now_ms
                ),
            )
        )

    patch.setattr(TransactionMachine, "_fence", take_over)


@caught_as("a record outside of any transaction")
def partitions_are_not_logged(patch):
    real = TransactionRecords.decode

    def decode(self, key, value):
        record = real(self, key, value)
        return replace(record, partitions=frozenset())  # type: ignore[arg-type]

    patch.setattr(TransactionRecords, "decode", decode)


@caught_as("torn:|lost write:")
def answers_leave_before_they_are_committed(patch):
    patch.setattr(Shard, "_when_committed", lambda self, action: action())


@caught_as("inconsistent offsets:")
def every_init_gets_the_same_epoch(patch):
    def initialize(old, holder, last_epoch, *, timeout_ms, now_ms, ids):
        epoch = max(old.producer_epoch, 0)
        record = transaction.initialized(old, old.producer_id, epoch, timeout_ms=timeout_ms, now_ms=now_ms)
        return producers.Step(record, -1)

    patch.setattr(producers, "initialize", initialize)
