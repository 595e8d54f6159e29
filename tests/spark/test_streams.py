"""Applications of `ottla.streams` as Spark runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from ottla.streams import App, int64, string
from ottla.streams.loading import load, ship
from ottla.testing import Broker

EXAMPLES = Path(__file__).parents[2] / "examples" / "streams"


class Topic:
    """A topic written and read as JSON."""

    def __init__(self, topics: Any, name: str) -> None:
        self._topics, self._name = topics, name

    def write(self, *records: tuple[str, Any]) -> None:
        rows = [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in records]
        frame = self._topics.spark.createDataFrame(rows, "key string, value string").coalesce(1)
        self._topics.write(frame, self._name)

    def rows(self) -> list[tuple[str, bytes]]:
        found = self._topics.read(self._topics.settled(self._name)).orderBy("partition", "offset").collect()
        return [(bytes(row.key).decode(), bytes(row.value)) for row in found]


def topic_maker(topics: Any, make_topic: Callable[..., str]) -> Callable[..., Topic]:
    def make(name: str) -> Topic:
        make_topic(name=name, partitions=2)
        return Topic(topics, name)

    return make


def run(name: str, bootstrap: str, spark: Any) -> App:
    app = load(EXAMPLES / f"{name}.py")
    ship()
    app.use(**{"bootstrap.servers": bootstrap})
    app.run(spark, once=True)
    return app


def test_examples_run_for_real(spark: Any, topics: Any, make_topic: Callable[..., str]) -> None:
    make = topic_maker(topics, make_topic)
    lines, word_counts = make("lines"), make("word-counts")
    lines.write(*[(f"k{n}", f"w{n % 3} w{n % 5} W1") for n in range(60)])
    app = run("word_count", topics.bootstrap, spark)
    words = Counter(word for n in range(60) for word in (f"w{n % 3}", f"w{n % 5}", "w1"))
    assert {word: int.from_bytes(value) for word, value in word_counts.rows()} == words
    topics.settled("word-count-counts-changelog")
    assert dict(app.store("counts")) == words

    customers, orders = make("customers"), make("orders")
    enriched, unknown = make("enriched-orders"), make("unknown-customers")
    customers.write(*[(f"c{n}", {"name": f"N{n}", "tier": "gold"}) for n in range(4)])
    orders.write(*[(str(n), {"customer": f"c{n % 5}", "amount": 100}) for n in range(10)])
    run("enrichment", topics.bootstrap, spark)
    assert len(enriched.rows()) + len(unknown.rows()) == 10
    assert {json.loads(value)["customer"] for _, value in unknown.rows()} >= {"c4"}

    events, unique = make("events"), make("unique-events")
    events.write(*[(f"k{n}", {"id": str(n % 7)}) for n in range(30)])
    run("dedup", topics.bootstrap, spark)
    assert sorted(json.loads(value)["id"] for _, value in unique.rows()) == [str(n) for n in range(7)]


def test_streams_go_to_spark_and_back(
    spark: Any, topics: Any, make_topic: Callable[..., str], checkpoint: str, tmp_path: Path
) -> None:
    make = topic_maker(topics, make_topic)
    source, upper, longest = make("frames-in"), make("frames-upper"), make("frames-out")
    source.write(*[(f"k{n % 2}", "x" * n) for n in range(1, 6)])
    app = App("frames", bootstrap=topics.bootstrap)
    words = app.stream("frames-in", value=string)
    frame = words.map_values(str.upper, value=string).dataframe(spark, "frames-upper")
    lengths = frame.selectExpr("key", "cast(length(value) as string) as value")
    back = app.from_dataframe(lengths, "lengths", value=string)
    back.group_by_key().reduce(lambda a, b: max(a, b, key=int), name="longest").to_stream().to("frames-out")
    for _ in range(2):  # what Spark reads in the second run is what the first one wrote
        app.run(spark, once=True, state_dir=str(tmp_path))
    assert len(upper.rows()) == 5
    assert dict(longest.rows()) == {"k0": b"4", "k1": b"5"}
    counted = App("numbers", bootstrap=topics.bootstrap).stream("frames-in", value=int64)
    assert counted.dataframe(spark).schema["value"].dataType.simpleString() == "bigint"


def test_the_command_runs_a_file_and_stops_gracefully() -> None:
    with Broker() as broker:
        for topic in ("lines", "word-counts"):
            broker.create_topic(topic, partitions=2)
        broker.send("lines", "hello world hello", key="k")
        file = str(EXAMPLES / "word_count.py")
        command = [sys.executable, "-m", "ottla", "streams", "run", file, "--bootstrap", broker.bootstrap]
        done = subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert {r.key: int.from_bytes(r.value) for r in broker.records("word-counts")} == {
            b"hello": 2,
            b"world": 1,
        }
        running = subprocess.Popen([*command, "--master", "local[1]"], start_new_session=True)
        try:
            broker.send("lines", "hello", key="k")
            deadline = time.monotonic() + 240
            while len(broker.records("word-counts")) < 3:
                assert time.monotonic() < deadline and running.poll() is None
            running.send_signal(signal.SIGTERM)
            assert running.wait(90) == 0
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        assert broker.transactions() == {} or "Ongoing" not in broker.transactions().values()
