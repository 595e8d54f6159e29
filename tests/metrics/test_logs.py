"""Logs: lines of JSON, and levels that change while a broker runs."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import errors
from ottla.cli.main import main
from ottla.client import Admin
from ottla.server.json_logs import JsonFormatter
from ottla.testing import Broker, Cluster

OTTLA = str(Path(sys.executable).with_name("ottla"))


@pytest.fixture
def levels():
    """Loggers belong to the process: as they were, afterwards."""
    names = [None, "ottla.groups", "ottla.server"]
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_every_line_is_an_object_with_what_it_is_about():
    command = [OTTLA, "start", "--memory", "--port", "0", "--log-format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[1]
        with Admin({"bootstrap.servers": address}) as admin:
            admin.alter_configs("broker-logger", "1", set_={"ottla.server": "DEBUG"})
        import socket

        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"\x7f\xff\xff\xff")  # a frame that is too large: closed
            assert stranger.recv(1) == b""
        process.terminate()
        lines = [json.loads(line) for line in process.stderr]
    closed = next(line for line in lines if line["event"].startswith("connection closed"))
    assert closed.keys() >= {"ts", "level", "logger", "event", "client", "principal"}
    assert (closed["level"], closed["logger"]) == ("INFO", "ottla.server")
    assert closed["principal"] == "User:ANONYMOUS"
    assert closed["ts"].endswith("Z")


def test_an_exception_and_odd_names_stay_on_one_line():
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("ottla.x", logging.WARNING, "", 0, "a\n%s", ('"b"',), sys.exc_info())
    record.fields = {"topic": "t\n1", "event": "cannot take the place of the event", "none": None}
    text = JsonFormatter().format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert (line["event"], line["level"], line["topic"]) == ('a\n"b"', "WARN", "t\n1")
    assert "ValueError: no" in line["exception"]
    assert "none" not in line


def test_levels_are_set_and_unset_with_kafkas_tool_and_with_ours(levels, capsys):
    with Broker() as broker:
        tool = ["kafka-configs", "--bootstrap-server", broker.bootstrap, "--entity-type", "broker-loggers"]
        assert main([*tool, "--entity-name", "1", "--alter", "--add-config", "ottla.groups=DEBUG"]) == 0
        assert logging.getLogger("ottla.groups").level == logging.DEBUG
        assert main([*tool, "--entity-name", "1", "--describe"]) == 0
        assert "  ottla.groups=DEBUG sensitive=false synonyms={}" in capsys.readouterr().out
        own = ["config", "unset", "broker-logger", "1", "ottla.groups", "--bootstrap", broker.bootstrap]
        assert main(own) == 0
        assert logging.getLogger("ottla.groups").level == logging.NOTSET


def test_a_broker_sets_its_own_levels_and_passes_the_rest_on_to_the_controller(levels):
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t", 1)
        other = next(broker for broker in cluster if broker is not cluster.controller)
        with Admin({"bootstrap.servers": other.bootstrap}) as admin:
            admin.alter_configs("broker-logger", str(other.broker_id), set_={"ottla.server": "TRACE"})
            assert logging.getLogger("ottla.server").level == 5
            admin.alter_configs("topic", "t", set_={"retention.ms": "1000"})
            with pytest.raises(errors.InvalidConfig, match="does not exist"):
                admin.alter_configs("broker-logger", str(other.broker_id), set_={"no.such": "INFO"})
