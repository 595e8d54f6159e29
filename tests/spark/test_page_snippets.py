"""Blocks of the documentation that need Spark, run as printed; what is endless is stopped, or ends by `once`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.testing import Broker
from tests.deploy.pages import ROOT, blocks

pytest.importorskip("pyspark", reason="needs the extra spark")


def run(page: str, number: int, namespace: dict[str, Any], **replaced: str) -> None:
    text = list(blocks(ROOT / page))[number].text
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    exec(compile(text, f"{page}, block {number}", "exec"), namespace)


def test_squares_are_written_read_as_a_stream_and_counted(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        address = {"localhost:9092": broker.bootstrap}
        namespace: dict[str, Any] = {"__name__": "page"}
        run("docs/spark.md", 1, namespace, **address, **{'"checkpoint"': repr(str(tmp_path / "first"))})
        namespace["query"].processAllAvailable()
        namespace["query"].stop()
        assert len(broker.records("copies")) == 1000
        namespace["events"] = namespace["squares"]
        run("docs/spark.md", 3, namespace, **address, **{'"checkpoint"': repr(str(tmp_path / "second"))})
        namespace["query"].processAllAvailable()
        namespace["query"].stop()
        assert len(broker.records("counts")) == 1000


def test_the_pipeline_of_its_page_counts_words(spark: Any, tmp_path: Path) -> None:
    with Broker() as broker:
        for word in ("be", "or", "be"):
            broker.send("words", "x", key=word)
        broker.create_topic("word-counts")
        once = {'state_dir="/var/lib/word-count")': f"state_dir={str(tmp_path)!r}), once=True"}
        run("docs/pipelines.md", 0, {"__name__": "page"}, **{"localhost:9092": broker.bootstrap}, **once)
        counts = {record.key: record.value for record in broker.records("word-counts")}
        assert counts == {b"be": b"2", b"or": b"1"}


def test_streams_become_dataframes_and_back(spark: Any) -> None:
    with Broker() as broker:
        broker.create_topic("lines")
        broker.create_topic("words")
        namespace: dict[str, Any] = {"__name__": "page", "spark": spark}
        run("docs/streams.md", 0, namespace, **{"localhost:9092": broker.bootstrap})
        run("docs/streams.md", 5, namespace)
        assert namespace["frame"].columns == ["key", "value", "timestamp", "partition", "offset"]
        assert namespace["scored"].isStreaming
