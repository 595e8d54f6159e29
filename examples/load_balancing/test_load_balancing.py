import threading
from collections.abc import Iterator

import pytest

from examples.load_balancing.load_balancing import GROUP, TOPIC, Reader, produce
from ottla.testing import Broker


class Readers:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._running: dict[str, tuple[Reader, threading.Event, threading.Thread]] = {}
        self.said: list[str] = []

    def start(self, name: str) -> Reader:
        reader, ended = Reader(name, self.said.append), threading.Event()
        thread = threading.Thread(target=reader.run, args=(self._bootstrap, ended))
        thread.start()
        self._running[name] = reader, ended, thread
        return reader

    def stop(self, name: str) -> None:
        _, ended, thread = self._running.pop(name)
        ended.set()
        thread.join()

    def close(self) -> None:
        for name in list(self._running):
            self.stop(name)


@pytest.fixture
def readers(ottla_broker: Broker) -> Iterator[Readers]:
    ottla_broker.create_topic(TOPIC, partitions=3)
    found = Readers(ottla_broker.bootstrap)
    yield found
    found.close()


def shares(broker: Broker, *readers: Reader) -> list[int]:
    """How many partitions each has, once the group has settled with all of them."""
    broker.wait_for_group(GROUP, members=len(readers), timeout=60)

    def settled() -> bool:
        return sorted(number for each in readers for number in each.partitions) == [0, 1, 2]

    broker.wait_until(settled, timeout=60)
    return sorted(len(each.partitions) for each in readers)


def test_more_readers_share_the_partitions_and_one_too_many_is_idle(
    readers: Readers, ottla_broker: Broker
) -> None:
    first = readers.start("r1")
    assert shares(ottla_broker, first) == [3]
    second, third = readers.start("r2"), readers.start("r3")
    assert shares(ottla_broker, first, second, third) == [1, 1, 1]
    fourth = readers.start("r4")
    assert shares(ottla_broker, first, second, third, fourth) == [0, 1, 1, 1]
    readers.stop("r1")
    readers.stop("r2")
    assert shares(ottla_broker, third, fourth) == [1, 2]


def test_every_message_is_read(readers: Readers, ottla_broker: Broker) -> None:
    both = [readers.start("r1"), readers.start("r2")]
    shares(ottla_broker, *both)
    ended = threading.Event()
    timer = threading.Timer(0.5, ended.set)
    timer.start()
    sent = produce(ottla_broker.bootstrap, ended, rate=500)
    ottla_broker.wait_until(lambda: sum(sum(each.counts.values()) for each in both) >= sent, timeout=60)
    assert sum(sum(each.counts.values()) for each in both) == sent
    assert any("reads" in text for text in readers.said)
