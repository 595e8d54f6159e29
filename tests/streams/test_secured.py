"""An application whose every connection is TLS with a login."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import streams
from ottla.cli.main import main
from ottla.streams import App, int64, string
from ottla.streams.loading import load
from ottla.testing import Broker
from tests.pipelines.local import query


def test_words_are_counted_over_sasl_ssl_by_a_user_with_rights() -> None:
    lines = [f"w{number % 5}" for number in range(20)]
    with Broker(security="SASL_SSL", users={"words": "secret"}, authorizer=True) as broker:
        for topic in ("lines", "word-counts"):
            broker.create_topic(topic, partitions=2)
        broker.allow("words", "ALL", topic="*")
        broker.allow("words", "ALL", group="*")
        broker.allow("words", "ALL", transactional_id="*")
        login = broker.client_settings("words", mechanism="SCRAM-SHA-256")
        settings: dict[str, Any] = {
            name.replace(".", "_"): value for name, value in login.items() if name != "bootstrap.servers"
        }
        app = App("word-count", bootstrap=broker.bootstrap, **settings)
        counts = app.stream("lines", value=string).group_by(lambda key, word: word).count(name="counts")
        counts.to_stream().to("word-counts", value=int64)
        with query(app.pipeline()) as running:
            for line in lines:
                broker.send("lines", line, key="k", timestamp_ms=1_000)
            running.drain()
        found = {
            record.key.decode(): int.from_bytes(record.value) for record in broker.records("word-counts")
        }
    assert found == Counter(lines)


PROGRAM = """
from ottla.streams import App, string

app = App("word-count", "127.0.0.1:1", default_api_timeout_ms=2_000, request_timeout_ms=2_000)
app.stream("lines", value=string).group_by(lambda key, word: word).count(name="counts")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "words.py"
    path.write_text(PROGRAM)
    return str(path)


def test_a_query_logs_in_with_the_settings_of_the_command_line(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(security="SASL_PLAINTEXT", users={"words": "secret"}) as broker:
        broker.create_topic("lines", partitions=2)
        login = broker.client_settings("words")
        app = load(file)
        app.use(**login, **{"default.api.timeout.ms": 60_000, "request.timeout.ms": 30_000})
        with query(app.pipeline()) as running:
            broker.send("lines", "hello", key="k")
            running.drain()
        lines = [f"{name}={value}" for name, value in {**login, "request.timeout.ms": 30_000}.items()]
        (tmp_path / "ottla").mkdir()
        for path in (tmp_path / "login.properties", tmp_path / "ottla" / "ward.properties"):
            path.write_text("\n".join(lines))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        ways = [
            ["--command-config", str(tmp_path / "login.properties")],
            ["--profile", "ward"],
            [part for line in lines for part in ("-X", line)],
        ]
        for way in ways:
            assert main(["streams", "query", file, "counts", "hello", "--timeout", "90", *way]) == 0
            assert capsys.readouterr().out == "1\n"


def test_only_a_timeout_that_is_given_wins_over_the_program(file: str) -> None:
    def timeout_ms(*options: str) -> int:
        parser = argparse.ArgumentParser()
        streams.add_arguments(parser)
        app = streams._app(parser.parse_args(["run", file, *options]))
        return int(app.pipeline().client["default.api.timeout.ms"])

    assert timeout_ms() == 2_000
    assert timeout_ms("--timeout", "7") == 7_000
    assert timeout_ms("-X", "default.api.timeout.ms=60000") == 60_000
