"""An application on a broker, run by pipelines as Spark runs it; workers are replaced on the way."""

from __future__ import annotations

from collections import Counter

from ottla.streams import App, int64, string
from ottla.testing import Broker
from tests.pipelines.local import query


def test_words_are_counted_exactly_once_across_workers() -> None:
    lines = [f"w{number % 7} w{number % 3}" for number in range(40)]
    with Broker() as broker:
        broker.create_topic("lines", partitions=2)
        broker.create_topic("word-counts", partitions=2)
        app = App("word-count", bootstrap=broker.bootstrap)
        words = app.stream("lines", value=string).flat_map_values(str.split)
        counts = words.group_by(lambda key, word: word).count(name="counts")
        counts.to_stream().to("word-counts", value=int64)
        with query(app.pipeline()) as running:
            for at in range(0, len(lines), 10):
                for number, line in enumerate(lines[at : at + 10]):
                    broker.send("lines", line, key=f"k{number}", timestamp_ms=1_000 + at)
                running.drain()
                running.replace_workers()
        found: dict[str, list[int]] = {}
        for record in broker.records("word-counts"):
            found.setdefault(record.key.decode(), []).append(int.from_bytes(record.value))
        assert {word: seen[-1] for word, seen in found.items()} == Counter(" ".join(lines).split())
        assert all(seen == sorted(set(seen)) for seen in found.values())
        # The changelog is Kafka's: eight bytes, and the time of the latest record.
        changelog = broker.records("word-count-counts-changelog")
        assert {len(record.value) for record in changelog} == {8}
        assert max(record.timestamp_ms for record in changelog) == 1_030
