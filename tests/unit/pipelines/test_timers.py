"""Timers in a store: due in order, replaced, cancelled, and there again after a kill."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.state.files import TaskFiles
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.state.timers import Timers, timer_spec

SPEC = timer_spec("alarms")
NOW = 1_700_000_000_000
TIME = st.integers(0, 50)
KEY = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])


def binary(*cells):
    return pa.array(cells, pa.binary())


def take(timers, now_ms):
    keys, due_ms = timers.take_due(now_ms)
    return list(zip(due_ms.tolist(), keys.to_pylist(), strict=True))


def test_timers_are_due_in_order_and_once():
    timers = Timers(KeyedStore(SPEC))
    timers.set(binary(b"c", b"b", b"a"), [20, 10, 20])
    assert timers.next_due_ms() == 10
    assert take(timers, 9) == []
    assert take(timers, 20) == [(10, b"b"), (20, b"a"), (20, b"c")]
    assert take(timers, 20) == []
    assert timers.next_due_ms() is None


def test_a_later_time_replaces_and_a_cancelled_timer_never_comes():
    timers = Timers(KeyedStore(SPEC))
    timers.set(binary(b"a", b"b", b"a"), [5, 5, 7])
    timers.cancel(binary(b"b", b"unknown"))
    assert take(timers, 6) == []
    assert take(timers, 7) == [(7, b"a")]


@given(
    st.lists(
        st.tuples(st.just("set"), KEY, TIME)
        | st.tuples(st.just("cancel"), KEY, TIME)
        | st.tuples(st.just("take"), KEY, TIME)
    )
)
def test_timers_are_a_dict_of_times(actions):
    """And so is what another host reads from their changelog."""
    store, model = KeyedStore(SPEC), {}
    timers, copy = Timers(store), KeyedStore(SPEC)
    for name, key, time in actions:
        if name == "set":
            timers.set(binary(key), [time])
            model[key] = time
        elif name == "cancel":
            timers.cancel(binary(key))
            model.pop(key, None)
        else:
            due = sorted((at, key) for key, at in model.items() if at <= time)
            assert take(timers, time) == due
            model = {key: at for key, at in model.items() if at > time}
        assert timers.next_due_ms() == min(model.values(), default=None)
        changes = store.changes(0)
        copy.apply(changes["key"], changes["value"])
        assert len(timers) == len(copy) == len(model)
    assert take(Timers(copy), 50) == sorted((at, key) for key, at in model.items())


def test_a_timer_outlives_its_process(tmp_path):
    files = TaskFiles(tmp_path, (SPEC,), "")
    with files.locked():
        files.discard()
        Timers(files.stores["alarms"]).set(binary(b"a"), [5])
        files.commit(b"one", {}, NOW)
    with (again := TaskFiles(tmp_path, (SPEC,), "")).locked():
        assert again.is_usable(NOW, 1000)
        assert take(Timers(again.stores["alarms"]), 5) == [(5, b"a")]
