"""Apache Kafka on either side: in and out, with transactions, and groups that go on at the right record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.testing import Broker
from tests.mirror.local import copy, link, records, runner, with_offsets
from tests.mirror.test_exact import log_of
from tests.mirror.test_groups import fill
from tests.oracle.cluster import Oracle
from tests.oracle.transactions import wait_for_markers

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def topic_on(side: Any) -> None:
    with Admin(bootstrap_servers=side.bootstrap) as admin:
        if "in" in admin.list_topics():
            return
        admin.create_topic("in", 2)


@pytest.mark.parametrize("direction", ["into Ottla", "out of Ottla"])
def test_records_and_positions_cross(kafka: Oracle, direction: str) -> None:
    with Broker() as broker:
        source, target = (kafka, broker) if direction == "into Ottla" else (broker, kafka)
        topic_on(source)
        chosen = link(source.bootstrap, target.bootstrap, bytes_max=1_000)
        # A name of its own for each direction: the oracle is shared.
        chosen = replace(chosen, source=f"A{len(direction)}", target=f"B{len(direction)}")
        with runner(chosen) as running:
            for seed in (1, 2):
                fill(source, seed)
                wait_for_markers(source.bootstrap, "in", 2)
                while running.round():
                    pass
            wait_for_markers(target.bootstrap, chosen.remote("in"), 2)
            wait_for_markers(target.bootstrap, chosen.journal)
            with Admin(bootstrap_servers=target.bootstrap) as admin:
                admin.group_offsets(chosen.group, require_stable=True)
            running.driver.keep(whole=True)
            for partition in (0, 1):
                here = with_offsets(source.bootstrap, "in", partition)
                there = with_offsets(target.bootstrap, chosen.remote("in"), partition)
                assert [plain for _, plain in here] == [plain for _, plain in there]
                for (offset, _), (copied, _) in zip(here, there, strict=True):
                    assert running.driver.translate(TopicPartition("in", partition), offset) == copied


def test_a_copy_of_apache_kafka_is_exact_too(kafka: Oracle) -> None:
    with Broker() as broker:
        topic_on(kafka)
        fill(kafka, 3)
        wait_for_markers(kafka.bootstrap, "in", 2)
        copy(link(kafka.bootstrap, broker.bootstrap, mode="exact"))
        for partition in (0, 1):
            assert log_of(kafka.bootstrap, "in", partition) == log_of(broker.bootstrap, "A.in", partition)
            assert records(kafka.bootstrap, "in", partition) == records(broker.bootstrap, "A.in", partition)
