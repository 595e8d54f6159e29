"""The course's exercise, word for word: a file into a topic, the topic into a file, with connect-standalone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.connect.waiting import wait_for
from tests.oracle.ports import free_ports

pytestmark = pytest.mark.slow

# The settings that Apache Kafka's download has in config/.
STANDALONE = """
bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.file.filename=/tmp/connect.offsets
offset.flush.interval.ms=10000
listeners=http://127.0.0.1:{port}
"""
SOURCE = "name=local-file-source\nconnector.class=FileStreamSource\ntasks.max=1\nfile=test.txt\ntopic=connect-test\n"
SINK = "name=local-file-sink\nconnector.class=FileStreamSink\ntasks.max=1\nfile=test.sink.txt\ntopics=connect-test\n"


@pytest.fixture
def kafka_folder(tmp_path: Path, broker: Broker) -> Path:
    """As the unpacked download: bin and config."""
    subprocess.run(
        [sys.executable, "-m", "ottla", "aliases", str(tmp_path / "bin")], check=True, capture_output=True
    )
    config = tmp_path / "config"
    config.mkdir()
    plain = STANDALONE.format(bootstrap=broker.bootstrap, port=free_ports(1)[0])
    (config / "connect-standalone.properties").write_text(plain)
    (config / "connect-file-source.properties").write_text(SOURCE)
    (config / "connect-file-sink.properties").write_text(SINK)
    return tmp_path


@pytest.fixture
def connect(kafka_folder: Path) -> Iterator[subprocess.Popen[str]]:
    (kafka_folder / "test.txt").write_text("foo\nbar\n")
    files = [
        f"config/{name}.properties"
        for name in ("connect-standalone", "connect-file-source", "connect-file-sink")
    ]
    with (kafka_folder / "connect.log").open("w") as log:
        process = subprocess.Popen(
            ["bin/connect-standalone.sh", *files], cwd=kafka_folder, text=True, stdout=log, stderr=log
        )
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) == 0


def test_a_file_goes_through_a_topic_into_a_file(
    kafka_folder: Path, connect: subprocess.Popen[str], broker: Broker
) -> None:
    sink = kafka_folder / "test.sink.txt"

    def shows(text: str) -> bool:
        assert connect.poll() is None, (kafka_folder / "connect.log").read_text()[-3000:]
        return sink.exists() and sink.read_text() == text

    wait_for(lambda: shows("foo\nbar\n"), timeout_s=240)
    values = [record.value.decode() for record in broker.records("connect-test")]
    assert values == [
        '{"schema":{"type":"string","optional":false},"payload":"foo"}',
        '{"schema":{"type":"string","optional":false},"payload":"bar"}',
    ]
    with (kafka_folder / "test.txt").open("a") as file:
        file.write("Another line\n")
    wait_for(lambda: shows("foo\nbar\nAnother line\n"), timeout_s=120)
