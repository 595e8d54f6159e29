"""Transaction log records. The bytes are from logs that Apache Kafka 4.3.1 wrote."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordination.transactions.records import TransactionRecords
from ottla.coordination.transactions.transaction import Forgotten, State, Transaction
from ottla.errors import ProtocolError

KEY = "0000000b6231373934373936303432"
PT, PT_1, OFFSETS = ("pt", 0), ("pt", 1), ("__consumer_offsets", 42)

FROM_KAFKA = [
    (
        "0001000000000000000400000000ea600000000001a1e22e3749ffffffffffffffff0100080000000000000004",
        Transaction("b1794796042", 4, 0, 4, -1, 60_000, State.EMPTY, frozenset(), -1, 1794796042057),
    ),
    (
        "0001000000000000000400040000ea600301000001a1e22e37a2000001a1e22e37a2020008000000000000000402020002",
        Transaction(
            "b1794796042",
            4,
            4,
            4,
            -1,
            60_000,
            State.PREPARE_ABORT,
            frozenset(),
            1794796042146,
            1794796042146,
            2,
        ),
    ),
    (
        "0001000000000000000400050000ea600202037074020000000000000001a1e22e38d7000001a1e22e38d402000800000000"
        "0000000402020002",
        Transaction(
            *("b1794796042", 4, 5, 4, -1, 60_000, State.PREPARE_COMMIT),
            *(frozenset({PT}), 1794796042452, 1794796042455, 2),
        ),
    ),
    (
        "0001000000000000000400040000ea600401000001a1e22e3888000001a1e22e38400100080000000000000004",
        Transaction(
            "b1794796042",
            4,
            4,
            4,
            -1,
            60_000,
            State.COMPLETE_COMMIT,
            frozenset(),
            1794796042304,
            1794796042376,
        ),
    ),
]

# Apache Kafka writes topics and partitions in the order of its hash tables; ours are sorted.
FROM_KAFKA_UNORDERED = (
    "0001000000000000000400040000ea60010303707403000000010000000000135f5f636f6e73756d65725f6f666673657473020000"
    "002a00000001a1e22e384f000001a1e22e38400100080000000000000004"
)
ROTATING = (
    "000100000000000000047fff0000ea6002020474776f03000000000000000100000001a1e2303074000001a1e2302b8f0300080000"
    "0000000000040108000000000000000502020002"
)


@pytest.mark.parametrize(("value", "transaction"), FROM_KAFKA)
def test_values_are_apache_kafkas_bytes(value, transaction):
    codec = TransactionRecords()
    assert codec.encode(transaction) == (bytes.fromhex(KEY), bytes.fromhex(value))
    assert codec.decode(bytes.fromhex(KEY), bytes.fromhex(value)) == transaction


def test_partitions_are_read_in_any_order():
    read = TransactionRecords().decode(bytes.fromhex(KEY), bytes.fromhex(FROM_KAFKA_UNORDERED))
    assert isinstance(read, Transaction)
    assert read.partitions == {PT, PT_1, OFFSETS}


def test_a_producer_id_in_waiting_is_kept():
    key = bytes.fromhex("0000000f6f7666313739343739363134382d30")
    codec = TransactionRecords()
    read = codec.decode(key, bytes.fromhex(ROTATING))
    assert isinstance(read, Transaction)
    assert (read.producer_id, read.producer_epoch, read.next_producer_id) == (4, 32767, 5)
    assert codec.encode(read) == (key, bytes.fromhex(ROTATING))


def test_a_tombstone_forgets_the_id():
    codec = TransactionRecords()
    assert codec.encode(Forgotten("b1794796042")) == (bytes.fromhex(KEY), None)
    assert codec.decode(bytes.fromhex(KEY), None) == Forgotten("b1794796042")


def test_before_flexible_records_what_they_alone_can_say_is_left_out():
    transaction = FROM_KAFKA[2][1]
    codec = TransactionRecords(transaction_version=0)
    key, value = codec.encode(transaction)
    assert value is not None
    assert value[:2] == b"\0\0"
    plain = dataclasses.replace(transaction, previous_producer_id=-1, client_version=0)
    assert codec.decode(key, value) == plain
    assert TransactionRecords().decode(key, value) == plain


def test_keys_of_a_later_kind_are_ignored():
    assert TransactionRecords().decode(b"\0\x07whatever", b"\0\1") is None


@pytest.mark.parametrize("value", ["", "00", "0002", "0001", FROM_KAFKA[0][0][:-2]])
def test_broken_values_are_refused(value):
    with pytest.raises(ProtocolError):
        TransactionRecords().decode(bytes.fromhex(KEY), bytes.fromhex(value))


def test_an_unknown_state_is_refused():
    value = bytearray.fromhex(FROM_KAFKA[0][0])
    value[16] = 9
    with pytest.raises(ProtocolError, match="state 9"):
        TransactionRecords().decode(bytes.fromhex(KEY), bytes(value))


partitions = st.frozensets(st.tuples(st.text("abc.-_", min_size=1), st.integers(0, 2**31 - 1)), max_size=5)


@given(
    transactional_id=st.text(min_size=1),
    numbers=st.tuples(
        st.integers(0, 2**63 - 1), st.integers(0, 32767), st.integers(-1, 9), st.integers(-1, 9)
    ),
    state=st.sampled_from(State),
    partitions=partitions,
    times=st.tuples(st.integers(-1, 2**62), st.integers(-1, 2**62)),
    client_version=st.integers(0, 2),
)
def test_what_is_written_is_read_back(transactional_id, numbers, state, partitions, times, client_version):
    if state is State.EMPTY:
        partitions = frozenset()
    transaction = Transaction(  # type: ignore[call-arg, misc]
        transactional_id, *numbers, 60_000, state, partitions, *times, client_version=client_version
    )
    codec = TransactionRecords()
    assert codec.decode(*codec.encode(transaction)) == transaction
