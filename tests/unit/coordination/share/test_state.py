"""The share coordinator: epochs fence, updates add up to the same as snapshots, bytes are Kafka's."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla import errors
from ottla.coordination.share.codec import ShareCodec
from ottla.coordination.share.records import (
    ACKNOWLEDGED,
    AVAILABLE,
    Batch,
    ShareKey,
    ShareSnapshot,
    ShareState,
    ShareUpdate,
)
from ottla.coordination.share.state import ShareStates, combined
from ottla.effects import Token

KEY = ShareKey("g", bytes(range(16)), 3)


def carried_out(machine, effects):
    for record in effects.records:
        key, value = ShareCodec().encode(record)
        machine.apply(ShareCodec().decode(key, value), 0, None)
    return effects


def begun(updates_max=500):
    machine = ShareStates(updates_max)
    carried_out(machine, machine.on_initialize(KEY, 0, 10, Token(), 5))
    return machine


def write(machine, start, *batches, leader_epoch=1, state_epoch=0):
    return carried_out(
        machine, machine.on_write(KEY, state_epoch, leader_epoch, start, 0, batches, Token(), 7)
    )


def test_what_was_written_is_read_by_the_next_leader():
    machine = begun()
    write(machine, 10, Batch(12, 13, ACKNOWLEDGED, 1), Batch(10, 11, AVAILABLE, 2))
    write(machine, 12)
    (reply,) = carried_out(machine, machine.on_read(KEY, 2, Token(), 9)).replies
    assert (reply.answer.start_offset, reply.answer.batches) == (12, (Batch(12, 13, ACKNOWLEDGED, 1),))


def test_an_older_leader_and_an_older_state_are_fenced():
    machine = begun()
    carried_out(machine, machine.on_read(KEY, 5, Token(), 9))
    with pytest.raises(errors.FencedLeaderEpoch):
        write(machine, 11, leader_epoch=4)
    carried_out(machine, machine.on_initialize(KEY, 1, 0, Token(), 9))
    with pytest.raises(errors.FencedStateEpoch):
        write(machine, 11, leader_epoch=5)
    with pytest.raises(errors.FencedStateEpoch):
        machine.on_initialize(KEY, 0, 0, Token(), 9)


def test_a_write_that_was_overtaken_does_not_take_the_start_back():
    machine = begun()
    write(machine, 14)
    write(machine, 12, Batch(15, 15, ACKNOWLEDGED, 1))
    assert machine.state_of(KEY).start_offset == 14


def test_a_state_that_was_deleted_takes_no_writes():
    machine = begun()
    carried_out(machine, machine.on_delete([KEY], Token()))
    with pytest.raises(errors.UnknownTopicOrPartition):
        write(machine, 11)


def test_after_many_updates_the_next_is_a_snapshot_of_the_same_state():
    often, seldom = begun(updates_max=2), begun()
    kinds = []
    for offset in range(10, 17):
        for machine in (often, seldom):
            effects = write(machine, offset, Batch(offset, offset + 3, ACKNOWLEDGED, 1))
            if machine is often:
                kinds.append(type(effects.records[0]).__name__)
    assert kinds.count("ShareSnapshot") == 2
    assert often.state_of(KEY).batches == seldom.state_of(KEY).batches
    assert often.state_of(KEY).start_offset == seldom.state_of(KEY).start_offset


BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: Batch(first, first + length, state, count),
        st.integers(0, 30),
        st.integers(0, 6),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, 4]),
        st.integers(0, 3),
    ),
    max_size=5,
)


@given(old=BATCHES, new=BATCHES, start=st.integers(0, 30))
def test_combined_batches_say_of_each_offset_what_was_said_last(old, new, start):
    expected = {}
    for batch in [*old, *new]:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            expected[offset] = (batch.state, batch.delivery_count)
    expected = {offset: said for offset, said in expected.items() if offset >= start}
    result = combined(combined((), tuple(old), 0), tuple(new), start)
    told = {
        offset: (batch.state, batch.delivery_count)
        for batch in result
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert told == expected
    assert list(result) == sorted(result, key=lambda batch: batch.first_offset)


@given(
    epochs=st.tuples(*[st.integers(0, 2**31 - 1)] * 3),
    start=st.integers(-1, 2**62),
    complete=st.integers(-1, 1000),
    batches=BATCHES,
)
def test_records_survive_their_bytes(epochs, start, complete, batches):
    codec = ShareCodec()
    for record in (
        ShareSnapshot(
            KEY, ShareState(epochs[0], epochs[1], epochs[2], start, complete, 11, 12, tuple(batches))
        ),
        ShareSnapshot(KEY, None),
        ShareUpdate(KEY, epochs[0], epochs[1], start, complete, tuple(batches)),
    ):
        assert codec.decode(*codec.encode(record)) == record


@pytest.mark.oracle
def test_apache_kafka_reads_our_records_and_writes_the_same_bytes(kafkas_serializer):
    """Without delays and dead letters, which Kafka's records do not have."""
    lines = []

    @settings(max_examples=60)
    @given(st.integers(0, 2**31 - 1), st.integers(-1, 2**62), st.integers(-1, 1000), BATCHES)
    def draw(epoch, start, complete, batches):
        every = tuple(batches)
        state = ShareState(epoch, epoch // 2, epoch // 3, start, complete, 11, 12, every)
        update = ShareUpdate(KEY, epoch, epoch // 2, start, complete, every)
        for record in (ShareSnapshot(KEY, state), update, ShareSnapshot(KEY, None)):
            key, value = ShareCodec().encode(record)
            lines.append(f"{key.hex()} {'-' if value is None else value.hex()}")

    draw()
    assert len(lines) >= 100
    for sent, answer in zip(lines, kafkas_serializer("share", lines), strict=True):
        assert answer == sent


def test_only_what_no_state_needs_is_pruned_and_resting_states_get_a_snapshot():
    machine, log = ShareStates(), []

    def carry_out(effects):
        for record in effects.records:
            machine.apply(record, len(log), None)
            log.append(record)
        return effects.replies[0].answer

    other = ShareKey("h", bytes(16), 0)
    for key in (KEY, other):
        carry_out(machine.on_initialize(key, 0, 10, Token(), 5))
    for offset in range(10, 14):
        carry_out(machine.on_write(KEY, 0, 0, 10, 0, (Batch(offset, offset, ACKNOWLEDGED, 1),), Token(), 7))
    assert carry_out(machine.on_prune(Token(), 8)) == 0 and len(log) == 6  # busy so far
    assert carry_out(machine.on_prune(Token(), 9)) == 0 and isinstance(log[6], ShareSnapshot)
    low = carry_out(machine.on_prune(Token(), 10))
    assert low == 1  # the other state's snapshot, which has no updates
    again = ShareStates()
    for offset, record in enumerate(log[low:], low):
        again.apply(record, offset, None)
    assert again.state_of(other) == machine.state_of(other)
    assert again.state_of(KEY).batches == (Batch(10, 13, ACKNOWLEDGED, 1),)


@pytest.mark.parametrize(
    "batch",
    [
        Batch(12, 11, ACKNOWLEDGED, 1),
        Batch(-1, 11, ACKNOWLEDGED, 1),
        Batch(12, 12, 1, 1),
        Batch(12, 12, AVAILABLE, -1),
        Batch(12, 12, AVAILABLE, 1, -5),
        Batch(12, 12, AVAILABLE, 1, 0, 9),
    ],
)
def test_a_batch_that_cannot_be_is_not_written(batch):
    with pytest.raises(errors.InvalidRequest):
        write(begun(), 10, batch)


def test_very_many_batches_are_laid_over_a_state_as_one_after_the_other():
    chance = random.Random(1)
    batches = []
    for _ in range(300):
        first = chance.randrange(500)
        batches.append(
            Batch(first, first + chance.randrange(20), chance.choice((0, 2, 4)), chance.randrange(3))
        )
    one_by_one = combined((), (), 0)
    for batch in batches:
        one_by_one = combined(one_by_one, (batch,), 50)
    at_once = combined(combined((), tuple(batches[:150]), 50), tuple(batches[150:]), 50)
    assert said(at_once) == said(one_by_one)


def said(batches):
    """Of each offset."""
    return {
        offset: (batch.state, batch.delivery_count)
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
