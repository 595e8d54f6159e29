"""Apache Kafka's own mirror classes read what this mirror writes."""

from __future__ import annotations

import subprocess

import pytest

from ottla.client import Admin, Producer
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.testing import Broker
from tests.mirror.local import link, runner
from tests.oracle.programs import command, why_not_java

pytestmark = [pytest.mark.oracle, pytest.mark.skipif(bool(why_not_java()), reason=why_not_java() or "")]


def test_javas_mirror_client_reads_our_heartbeats_checkpoints_and_topics() -> None:
    with Broker() as source, Broker() as target:
        source.create_topic("in", partitions=2)
        with Producer(bootstrap_servers=source.bootstrap) as producer:
            for i in range(200):
                producer.send("in", b"%d" % i, partition=i % 2)
        chosen = link(source.bootstrap, target.bootstrap, emit_heartbeats=True, bytes_max=1_000)
        with runner(chosen) as running:
            while running.round():
                pass
            with Admin(bootstrap_servers=source.bootstrap) as admin:
                committed = {TopicPartition("in", 0): OffsetAndMetadata(77, "here")}
                admin.alter_group_offsets("g", committed)
            running.driver.keep(whole=True)
            running.run_once()
            translated = running.driver.translate(TopicPartition("in", 0), 77)
        done = subprocess.run(
            command("MirrorReader", target.bootstrap, "A", "g"), capture_output=True, text=True, timeout=120
        )
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert told == {
        "heartbeats": "[A.heartbeats, heartbeats]",
        "checkpoints": "[A.checkpoints.internal]",
        "upstream": "[A]",
        "remote": "[A.heartbeats, A.in]",
        "hops": "1",
        "offsets": f"{{A.in-0={translated} here}}",
    }, done.stderr
