"""Apache Kafka's own MirrorMaker 2 between two Ottla brokers, unmodified, exactly once."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from ottla.client import Admin, Producer
from ottla.client.values import OffsetAndMetadata, TopicPartition
from tests.mirror.local import records
from tests.oracle.cluster import start_tool, why_not
from tests.oracle.ottla import Ottla

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "")
def test_mirrormaker_works_between_two_brokers_of_ours(tmp_path: Path) -> None:
    with Ottla() as source, Ottla() as target:
        with Producer(bootstrap_servers=source.bootstrap) as producer:
            for i in range(1_000):
                producer.send("in", b"%d" % i, partition=0)
        with Admin(bootstrap_servers=source.bootstrap) as admin:
            admin.alter_group_offsets("g", {TopicPartition("in", 0): OffsetAndMetadata(1_000)})
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {source.bootstrap}\nB.bootstrap.servers = {target.bootstrap}\n"
            "A->B.enabled = true\nA->B.topics = in\nA->B.groups = g\nreplication.factor = 1\n"
            "checkpoints.topic.replication.factor = 1\nheartbeats.topic.replication.factor = 1\n"
            "offset-syncs.topic.replication.factor = 1\noffset.storage.replication.factor = 1\n"
            "status.storage.replication.factor = 1\nconfig.storage.replication.factor = 1\n"
            "exactly.once.source.support = enabled\nsync.group.offsets.enabled = true\n"
            "sync.group.offsets.interval.seconds = 1\nemit.checkpoints.interval.seconds = 1\n"
            "refresh.topics.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n"
        )
        with (tmp_path / "mm2.log").open("w") as log:
            process = start_tool("connect-mirror-maker", str(file), stdout=log, stderr=subprocess.STDOUT)
        try:
            copied = wait_for(lambda: len(_copied(target)) >= 1_000, process)
            assert copied
            wait_for(lambda: "A.checkpoints.internal" in _topics(target), process)
        finally:
            process.kill()
            process.wait()
        assert records(target.bootstrap, "A.in", 0) == records(source.bootstrap, "in", 0)


def _topics(broker: Ottla) -> set[str]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return set(admin.list_topics())


def _copied(broker: Ottla) -> list[object]:
    return [*records(broker.bootstrap, "A.in", 0)] if "A.in" in _topics(broker) else []


def wait_for(check: object, process: subprocess.Popen[str]) -> bool:
    deadline = time.monotonic() + 240
    while not check():  # type: ignore[operator]
        assert process.poll() is None, "MirrorMaker has ended"
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return True
