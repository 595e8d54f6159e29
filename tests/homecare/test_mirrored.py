"""`--mirrored` without Spark: what devices send to a broker of their own is at the centre, whatever is killed."""

from __future__ import annotations

import time
from pathlib import Path

from ottla.client import Producer
from ottla.homecare import topics
from ottla.homecare.mirrored import Edge
from ottla.testing import Broker


def test_what_devices_send_arrives_at_the_centre_under_the_same_names(tmp_path: Path) -> None:
    with Broker() as centre:
        client = {"bootstrap.servers": centre.bootstrap}
        topics.create(client, 2)
        edge = Edge(tmp_path / "edge", client)
        try:
            edge.start(2)
            for part in (0, 1):
                with Producer(bootstrap_servers=edge.bootstrap) as producer:
                    for i in range(50):
                        producer.send(topics.HEARTBEAT, b"%d" % (50 * part + i), b"d%d" % (i % 7))
                deadline = time.monotonic() + 90
                while len(centre.records(topics.HEARTBEAT)) < 50 * (part + 1):
                    assert time.monotonic() < deadline, edge.mirror and edge.mirror.tail()
                    time.sleep(0.05)
                edge.restart_mirror()
        finally:
            edge.close()
        found = sorted(int(record.value or b"") for record in centre.records(topics.HEARTBEAT))
        assert found == list(range(100))
