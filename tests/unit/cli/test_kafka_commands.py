"""The parts of the `kafka-*` commands that need no broker, or hardly any."""

import argparse
import os
import subprocess
from pathlib import Path

import pytest

from ottla.cli.aliases import TOOLS
from ottla.cli.kafka_console_producer import Line, LineReader
from ottla.cli.kafka_formatters import Default
from ottla.cli.kafka_get_offsets import _filters
from ottla.cli.kafka_options import list_pairs
from ottla.cli.main import COMMANDS, main
from ottla.cli.options import UsageError
from ottla.client.values import ConsumerRecord
from ottla.testing import Broker


def test_a_line_is_a_value_unless_told_otherwise() -> None:
    assert LineReader({}).read(b"a\tb", 1) == Line(None, b"a\tb")


def test_a_line_with_headers_a_key_and_a_value() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.read(b"h1:v1,h2:NULL\tkey\tvalue\twith tab", 1) == Line(
        b"key", b"value\twith tab", (("h1", b"v1"), ("h2", None))
    )
    assert reader.read(b"h:v\tNULL\tNULL", 1) == Line(None, None, (("h", b"v"),))
    assert reader.read(b"NULL\tkey\tvalue", 1) == Line(b"key", b"value")


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


def test_every_tool_of_kafkas_has_its_script() -> None:
    theirs = {name for name, (_, text) in COMMANDS.items() if text == "as Apache Kafka's tool of this name"}
    assert set(TOOLS) == theirs


@pytest.mark.parametrize("command", [name for name in COMMANDS if name.startswith("kafka-")])
def test_every_command_has_help_and_needs_a_server(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert status(command) == 1
    assert "bootstrap-server" in capsys.readouterr().err


def status(*words: str) -> int:
    """The exit status, told or raised."""
    try:
        return main(words)
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("kafka-topics --nonsense", "unrecognized"),
        ("kafka-topics --create", 'Missing required argument "[topic]"'),
        ("kafka-topics --alter --topic t", 'Missing required argument "[partitions]"'),
        ("kafka-topics --alter --topic t --partitions 2 --config a=b", '"[config]" can\'t be used'),
        ("kafka-topics --create --topic t --replica-assignment 1 --partitions 1", '"[partitions]" can\'t be'),
        ("kafka-topics --list --create", "exactly one action"),
        ("kafka-console-consumer --topic t --include t", "Exactly one of"),
        ("kafka-console-consumer --topic t --offset 3", "The partition is required"),
        ("kafka-console-consumer --topic t --partition 0 --offset 3 --from-beginning", "cannot be specified"),
        ("kafka-console-consumer --topic t --group a --command-property group.id=b", "do not agree"),
        ("kafka-console-consumer --topic t --from-beginning --command-property auto.offset.reset=latest", "Can't"),
        ("kafka-console-producer --topic t --line-reader my.Reader", "not known here"),
        ("kafka-consumer-groups --describe", "takes one of these options"),
        ("kafka-consumer-groups --describe --group g --members --state", "takes at most one"),
        ("kafka-consumer-groups --describe --group g --all-groups", "can't be used"),
        ("kafka-consumer-groups --list --state nonsense", "Valid states are"),
        ("kafka-consumer-groups --list --type nonsense", "Valid types are"),
        ("kafka-consumer-groups --delete-offsets --group g", "[topic], [group]"),
        ("kafka-consumer-groups --reset-offsets --topic t --to-earliest --execute", "takes one of these"),
        ("kafka-consumer-groups --reset-offsets --group g --topic t --execute", "one of the following scenarios"),
        ("kafka-consumer-groups --reset-offsets --group g --to-earliest --execute", "reset scopes"),
        ("kafka-consumer-groups --reset-offsets --group g --topic t --to-earliest --to-latest", "can't be used"),
        ("kafka-consumer-groups --reset-offsets --group g --topic t --to-latest --execute --dry-run", "only accepts"),
        ("kafka-configs --describe --entity-type nonsense", "Invalid entity type"),
        ("kafka-configs --alter --topic t --add-config a=1 --add-config-file f", "Only one of"),
        ("kafka-configs --alter --topic t", "At least one of"),
        ("kafka-e2e-latency --topic t --num-records 0 --acks 1 --record-size 9", "needs one record or more"),
        ("kafka-get-offsets --time nonsense", "Malformed time argument"),
        ("kafka-get-offsets --topic t --topic-partitions t:0", "cannot be used"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *words = line.split()
    assert status(command, "--bootstrap-server", "127.0.0.1:1", *words) == 1
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    "words",
    [
        ("kafka-topics", "--describe", "--topic", "*"),
        ("kafka-topics", "--delete", "--topic", "a["),
        ("kafka-get-offsets", "--topic", "*"),
        ("kafka-get-offsets", "--topic-partitions", "a[:0"),
    ],
)
def test_what_is_no_regular_expression_is_said(words, capsys) -> None:
    with Broker() as broker:
        assert main([words[0], "--bootstrap-server", broker.bootstrap, *words[1:]]) == 1
    out, err = capsys.readouterr()
    assert "is an invalid regex" in out + err
