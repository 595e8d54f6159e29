"""The broker of the testing kit: its life, what it leaves behind, and what can be seen in it."""

import gc
import json
import os
import socket
import threading
from pathlib import Path

import pytest

from ottla import errors
from ottla.testing import Broker, NotInTime


def descriptors() -> set[str]:
    gc.collect()
    return {each.name for each in Path("/proc/self/fd").iterdir() if each.exists()}


# -- life --------------------------------------------------------------------------------------------------


def test_a_stopped_broker_leaves_no_thread_no_handle_and_no_port():
    with Broker() as warm:  # whatever is opened once for the process
        warm.create_topic("t")
    before, threads = descriptors(), threading.enumerate()
    for _ in range(3):
        with Broker() as broker:
            broker.create_topic("t")
            port = broker.port
        broker.stop()  # once more does no harm
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)
    assert threading.enumerate() == threads
    assert descriptors() == before


def test_brokers_stand_side_by_side(produce):
    with Broker() as one, Broker(num_partitions=2) as two:
        produce(one, "t", b"1")
        produce(two, "t", b"2")
        assert [each.value for each in one.records("t")] == [b"1"]
        assert [each.value for each in two.records("t")] == [b"2"]
        assert (one.topics(), two.topics()) == ({"t": 1}, {"t": 2})


@pytest.mark.parametrize(
    "settings, more",
    [({"num.partitions": 3}, {}), ({"num_partitions": "3"}, {}), ({}, {"num_partitions": 3})],
)
def test_settings_have_kafkas_names_with_dots_or_underscores(settings, more, produce):
    with Broker(settings, **more) as broker:
        produce(broker, "t", b"x")
        assert broker.topics() == {"t": 3}


def test_a_wrong_setting_is_told_and_leaves_nothing_behind():
    threads = threading.enumerate()
    with pytest.raises(errors.InvalidConfig, match=r"did you mean num\.partitions"):
        Broker(num_partition=3).start()
    assert threading.enumerate() == threads


def test_data_on_disk_is_there_for_the_next_broker(tmp_path, produce):
    with Broker(data=tmp_path) as broker:
        produce(broker, "t", b"kept")
    with Broker(data=tmp_path) as broker:
        assert [each.value for each in broker.records("t")] == [b"kept"]


def test_a_restart_keeps_the_port_and_what_is_in_memory(broker, produce):
    produce(broker, "t", b"kept")
    bootstrap = broker.bootstrap
    broker.restart()
    assert broker.bootstrap == bootstrap
    produce(broker, "t", b"more")
    assert [each.value for each in broker.records("t")] == [b"kept", b"more"]


def test_a_crash_keeps_what_the_page_cache_has_and_a_power_cut_what_was_synced(broker, produce):
    broker.create_topic("lazy")
    broker.create_topic("careful", flush_messages=1)
    produce(broker, "lazy", b"x")
    produce(broker, "careful", b"x")
    broker.crash()
    assert not broker.is_running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port), timeout=60)
    broker.restart()
    assert len(broker.records("lazy")) == len(broker.records("careful")) == 1
    produce(broker, "lazy", b"y")
    produce(broker, "careful", b"y")
    broker.crash(lose_unsynced=True)
    broker.restart()
    assert len(broker.records("careful")) == 2
    assert len(broker.records("lazy")) < 2


def test_only_memory_can_lose_what_was_not_synced(tmp_path):
    with Broker(data=tmp_path) as broker, pytest.raises(ValueError, match="in memory"):
        broker.crash(lose_unsynced=True)


def test_a_forked_child_keeps_neither_the_port_nor_a_connection(broker):
    connection = socket.create_connection(("127.0.0.1", broker.port), timeout=60)
    broker.wait_until(lambda: broker.connections == 1)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os.write(ready[1], b"!")
        os.read(go[0], 1)
        broker.stop()  # not its own: nothing happens
        os._exit(0)
    try:
        os.read(ready[0], 1)
        port = broker.port
        broker.stop()
        assert connection.recv(1) == b""  # closed for good, though the child lives
        with socket.create_server(("127.0.0.1", port)):
            pass
    finally:
        os.write(go[1], b"!")
        os.waitpid(child, 0)
        connection.close()
        for each in (*ready, *go):
            os.close(each)


# -- looking inside ----------------------------------------------------------------------------------------


def test_records_come_as_python_values(broker, produce):
    broker.create_topic("orders", partitions=2)
    produce(broker, "orders", b'{"n": 1}', b'{"n": 2}', key=b"a")
    found = broker.records("orders", value=json.loads, key=bytes.decode)
    assert [(each.key, each.value, each.offset) for each in found] == [("a", {"n": 1}, 0), ("a", {"n": 2}, 1)]
    assert len({each.partition for each in found}) == 1
    assert broker.records("orders", partition=1 - found[0].partition) == []
    assert broker.records("no-such-topic") == []  # it may not be there yet


def test_groups_are_shown_with_their_members_and_lag(broker, produce, consumer):
    broker.create_topic("t", partitions=2)
    produce(broker, "t", b"1", b"2", b"3", key=b"k")
    one = consumer(broker, "t", client_id="reader")
    message = one.poll(60)
    group = broker.wait_for_group("g", members=1)
    assert (group.protocol, group.lag, group.members[0].client_id) == ("classic", 3, "reader")
    assert set(group.assigned) == {("t", 0), ("t", 1)}
    one.commit(message, asynchronous=False)
    assert broker.wait_for_lag("g", 2).offsets == {("t", message.partition()): 1}


def test_requests_are_seen_with_what_they_were_about_and_how_they_ended(broker, produce):
    broker.create_topic("t")
    produce(broker, "t", b"x", client_id="shop")
    (seen,) = broker.requests("Produce", client_id="shop", topic="t")
    assert (seen.topics, seen.answer, seen.errors) == ((("t", 0),), "ok", ())
    assert broker.requests("Produce", topic="other") == []
    with pytest.raises(ValueError, match="did you mean Produce"):
        broker.requests("Produces")
    assert "shop: Produce v" in broker.report()


def test_waiting_ends_with_the_value_or_tells_what_was_asked_last(broker, produce):
    assert broker.wait_until(lambda: 42) == 42
    with pytest.raises(NotInTime, match=r"five records did not come true in 0\.05 s; last requests"):
        broker.wait_until(lambda: False, timeout=0.05, what="five records")
    sender = threading.Thread(target=produce, args=(broker, "t", b"1", b"2"))
    sender.start()
    assert len(broker.wait_for_records("t", 2)) == 2
    sender.join()


def test_a_request_can_be_waited_for(broker, produce):
    sender = threading.Timer(0, produce, (broker, "t", b"x"), {"client_id": "late"})
    sender.start()
    assert broker.wait_for_request("Produce", client_id="late").topics == (("t", 0),)
    sender.join()
