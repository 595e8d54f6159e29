"""A follower's fetches to one leader: one at a time, broken off only for partitions that they do not ask for."""

from ottla.broker.cluster.pump import GATHER_MS, Pump
from ottla.config.settings import Config
from ottla.metadata.image import Image
from ottla.metadata.image import Partition as State
from ottla.replication.fetcher import Fetcher, Limits
from ottla.replication.partition import Partition
from ottla.testing.world.time import Time
from tests.unit.replication.test_fetcher import answer
from tests.unit.replication.test_partition import a_log


class Call:
    def __init__(self, request, take):
        self.partitions = sorted(part.partition for topic in request.topics for part in topic.partitions)
        self.take, self.is_cancelled = take, False

    def cancel(self):
        self.is_cancelled = True


class Peers:
    def __init__(self):
        self.calls = []

    def ask(self, broker_id, lane, request, version, take, *, timeout_ms):
        self.calls.append(Call(request, take))
        return self.calls[-1]


def a_partition(index):
    return Partition(2, State("t", b"t" * 16, index, (1, 2, 3), (1, 2, 3), 1, 0, 0), a_log())


def a_pump():
    """It has asked for partition 0."""
    peers, clock = Peers(), Time()
    fetcher = Fetcher(2, 1, Limits(), lambda _: None)
    pump = Pump(2, Image(), clock, peers, fetcher, Config({}))
    pump.follow(a_partition(0))
    clock.advance(GATHER_MS)
    assert [call.partitions for call in peers.calls] == [[0]]
    return pump, peers, clock


def test_a_fetch_that_the_leader_holds_is_broken_off_for_a_new_partition():
    pump, peers, clock = a_pump()
    pump.follow(a_partition(1))
    assert not peers.calls[0].is_cancelled
    clock.advance(GATHER_MS)
    assert peers.calls[0].is_cancelled
    assert peers.calls[1].partitions == [0, 1]


def test_a_fetch_that_asks_for_the_new_partition_already_is_left_alone():
    pump, peers, clock = a_pump()
    pump.follow(a_partition(1))
    peers.calls[0].take(answer(high_watermark=0))
    assert peers.calls[1].partitions == [1]  # in the session only what is new
    clock.advance(GATHER_MS)
    assert not peers.calls[1].is_cancelled
    assert len(peers.calls) == 2
