"""A keyed store: rows, columns, changes, limits, time."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from ottla.pipelines.state.spec import BadStore, StoreChanged, StoreSpec
from ottla.pipelines.state.store import BadChange, KeyedStore, StoreFull
from ottla.pipelines.state.windows import stored_window_keys

COUNTS = StoreSpec("counts", (("count", "int64"),))
SEEN = StoreSpec(
    "seen", (("at", "int64"), ("ok", "bool"), ("mean", ("float64", 2)), ("text", "bytes")), time="at"
)


def binary(*cells):
    return pa.array(cells, pa.binary())


def content(changes):
    return list(zip(changes["key"].to_pylist(), changes["value"].to_pylist(), strict=True))


def test_a_key_keeps_its_row_and_a_new_row_is_zero():
    store = KeyedStore(COUNTS)
    assert store.rows(binary(b"a", b"b", b"a")).tolist() == [0, 1, 0]
    assert store.find(binary(b"b", b"c")).tolist() == [1, -1]
    assert store["count"].tolist() == [0, 0]
    assert store.keys([1, 0]).to_pylist() == [b"b", b"a"]
    assert len(store) == 2


def test_a_single_int64_is_what_javas_long_deserializer_reads():
    store = KeyedStore(COUNTS)
    rows = store.rows(binary(b"a"))
    store["count"][rows] = 258
    assert content(store.changes(7)) == [(b"a", bytes.fromhex("0000000000000102"))]


def test_a_single_bytes_column_is_the_value_itself():
    store = KeyedStore(StoreSpec("texts", (("text", bytes),)))
    store.put_values(store.rows(binary(b"a", b"b")), binary(b"hello", b""))
    assert content(store.changes(7)) == [(b"a", b"hello"), (b"b", b"")]


def test_columns_follow_each_other_big_endian_and_the_variable_one_ends_the_value():
    store = KeyedStore(SEEN)
    rows = store.rows(binary(b"a"))
    store["at"][rows], store["ok"][rows], store["mean"][rows] = 1, True, [0.5, -2.0]
    store.put_values(rows, binary(b"xyz"))
    ((_, value),) = content(store.changes(7))
    assert value.hex() == "0000000000000001" + "01" + "3fe0000000000000" + "c000000000000000" + b"xyz".hex()
    other = KeyedStore(SEEN)
    other.apply(binary(b"a"), binary(value))
    assert (other["at"][0], other["ok"][0], other["mean"][0].tolist()) == (1, True, [0.5, -2.0])
    assert other.values([0]).to_pylist() == [b"xyz"]


def test_changes_name_each_changed_key_once_and_then_begin_again():
    store = KeyedStore(COUNTS)
    rows = store.rows(binary(b"a", b"b", b"c"))
    store.changes(1)
    store["count"][rows[:1]] += 1
    assert store.touch([rows[0], rows[0]]).tolist() == [rows[0]]
    changes = store.changes(1_700_000_000_123)
    assert content(changes) == [(b"a", (1).to_bytes(8, "big"))]
    assert changes["timestamp"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_000]
    assert store.changes(2).num_rows == 0


def test_a_deleted_key_is_a_record_without_value_unless_it_is_back():
    store = KeyedStore(COUNTS)
    rows = store.rows(binary(b"a", b"b"))
    store["count"][:] = 5
    store.changes(1)
    store.delete(rows)
    store.rows(binary(b"b", b"c"))
    assert sorted(content(store.changes(2))) == [(b"a", None), (b"b", bytes(8)), (b"c", bytes(8))]
    assert store.alive().sum() == 2


def test_rows_that_are_not_in_use_are_refused():
    store = KeyedStore(COUNTS)
    store.delete(store.rows(binary(b"a")))
    for ask in (store.keys, store.touch):
        with pytest.raises(IndexError, match="store counts"):
            ask([0])
    with pytest.raises(IndexError):
        store.touch(store.find(binary(b"missing")))
    with pytest.raises(IndexError):
        store.delete(store.find(binary(b"missing")))


@pytest.mark.parametrize("others", [0, 1_000])
def test_touched_rows_come_back_in_order_and_once(others):
    """By marking all rows where many are touched, by sorting where few are."""
    store = KeyedStore(COUNTS)
    store.rows(binary(*(b"%d" % number for number in range(10 + others))))
    store.changes(1)
    assert store.touch([7, 3, 7, 1]).tolist() == [1, 3, 7]
    assert store.touch([]).tolist() == []
    assert store.touch([9, 3]).tolist() == [3, 9]
    assert store.changes(2)["key"].to_pylist() == [b"1", b"3", b"7", b"9"]


def test_null_keys_are_refused():
    with pytest.raises(ValueError, match="1 of 2 keys or values are null"):
        KeyedStore(COUNTS).rows(binary(b"a", None))


def test_of_a_changelog_the_later_record_wins_and_null_deletes():
    store = KeyedStore(COUNTS)
    one, two = (1).to_bytes(8, "big"), (2).to_bytes(8, "big")
    store.apply(binary(b"a", b"b", b"a", b"c", b"b", b"c"), binary(one, one, two, two, None, one))
    store.apply(binary(b"d", b"c", b"d"), binary(None, None, two))
    assert {key: store["count"][row] for key in (b"a", b"d") for row in store.find(binary(key))} == {
        b"a": 2,
        b"d": 2,
    }
    assert store.find(binary(b"b", b"c")).tolist() == [-1, -1]
    assert store.changes(1).num_rows == 0


def test_a_value_of_the_wrong_size_names_the_store():
    with pytest.raises(BadChange, match=r"store counts has 3 bytes; counts.count int64. takes 8"):
        KeyedStore(COUNTS).apply(binary(b"a"), binary(b"abc"))


def test_a_full_store_says_its_name_and_limit_and_a_deleted_row_makes_room():
    store = KeyedStore(StoreSpec("few", (("count", "int64"),), max_rows=2))
    rows = store.rows(binary(b"a", b"b"))
    with pytest.raises(StoreFull, match="store few is full: it has 2 rows, and max_rows is 2"):
        store.rows(binary(b"b", b"c"))
    store.delete(rows[:1])
    assert len(store.rows(binary(b"c"))) == 1


def test_a_changelog_is_taken_even_where_it_passes_the_limit_for_a_moment():
    store = KeyedStore(StoreSpec("few", (("count", "int64"),), max_rows=1))
    store.apply(binary(b"a", b"a", b"b"), binary(bytes(8), None, bytes(8)))
    assert len(store) == 1


def test_rows_are_found_by_time_and_expire():
    store = KeyedStore(StoreSpec("seen", (("at", "int64"),), time="at", ttl_ms=100))
    rows = store.rows(binary(b"a", b"b", b"c"))
    store["at"][rows] = [1000, 1050, 1200]
    assert store.expired(1050).tolist() == [rows[0]]
    assert store.between(1050, 1200).tolist() == [rows[1]]
    assert store.expire(1151) == 2
    assert store.keys(np.flatnonzero(store.alive())).to_pylist() == [b"c"]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ((), {}, "it needs columns"),
        ((("a", "int64"), ("a", "int64")), {}, "each with its own name"),
        ((("a", "object"),), {}, "column a is object"),
        ((("a", "bytes"), ("b", "int64")), {}, "column a is bytes"),
        ((("a", ("int64", 0)),), {}, r"column a is int64\[0\]"),
        ((("a", "int32"),), {"time": "a"}, "not among its int64 columns"),
        ((("a", "int64"),), {"ttl_ms": 5}, "ttl_ms needs time"),
        ((("a", "int64"),), {"time": "a", "windowed": True}, "windowed store is in its keys"),
        ((("a/b", "int64"),), {}, "'a/b' is not a name"),
    ],
)
def test_a_bad_description_is_refused_with_the_stores_name(columns, options, words):
    with pytest.raises(BadStore, match=f"store s: .*{words}"):
        StoreSpec("s", columns, **options)


def test_a_spec_is_a_value_that_travels():
    spec = StoreSpec("s", (("a", np.int64), ("b", (np.float64, 3)), ("c", bytes)), time="a", ttl_ms=1)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.signature() == "s(a int64, b float64[3], c bytes)"
    spec.check_compatible("s(a int64, b float64[3], c bytes)")
    with pytest.raises(StoreChanged, match=r"store s has changed: .* s\(a int64\)"):
        spec.check_compatible("s(a int64)")


def test_the_time_of_a_windowed_store_is_in_its_keys():
    """Its values are as Kafka Streams writes them: a count and nothing else."""
    spec = StoreSpec("counts", (("count", "int64"),), windowed=True, ttl_ms=50)
    store, copy = KeyedStore(spec), KeyedStore(spec)
    keys = stored_window_keys(binary(b"a", b"a", b"b"), [100, 200, 100])
    rows, new = store.rows_and_new(keys)
    assert sorted(new) == sorted(rows)
    assert store.rows_and_new(keys)[1].tolist() == []
    store["count"][rows] = 1
    changes = store.changes(1)
    assert set(changes["value"].to_pylist()) == {(1).to_bytes(8, "big")}
    copy.apply(changes["key"], changes["value"])
    for held in (store, copy):
        assert held.window_starts[held.find(keys)].tolist() == [100, 200, 100]
        assert held.between(100, 200).tolist() == sorted(held.find(keys.take(pa.array([0, 2]))))
        assert held.expire(151) == 2
        assert held.find(keys).tolist()[::2] == [-1, -1]
        assert held.find(keys)[1] >= 0
        fresh = held.rows(stored_window_keys(binary(b"c"), [300]))
        assert held.window_starts[fresh].tolist() == [300]
