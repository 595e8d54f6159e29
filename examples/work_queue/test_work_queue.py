import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import ottla
from examples.work_queue.work_queue import DEAD, JOBS, RETRIES, redrive, submit, work
from ottla.testing import Broker


@pytest.fixture
def broker(ottla_broker: Broker) -> Broker:
    for topic in (JOBS, RETRIES, DEAD):
        ottla_broker.create_topic(topic, partitions=4)
    return ottla_broker


@contextmanager
def workers(broker: Broker, count: int, handle: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    ended = threading.Event()
    threads = [
        threading.Thread(target=work, args=(broker.bootstrap, handle, ended, 0.2)) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def send(broker: Broker, *names: str) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap, partitioner="round_robin") as producer:
        for name in names:
            submit(producer, name)


def test_each_job_is_done_by_one_of_several_workers(broker: Broker) -> None:
    done: Counter[str] = Counter()
    who: set[int] = set()

    def handle(job: dict[str, Any]) -> None:
        done[job["job"]] += 1
        who.add(threading.get_ident())

    with workers(broker, 2, handle):
        broker.wait_for_group("workers", members=2, timeout=60)
        send(broker, *(str(number) for number in range(40)))
        until(lambda: len(done) == 40)
    assert set(done.values()) == {1}
    assert len(who) == 2


def test_a_job_that_fails_is_tried_again_and_then_put_aside(broker: Broker) -> None:
    tries: Counter[str] = Counter()

    def handle(job: dict[str, Any]) -> None:
        tries[job["job"]] += 1
        if job["job"] == "broken" or (job["job"] == "shaky" and tries["shaky"] < 2):
            raise ValueError("no")

    send(broker, "fine", "shaky", "broken")
    with workers(broker, 1, handle):
        dead = broker.wait_for_records(DEAD, 1, timeout=60)
        until(lambda: tries["shaky"] == 2)
    assert tries == {"fine": 1, "shaky": 2, "broken": 3}
    assert json.loads(dead[0].value)["error"] == "ValueError: no"
    assert redrive(broker.bootstrap) == 1
    assert redrive(broker.bootstrap) == 0
    with workers(broker, 1, lambda job: tries.update([job["job"]])):
        until(lambda: tries["broken"] == 4)
