"""The decoder of pgoutput gives back what was encoded, and refuses everything else with a sentence."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.postgres import pgoutput
from ottla.connect.postgres.pgoutput import UNCHANGED, MalformedMessage, decode

names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)
oids = st.integers(0, 2**32 - 1)
lsns = st.integers(0, 2**63 - 1)
times = st.integers(946_684_800_000_000, 2**53)
values = st.one_of(st.none(), st.just(UNCHANGED), st.text(st.characters(codec="utf-8")))
rows = st.lists(values, max_size=8)
columns = st.builds(pgoutput.Column, names, oids, st.integers(-1, 2**31 - 1), st.booleans())
messages = st.one_of(
    st.builds(pgoutput.Begin, lsns, times, oids),
    st.builds(pgoutput.Commit, lsns, lsns, times),
    st.builds(pgoutput.Insert, oids, rows),
    st.builds(pgoutput.Update, oids, st.none(), st.just(False), rows),
    st.builds(pgoutput.Update, oids, rows, st.booleans(), rows),
    st.builds(pgoutput.Delete, oids, rows, st.booleans()),
    st.builds(pgoutput.Truncate, st.lists(oids, max_size=4).map(tuple)),
    st.builds(pgoutput.Relation, oids, names, names, st.sampled_from("dfin"), st.lists(columns).map(tuple)),
)


def encode(message: pgoutput.Message) -> bytes:
    match message:
        case pgoutput.Begin(lsn, time_us, xid):
            return b"B" + struct.pack(">QqI", lsn, time_us - 946_684_800_000_000, xid)
        case pgoutput.Commit(lsn, end, time_us):
            return b"C" + struct.pack(">BQQq", 0, lsn, end, time_us - 946_684_800_000_000)
        case pgoutput.Insert(relation, new):
            return b"I" + struct.pack(">I", relation) + b"N" + _row(new)
        case pgoutput.Update(relation, old, is_full, new):
            before = b"" if old is None else (b"O" if is_full else b"K") + _row(old)
            return b"U" + struct.pack(">I", relation) + before + b"N" + _row(new)
        case pgoutput.Delete(relation, old, is_full):
            return b"D" + struct.pack(">I", relation) + (b"O" if is_full else b"K") + _row(old)
        case pgoutput.Truncate(relations):
            return (
                b"T"
                + struct.pack(">IB", len(relations), 0)
                + b"".join(struct.pack(">I", each) for each in relations)
            )
        case pgoutput.Relation(oid, schema, table, identity, described):
            head = (
                b"R"
                + struct.pack(">I", oid)
                + schema.encode()
                + b"\0"
                + table.encode()
                + b"\0"
                + identity.encode()
            )
            return head + struct.pack(">H", len(described)) + b"".join(map(_column, described))
    raise AssertionError(message)


def _row(row: pgoutput.Row) -> bytes:
    parts = [struct.pack(">H", len(row))]
    for value in row:
        if isinstance(value, str):
            parts += [b"t", struct.pack(">I", len(value.encode())), value.encode()]
        else:
            parts.append(b"n" if value is None else b"u")
    return b"".join(parts)


def _column(column: pgoutput.Column) -> bytes:
    packed = struct.pack(">Ii", column.type_oid, column.modifier)
    return bytes([column.is_key]) + column.name.encode() + b"\0" + packed


@given(messages)
def test_a_message_is_read_as_it_was_written(message):
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_a_message_that_is_cut_off_is_refused(message, data):
    whole = encode(message)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MalformedMessage):
        decode(whole[:cut])


@given(st.binary(max_size=60))
def test_no_bytes_do_anything_but_decode_or_be_refused(data):
    try:
        decode(data)
    except MalformedMessage as error:
        assert str(error)


def test_messages_that_change_no_row_are_passed_over():
    assert decode(b"Y" + bytes(12)) == pgoutput.Other("Y")
