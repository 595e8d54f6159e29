"""Mode exact into three brokers: followers, leaders that change or die, and the link's epoch everywhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.client import Admin, Producer
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import local, promote
from ottla.mirror.errors import MirrorError, TakenOver
from ottla.mirror.exact import FrameSender
from ottla.mirror.link import Link
from ottla.mirror.status import status
from ottla.testing import Broker, Cluster
from tests.mirror.local import link, records
from tests.mirror.test_exact import log_of
from tests.mirror.test_groups import fill

PLACES = [TopicPartition("A.in", partition) for partition in (0, 1)]


class Running:
    """As `ottla mirror --local`: started again when it fails for a reason that may pass."""

    def __init__(self, chosen: Link) -> None:
        self._link, self._stopped = chosen, threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            local.run(self._link, stopped=self._stopped)
        except BaseException as error:
            self.failure = error

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)

    def until(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 90
        while not check():
            assert self._thread.is_alive(), self.failure
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def until_copied(self) -> None:
        self.until(lambda: _lag(self._link) == 0)


def _lag(chosen: Link) -> int | None:
    try:
        told = status(chosen)
    except MirrorError:
        return None  # it has not committed yet
    return told.lag if len(told.partitions) == len(PLACES) else None


def assert_same(source: Broker, target: Cluster) -> None:
    for place in PLACES:
        assert log_of(source.bootstrap, "in", place.partition) == log_of(target.bootstrap, *place)


def test_every_replica_is_the_source_byte_for_byte_whoever_leads_or_dies() -> None:
    with Broker() as source, Cluster(brokers=3, min_insync_replicas=2) as target:
        source.create_topic("in", partitions=2)
        chosen = link(source.bootstrap, target.bootstrap, mode="exact", replication_factor=3)
        with Running(chosen) as mirror:
            fill(source, 1)
            mirror.until_copied()
            target.move_leader("A.in", 0)
            fill(source, 2)
            mirror.until_copied()
            dead = target.leader("A.in", 0).broker_id
            target.kill(dead)
            fill(source, 3)
            mirror.until_copied()
            target.restart(dead)
            fill(source, 4)
            mirror.until_copied()
            for place in PLACES:
                target.wait_for_isr(*place, timeout=60)
        assert_same(source, target)
        for broker in (1, 2, 3):  # each replica in its turn, as leader
            for place in PLACES:
                if target.leader(*place).broker_id != broker:
                    target.move_leader(*place, to=broker)
            assert_same(source, target)
            assert all(
                records(target.bootstrap, *p) == records(source.bootstrap, "in", p.partition) for p in PLACES
            )


def test_a_promotion_holds_at_every_broker_and_outlives_the_leader() -> None:
    with Broker() as source, Cluster(brokers=3, min_insync_replicas=2) as target:
        source.create_topic("in", partitions=2)
        chosen = link(source.bootstrap, target.bootstrap, mode="exact", replication_factor=3)
        with Producer(bootstrap_servers=source.bootstrap, transactional_id="open") as left:
            left.init_transactions()
            left.begin_transaction()
            left.send("in", b"never committed", partition=0)
            left.flush()
            fill(source, 1)
            with Running(chosen) as mirror:
                mirror.until_copied()
        late = FrameSender(chosen)
        try:
            late.know({"A.in"})
            batches = b"".join(log_of(source.bootstrap, "in", 0))
            promote.promote(chosen, promote.figures(chosen))
            for broker in (1, 2, 3):
                if target.leader("A.in", 0).broker_id != broker:
                    target.wait_for_isr("A.in", timeout=60)
                    target.move_leader("A.in", to=broker)
                with pytest.raises(TakenOver):
                    late.append(PLACES[0], 0, batches)
                with Admin(bootstrap_servers=target.bootstrap) as admin:
                    assert admin.describe_producers([PLACES[0]])[PLACES[0]] == []
        finally:
            late.close()
        visible = len(records(target.bootstrap, *PLACES[0]))
        with Producer(bootstrap_servers=target.bootstrap, enable_idempotence=False) as producer:
            producer.send("A.in", b"mine", partition=0).result(60)
        target.wait_for_isr("A.in", timeout=60)
        target.kill(target.leader("A.in", 0).broker_id)
        after = records(target.bootstrap, *PLACES[0])
        assert len(after) == visible + 1 and after[-1][1] == b"mine"


def test_a_mirror_waits_while_too_few_replicas_are_in_sync() -> None:
    """Nothing is acknowledged that one broker alone has: it would be gone with it."""
    with Broker() as source, Cluster(brokers=3, min_insync_replicas=2) as target:
        source.create_topic("in", partitions=2)
        chosen = link(source.bootstrap, target.bootstrap, mode="exact", replication_factor=3)
        with Running(chosen) as mirror:
            fill(source, 1)
            mirror.until_copied()
            target.shrink_isr("A.in", 0, to=1)
            hasty = {**chosen.target_client, "default.api.timeout.ms": 1_000}
            sender = FrameSender(replace(chosen, target_client=hasty))
            try:
                sender.know({"A.in"})
                with pytest.raises(OttlaError, match=r"A\.in-0 could not be written"):
                    sender.append(PLACES[0], 0, b"".join(log_of(source.bootstrap, "in", 0)))
            finally:
                sender.close()
            fill(source, 2)
            mirror.until(lambda: (_lag(chosen) or 0) > 0)
            target.heal()
            mirror.until_copied()
        assert_same(source, target)
