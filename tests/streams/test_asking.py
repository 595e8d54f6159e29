"""Stores asked from outside: by `app.store`, `ottla streams query` and over HTTP; and the other commands."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.pipelines.state.spec import StoreSpec
from ottla.streams import App
from ottla.streams.errors import BadTopology
from ottla.streams.loading import load
from ottla.streams.queries import Follower
from ottla.streams.serving import StoreServer
from ottla.testing import Broker
from tests.pipelines.local import Query, query

PROGRAM = """
from ottla.streams import App, int64, string, tumbling

app = App("word-count")
words = app.stream("lines", value=string).flat_map_values(str.split)
words.group_by(lambda key, word: word).count(name="counts").to_stream().to("word-counts", value=int64)
lengths = app.stream("numbers", value=int64).group_by_key().window(tumbling(seconds=10)).count("minutes")
lengths.to_stream().to("windows")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "words.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic in ("lines", "word-counts", "numbers", "windows"):
            broker.create_topic(topic, partitions=2)
        yield broker


def loaded(file: str, broker: Broker) -> App:
    app = load(file)
    app.use(**{"bootstrap.servers": broker.bootstrap})
    return app


def feed(broker: Broker, running: Query, line: str) -> None:
    broker.send("lines", line, key="k")
    running.drain()


def test_a_store_is_followed_while_the_app_runs_and_read_when_it_is_down(file: str, broker: Broker) -> None:
    app = loaded(file, broker)
    with pytest.raises(BadTopology, match="no topic word-count-counts-changelog yet"):
        app.store("counts")
    with pytest.raises(BadTopology, match="no store nothing; it has counts, minutes"):
        app.store("nothing")
    with query(app.pipeline()) as running:
        feed(broker, running, "hello world hello")
        counts = app.store("counts")
        assert counts["hello"] == 2
        feed(broker, running, "hello again")
        assert counts["hello"] == 3
        assert counts.range("b", "w~") == [("hello", 3), ("world", 1)]
    assert dict(app.store("counts")) == {"hello": 3, "world": 1, "again": 1}
    with pytest.raises(KeyError):
        counts["nobody"]


def test_windows_are_asked_by_time(file: str, broker: Broker) -> None:
    app = loaded(file, broker)
    with query(app.pipeline()) as running:
        for at in (1_000, 12_000, 13_000):
            broker.send("numbers", (7).to_bytes(8), key="a", timestamp_ms=at)
        running.drain()
    store = app.store("minutes")
    assert [(row.key, row.start_ms, row.value) for row in store.rows("a", from_ms=10_000)] == [
        ("a", 10_000, 2)
    ]
    assert store["a", 10_000] == 2


def test_stores_over_http(file: str, broker: Broker) -> None:
    app = loaded(file, broker)
    with query(app.pipeline()) as running:
        feed(broker, running, "hello world hello")
    with StoreServer(app) as server:

        def get(path: str) -> object:
            with urlopen(server.url + path, timeout=30) as answer:
                return json.load(answer)

        assert get("/stores") == [{"name": "counts", "kind": "keyed"}, {"name": "minutes", "kind": "window"}]
        assert get("/stores/counts/hello") == {"key": "hello", "value": 2}
        assert get("/stores/counts?first=i") == [{"key": "world", "value": 1}]
        assert get("/stores/minutes") == []
        for path in ("/stores/counts/nobody", "/stores/none", "/else"):
            with pytest.raises(HTTPError) as refused:
                get(path)
            assert refused.value.code == 404
            refused.value.close()


def test_the_commands(file: str, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--bootstrap", broker.bootstrap]
    app = loaded(file, broker)
    with query(app.pipeline()) as running:
        feed(broker, running, "hello world hello")
    assert main(["streams", "query", file, "counts", "hello", *where]) == 0
    assert capsys.readouterr().out == "2\n"
    assert main(["streams", "query", file, "counts", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"key": "hello", "value": 2}
    assert main(["streams", "query", file, "counts", *where]) == 0
    assert capsys.readouterr().out.split() == ["KEY", "VALUE", "hello", "2", "world", "1"]
    assert main(["streams", "query", file, "counts", "nobody", *where]) == 1
    assert "has no nobody" in capsys.readouterr().err
    assert main(["streams", "status", file, "--json", *where]) == 0
    assert {task["errors"] for task in json.loads(capsys.readouterr().out)} == {0}
    assert main(["streams", "reset", "word-count", *where]) == 0
    assert "would delete" in capsys.readouterr().out
    broker.advance(minutes=2)  # the driver's session ends
    assert main(["streams", "reset", file, "--execute", *where]) == 0
    assert "deleted word-count-counts-changelog" in capsys.readouterr().out


def test_a_topology_is_drawn(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "describe", file]) == 0
    assert capsys.readouterr().out.startswith("Topologies:\n   Sub-topology: 0")
    assert main(["streams", "describe", file, "--format", "mermaid"]) == 0
    drawn = capsys.readouterr().out
    assert drawn.startswith("flowchart TD") and "word-count-counts-repartition" in drawn
    assert main(["streams", "describe", file, "--format", "svg"]) == 0
    picture = ElementTree.fromstring(capsys.readouterr().out)
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "KSTREAM-SOURCE-0000000000" in texts and "lines" in texts


def test_files_without_an_app_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, several = tmp_path / "empty.py", tmp_path / "several.py"
    empty.write_text("x = 1\n")
    several.write_text("from ottla.streams import App\na, b = App('a'), App('b')\n")
    for path, text in (
        (tmp_path / "none.py", "there is no file"),
        (empty, "has no App at its top level"),
        (several, "has several apps: a, b"),
    ):
        assert main(["streams", "describe", str(path)]) == 1
        assert text in capsys.readouterr().err
    assert main(["streams", "describe", str(several), "--app", "b"]) == 0


@pytest.mark.parametrize("age_ms, rows", [(60_000, 1), (0, 0)])
def test_a_row_whose_deletion_is_gone_from_the_changelog_is_forgotten_in_time(
    broker: Broker, age_ms: int, rows: int
) -> None:
    """Who has not looked for as long as deletions are kept reads everything again."""
    broker.create_topic("changelog", partitions=1)
    spec = StoreSpec("rows", (("value", "bytes"),), timestamped=True)
    client = {"bootstrap.servers": broker.bootstrap}
    follower = Follower(client, spec, "changelog", delete_retention_ms=age_ms)
    broker.send("changelog", "v", key="k")
    assert len(follower.look()) == 1
    with Admin(client) as admin:
        # As if a deletion had come and was compacted away.
        admin.delete_records({TopicPartition("changelog", 0): 1})
    assert len(follower.look()) == rows
    follower.close()
