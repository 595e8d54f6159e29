"""A client belongs to the process that made it: a forked child gets an error that says so, and never hangs."""

import os
import warnings
from collections.abc import Callable, Iterator

import pytest

import ottla
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t", 1)
        yield running


def in_a_child(work: Callable[[], object]) -> str:
    """What `work` raises in a forked child ('' for nothing)."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tried here
        child = os.fork()
    if not child:
        try:
            work()
            text = ""
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        text = answers.read().decode()
    os.waitpid(child, 0)
    return text


def test_a_producer_refuses_to_work_in_a_forked_child(broker: Broker) -> None:
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap, linger_ms=600_000, delivery_timeout_ms=900_000
    ) as p:
        pending = p.send("t", b"parent's")
        for work in (
            lambda: p.send("t", b"child's"),
            lambda: p.send("new", b"child's"),
            p.flush,
            p.metrics,
            lambda: p.partitions_for("t"),
            pending.result,
        ):
            assert "make a new producer in the child process" in in_a_child(work)
        assert in_a_child(p.close) == ""
        p.flush()
        assert pending.done()
        p.send("t", b"parent goes on")
    assert [record.value for record in broker.records("t")] == [b"parent's", b"parent goes on"]


def test_a_consumer_refuses_to_work_in_a_forked_child(broker: Broker) -> None:
    broker.create_topic("read", 1)
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(3):
            producer.send("read", str(number))
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap, group_id="forked", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe("read")
        while not (first := consumer.poll(max_records=1)):
            pass
        for work in (lambda: consumer.poll(0), consumer.commit, lambda: consumer.seek(("read", 0), 0)):
            assert "make a new consumer in the child process" in in_a_child(work)
        assert in_a_child(consumer.close) == ""
        rest = consumer.poll(30)
    assert [record.value for record in [*first, *rest]] == [b"0", b"1", b"2"]


def test_an_admin_refuses_to_work_in_a_forked_child(broker: Broker) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.list_topics()
        assert "make a new admin in the child process" in in_a_child(admin.list_topics)
        assert in_a_child(admin.close) == ""
        assert "t" in admin.list_topics()
