"""A store against a dict, through anything: changes, deletions, expiry, other processes' turns, restarts, restores."""

import itertools
import shutil
import struct
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.pipelines.state import kernel, table_py
from ottla.pipelines.state.files import TaskFiles
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore

SPEC = StoreSpec(
    "rows",
    (("at", "int64"), ("mean", ("float64", 2)), ("ok", "bool"), ("text", "bytes")),
    time="at",
    ttl_ms=100,
)
KEYS = st.lists(
    st.integers(0, 40).map(lambda number: b"k%d" % number) | st.binary(max_size=20), max_size=12, unique=True
)
KERNELS = [kernel, table_py] if kernel.COMPILED else [table_py]
NOW = 1_700_000_000_000
RETENTION_MS = 86_400_000


def binary(cells):
    return pa.array(cells, pa.binary())


def content(store):
    """Key to columns, as Python has them."""
    rows = np.flatnonzero(store.alive())
    columns = (store["at"][rows], store["mean"][rows], store["ok"][rows])
    fixed = [(int(at), tuple(mean.tolist()), bool(ok)) for at, mean, ok in zip(*columns, strict=True)]
    texts = store.values(rows).to_pylist()
    return {
        key: (*cells, text)
        for key, cells, text in zip(store.keys(rows).to_pylist(), fixed, texts, strict=True)
    }


def encoded(at, mean, ok, text):
    return struct.pack(">qdd?", at, *mean, ok) + text


class StoreMachine(RuleBasedStateMachine):
    """The store lives in files; the changelog is a list of records, as a topic would have it."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.model, self.before = {}, {}
        self.changelog = []
        self.committed = b""

    @initialize(functions=st.sampled_from(KERNELS))
    def start(self, functions):
        self.functions = functions
        self.open()
        self.files.discard()
        self.finish_step()

    def open(self):
        self.files = TaskFiles(self.folder, (SPEC,), "identity", lock_wait_s=0)
        self.lock = self.files.locked()
        self.lock.__enter__()
        assert not self.files.is_private

    def close(self):
        self.lock.__exit__(None, None, None)
        self.files.close()

    def teardown(self):
        self.close()
        shutil.rmtree(self.folder)

    @property
    def store(self):
        store = self.files.stores["rows"]
        store._functions = store._table._functions = self.functions
        store._values._functions = self.functions
        return store

    def finish_step(self):
        changes = self.store.changes(NOW)
        keys, values = changes["key"].to_pylist(), changes["value"].to_pylist()
        assert len(set(keys)) == len(keys)
        self.changelog += zip(keys, values, strict=True)
        changed = {key for key in {*self.before, *self.model} if self.before.get(key) != self.model.get(key)}
        assert changed <= set(keys)
        self.committed = b"%d" % len(self.changelog)
        self.files.commit(self.committed, {"rows": len(self.changelog)}, NOW)
        self.before = dict(self.model)

    @rule(
        keys=KEYS,
        at=st.integers(0, 1000),
        mean=st.floats(allow_nan=False),
        ok=st.booleans(),
        text=st.binary(max_size=60),
    )
    def put(self, keys, at, mean, ok, text):
        self.files.begin()
        rows = self.store.rows(binary(keys))
        self.store["at"][rows], self.store["mean"][rows], self.store["ok"][rows] = at, mean, ok
        self.store.put_values(rows, binary([text + key for key in keys]))
        self.model |= {key: (at, (mean, mean), ok, text + key) for key in keys}

    @rule(keys=KEYS)
    def create(self, keys):
        self.files.begin()
        self.store.rows(binary(keys))
        for key in keys:
            self.model.setdefault(key, (0, (0.0, 0.0), False, b""))

    @rule(count=st.integers(100, 3000), prefix=st.integers(0, 3))
    def create_many(self, count, prefix):
        self.create([b"many-%d-%d" % (prefix, number) for number in range(count)])

    @rule(keys=KEYS)
    def touch(self, keys):
        self.files.begin()
        rows = self.store.find(binary(keys))
        assert [row >= 0 for row in rows] == [key in self.model for key in keys]
        rows = rows[rows >= 0]
        self.store["ok"][rows] ^= True
        self.store.touch(rows)
        for key in keys:
            if key in self.model:
                at, mean, ok, text = self.model[key]
                self.model[key] = at, mean, not ok, text

    @rule(keys=KEYS)
    def delete(self, keys):
        self.files.begin()
        rows = self.store.find(binary(keys))
        self.store.delete(rows[rows >= 0])
        for key in keys:
            self.model.pop(key, None)

    @rule(now=st.integers(0, 1200))
    def expire(self, now):
        self.files.begin()
        old = {key for key, (at, *_) in self.model.items() if at < now - 100}
        assert set(self.store.keys(self.store.expired(now - 100)).to_pylist()) == old
        assert self.store.expire(now) == len(old)
        self.model = {key: cells for key, cells in self.model.items() if key not in old}

    @rule(begin=st.integers(0, 1000), length=st.integers(0, 500))
    def between(self, begin, length):
        found = self.store.keys(self.store.between(begin, begin + length)).to_pylist()
        assert set(found) == {key for key, (at, *_) in self.model.items() if begin <= at < begin + length}

    @rule()
    def commit(self):
        self.files.begin()
        self.finish_step()

    @rule(synced=st.booleans())
    def commit_and_start_again(self, synced):
        self.files.begin()
        self.finish_step()
        if synced:
            self.files.sync()
        self.close()
        self.open()
        assert self.files.is_usable(NOW, RETENTION_MS)
        assert self.files.token == self.committed
        assert self.files.positions == {"rows": len(self.changelog)}

    @rule()
    def crash_and_restore(self):
        """What was not committed is gone: the files are begun, so only the changelog counts."""
        self.files.begin()
        self.close()
        self.open()
        assert not self.files.is_usable(NOW, RETENTION_MS)
        self.files.discard()
        self.store.apply(
            binary([key for key, _ in self.changelog]), binary([value for _, value in self.changelog])
        )
        self.model = dict(self.before)
        self.finish_step()

    @precondition(lambda self: self.model == self.before)
    @rule(cuts=st.lists(st.integers(0, 10**6), max_size=3))
    def another_host_restores_in_pieces(self, cuts):
        other = KeyedStore(SPEC, functions=self.functions)
        edges = sorted({0, len(self.changelog), *(cut % (len(self.changelog) + 1) for cut in cuts)})
        for begin, end in itertools.pairwise(edges):
            part = self.changelog[begin:end]
            other.apply(binary([key for key, _ in part]), binary([value for _, value in part]))
        assert content(other) == self.model
        assert other.changes(NOW).num_rows == 0

    @invariant()
    def holds_what_the_model_holds(self):
        if hasattr(self, "files"):
            assert content(self.store) == self.model
            assert len(self.store) == len(self.model)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)


@pytest.mark.parametrize("functions", KERNELS)
def test_a_store_whose_keys_come_and_go_does_not_grow(functions):
    """Rows are given again, and the heaps are packed: a thousand keys at a time stay a thousand keys' size."""
    store = KeyedStore(SPEC, functions=functions)
    sizes = []
    for turn in range(30):
        keys = binary([b"key %d of turn %d" % (number, turn) for number in range(1_000)])
        rows = store.rows(keys)
        store.put_values(rows, binary([b"x" * 100] * 1_000))
        store.put_values(rows, binary([b"y" * 150] * 1_000))
        assert set(store.values(rows).to_pylist()) == {b"y" * 150}
        assert store.keys(rows).to_pylist() == keys.to_pylist()
        store.delete(rows)
        sizes.append(store.nbytes)
    assert sizes[-1] == sizes[5]
    assert len(store["at"]) == 1_000


@pytest.mark.parametrize("functions", KERNELS)
@settings(deadline=None, max_examples=60)
@given(
    records=st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(-5, 5)), max_size=60),
    cut=st.integers(0, 60),
)
def test_a_changelog_means_what_a_dict_means(functions, records, cut):
    store, model = KeyedStore(StoreSpec("counts", (("count", "int64"),)), functions=functions), {}
    for part in (records[:cut], records[cut:]):
        values = [None if value is None else struct.pack(">q", value) for _, value in part]
        store.apply(binary([b"%d" % key for key, _ in part]), binary(values))
    for key, value in records:
        model[b"%d" % key] = value
    rows = np.flatnonzero(store.alive())
    held = dict(zip(store.keys(rows).to_pylist(), store["count"][rows].tolist(), strict=True))
    assert held == {key: value for key, value in model.items() if value is not None}


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans(), st.binary(max_size=9)
        ),
        max_size=9,
    )
)
def test_values_are_columns_one_after_the_other(cells):
    store = KeyedStore(SPEC)
    rows = store.rows(binary([b"%d" % number for number in range(len(cells))]))
    for row, (at, mean, ok, text) in zip(rows, cells, strict=True):
        store["at"][row], store["mean"][row], store["ok"][row] = at, mean, ok
        store.put_values([row], binary([text]))
    values = store.changes(NOW)["value"].to_pylist()
    assert values == [encoded(at, (mean, mean), ok, text) for at, mean, ok, text in cells]
