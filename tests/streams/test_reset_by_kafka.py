"""Apache Kafka's own reset tool on our application."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.testing import Broker
from tests.oracle.cluster import SCRIPT, why_not
from tests.pipelines.local import query
from tests.streams.test_driver import word_count

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


def test_an_app_begins_again_after_kafka_streams_application_reset() -> None:
    with Broker() as broker:
        for topic in ("lines", "word-counts"):
            broker.create_topic(topic, partitions=2)
        app = word_count()
        app.use(**{"bootstrap.servers": broker.bootstrap})
        with query(app.pipeline()) as running:
            broker.send("lines", "hello world hello", key="k")
            running.drain()
        broker.advance(minutes=2)  # the driver's session ends
        tool = [sys.executable, str(SCRIPT), "run", "kafka-streams-application-reset"]
        words = ["--bootstrap-server", broker.bootstrap, "--application-id", "word-count"]
        done = subprocess.run(
            [*tool, *words, "--input-topics", "lines"], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        left = [topic for topic in broker.topics() if topic.startswith("word-count-")]
        assert left == []
        with query(app.pipeline()) as running:
            running.drain()
        counts = {r.key: int.from_bytes(r.value) for r in broker.records("word-counts")}
        assert counts == {b"hello": 2, b"world": 1}
        assert len(broker.records("word-counts")) == 4  # both times
