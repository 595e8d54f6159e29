from typing import Any

import pytest

from ottla.metadata import codec, records
from ottla.metadata.membership import Registration
from ottla.metadata.membership import decode as decode_registration
from ottla.metadata.membership import encode as encode_registration
from ottla.metadata.records import BrokerRegistered, Endpoint, FeatureSet, PartitionChanged, TopicCreated

SAMPLES: list[Any] = [
    BrokerRegistered(
        3, 7, b"i" * 16, (Endpoint("A", "höst", 1), Endpoint("B", "h", 65535, 3)), "r", (b"d" * 16,)
    ),
    BrokerRegistered(3, 2**62, b"", (), None),
    PartitionChanged(b"t" * 16, 5, (1, 2, 3), (1,), -1, 9, 11, (2,), (3,), (4,), (5,), (b"d" * 16,), 1),
    TopicCreated("t", b"x" * 16),
    records.ConfigSet(2, "t", "a", None),
    records.ProducerIdsAllocated(1, 2**63 - 1),
]


def test_records_come_back_as_they_were():
    assert codec.decode(codec.encode(SAMPLES)) == SAMPLES


def test_the_bytes_of_a_record_do_not_change_between_releases():
    assert codec.encode([TopicCreated("t", b"\1" * 16)]).hex() == "15090201" + "74" + "10" + "01" * 16
    assert codec.encode([FeatureSet("f", -2)]).hex() == "050302016603"


def test_a_field_that_an_older_writer_did_not_know_gets_its_default():
    older = bytes([1 + 1 + 1 + 1 + 1 + 17 + 1, 4, 4, 2 * 3, 2 * 7, 16]) + b"i" * 16 + bytes([0])
    older = bytes([len(older) - 1]) + older[1:]
    assert codec.decode(older) == [BrokerRegistered(3, 7, b"i" * 16, ())]


def test_a_field_that_a_newer_writer_added_is_skipped():
    whole = codec.encode([FeatureSet("f", 1)])
    newer = bytes([whole[0] + 2, whole[1], 3]) + whole[3:] + b"\x01z"
    assert codec.decode(newer + whole) == [FeatureSet("f", 1)] * 2


def test_every_kind_of_record_has_a_number():
    kinds = set(records.Record.__args__)
    assert set(codec._NUMBERS.values()) == kinds


@pytest.mark.parametrize("data", [b"\x01", b"\x01\x63", b"\x02\x09\x00", b"\x05\x09\x02\x7ft", b"\xff" * 12])
def test_bytes_that_are_no_record_are_refused(data):
    with pytest.raises(codec.BadRecord):
        codec.decode(data)


def test_any_cut_of_an_entry_is_refused_or_a_prefix():
    whole = codec.encode(SAMPLES)
    for cut in range(len(whole)):
        try:
            assert codec.decode(whole[:cut]) == SAMPLES[: len(codec.decode(whole[:cut]))]
        except codec.BadRecord:
            continue


@pytest.mark.parametrize("flags", range(8))
def test_a_registration_comes_back_as_it_was(flags):
    registration = Registration(
        2,
        b"i" * 16,
        (Endpoint("A", "h", 1),),
        "rack",
        clean=bool(flags & 1),
        ready=bool(flags & 2),
        stopping=bool(flags & 4),
        directories=(b"d" * 16,),
    )
    assert decode_registration(encode_registration(registration)) == registration
