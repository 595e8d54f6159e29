"""Followers of partitions in which nothing happens: what they cost, and that they are still counted."""

from ottla.replication.fetcher import LOOK_MS, Fetcher
from ottla.replication.partition import Partition
from tests.simulation.test_acknowledgements import a_calm_world, a_produce_request

TEN_MINUTES_MS = 600_000


def a_led_partition(world):
    leader = world.members[world.checks.image.partition("t", 0).leader]
    return leader, leader.broker.replicas.partitions["t", 0]


def counted(patch, cls, name):
    calls = []
    original = getattr(cls, name)

    def call(self, *args):
        calls.append(self)
        return original(self, *args)

    patch.setattr(cls, name, call)
    return calls


def test_partitions_without_news_are_neither_acknowledged_nor_asked_about_again(monkeypatch):
    world = a_calm_world()
    world.go_on(2 * LOOK_MS)
    acknowledged = counted(monkeypatch, Partition, "on_follower_fetch")
    fetches = counted(monkeypatch, Fetcher, "request")
    looked_at = counted(monkeypatch, Fetcher, "_asked")
    world.go_on(10 * LOOK_MS)
    partitions = sum(len(member.broker.replicas.partitions) for member in world.members.values())
    assert len(fetches) > 100
    assert acknowledged == []
    assert len(looked_at) <= 11 * partitions  # now and then all of them, else none


def test_a_follower_that_had_nothing_to_fetch_for_long_is_not_late_with_the_next_record():
    world = a_calm_world()
    world.go_on(TEN_MINUTES_MS)
    leader, here = a_led_partition(world)
    leader.serve(a_produce_request(), 9, lambda answer: None)
    assert here.log.end_offset > here.log.high_watermark
    assert here.shrunk_isr(leader.broker.clock.monotonic_ms(), lag_ms_max=5000) is None


def test_a_follower_that_was_woken_for_nothing_hears_of_the_next_record_at_once():
    world = a_calm_world()
    world.go_on(10_000)
    leader, here = a_led_partition(world)
    here.written.wake_all()
    world.go_on(100)
    leader.serve(a_produce_request(), 9, lambda answer: None)
    world.until(lambda: here.log.high_watermark == here.log.end_offset, 100)
