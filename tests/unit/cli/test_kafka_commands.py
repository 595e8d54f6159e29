"""The parts of the `kafka-*` commands that need no broker."""

import argparse
import os
import subprocess
from pathlib import Path

import pytest

from ottla.cli.kafka_console_producer import Line, LineReader
from ottla.cli.kafka_formatters import Default
from ottla.cli.kafka_get_offsets import _filters
from ottla.cli.kafka_options import list_pairs
from ottla.cli.main import COMMANDS, main
from ottla.cli.options import UsageError
from ottla.client.values import ConsumerRecord


def test_a_line_is_a_value_unless_told_otherwise() -> None:
    assert LineReader({}).read(b"a\tb", 1) == Line(None, b"a\tb")


def test_a_line_with_headers_a_key_and_a_value() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.read(b"h1:v1,h2:NULL\tkey\tvalue\twith tab", 1) == Line(
        b"key", b"value\twith tab", (("h1", b"v1"), ("h2", None))
    )
    assert reader.read(b"h:v\tNULL\tNULL", 1) == Line(None, None, (("h", b"v"),))


def test_a_line_without_its_separator_is_refused_or_taken_as_a_value() -> None:
    keyed = {"parse.key": "true", "key.separator": ":"}
    assert LineReader(keyed).read(b"k:v:w", 1) == Line(b"k", b"v:w")
    with pytest.raises(UsageError, match="No key separator found on line number 7: 'plain'"):
        LineReader(keyed).read(b"plain", 7)
    assert LineReader({**keyed, "ignore.error": "true"}).read(b"plain", 7) == Line(None, b"plain")


def test_a_record_is_printed_as_kafkas_formatter_prints_it() -> None:
    record = ConsumerRecord("t", 3, 7, 123, None, b"v", [("h", b"x"), ("g", None)], 1, 5)
    everything = {
        f"print.{each}": "true"
        for each in ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
    }
    shown = b"LogAppendTime:123\tPartition:3\tOffset:7\tEpoch:5\th:x,g:null\tnull\tv\n"
    assert Default(everything)(record) == shown
    assert Default({})(record) == b"v\n"
    own = {"print.key": "true", "key.separator": "=", "line.separator": "|", "null.literal": "-"}
    assert Default(own)(record) == b"-=v|"


def test_deserializers_by_their_java_names() -> None:
    record = ConsumerRecord("t", 0, 0, 0, b"\0\0\0\7", b"\xff" * 8, [])
    properties = {
        "print.key": "true",
        "key.deserializer": "org.apache.kafka.common.serialization.IntegerDeserializer",
        "value.deserializer": "org.apache.kafka.common.serialization.LongDeserializer",
    }
    assert Default(properties)(record) == b"7\t-1\n"
    with pytest.raises(UsageError, match="not known here"):
        Default({"key.deserializer": "AvroDeserializer"})


def test_settings_with_lists_in_brackets() -> None:
    assert list_pairs("a=1,cleanup.policy=[compact,delete],b=2") == {
        "a": "1",
        "cleanup.policy": "compact,delete",
        "b": "2",
    }


@pytest.mark.parametrize(
    ("partitions", "topic_partitions", "wanted"),
    [
        (None, None, {("a", 0), ("a", 1), ("a", 2), ("b", 0)}),
        ("1,2", None, {("a", 1), ("a", 2)}),
        (None, "a:0-2,b", {("a", 0), ("a", 1), ("b", 0)}),
        (None, "a:1-", {("a", 1), ("a", 2)}),
        (None, ":0", {("a", 0), ("b", 0)}),
    ],
)
def test_filters_of_kafka_get_offsets(
    partitions: str | None, topic_partitions: str | None, wanted: set[tuple[str, int]]
) -> None:
    arguments = argparse.Namespace(topic=None, partitions=partitions, topic_partitions=topic_partitions)
    there = [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    filters = _filters(arguments)
    found = {(t, p) for t, p in there if any(x.fullmatch(t) and low <= p < high for x, low, high in filters)}
    assert found == wanted


def test_aliases_are_scripts_that_run_and_are_never_written_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["aliases", str(tmp_path)]) == 0
    script = tmp_path / "kafka-topics.sh"
    assert os.access(script, os.X_OK)
    shown = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert shown.stdout.startswith("4.3")
    assert main(["aliases", str(tmp_path)]) == 0  # again: they are ours
    script.write_text("#!/bin/sh\necho mine\n")
    assert main(["aliases", str(tmp_path)]) == 1
    assert "--force" in capsys.readouterr().err
    assert script.read_text() == "#!/bin/sh\necho mine\n"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name.startswith("kafka-")])
def test_every_command_has_help_and_needs_a_server(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 2
    assert "--bootstrap-server" in capsys.readouterr().err
