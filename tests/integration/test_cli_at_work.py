"""Commands against brokers of a test: seeing a group work, measuring, draining and balancing a cluster."""

import argparse
import re
import subprocess
import sys

import pytest

from ottla.cli import consume
from ottla.cli.main import main
from ottla.client import Consumer
from ottla.client.values import TopicPartition
from ottla.testing import Broker, Cluster


def test_perf_measures_all_three(capsys):
    with Broker() as broker:
        where = ["-b", broker.bootstrap]
        assert main(["perf", "produce", "t", "-n", "2000", "-s", "50", *where]) == 0
        assert "2000 records sent" in capsys.readouterr().out
        assert len(broker.records("t")) == 2000
        assert main(["perf", "consume", "t", "-n", "2000", *where]) == 0
        assert capsys.readouterr().out.startswith("2000 records")
        assert main(["perf", "latency", "t", "-n", "20", *where]) == 0
        assert capsys.readouterr().out.startswith("20 records")


def test_kafkas_perf_tools_have_their_names_flags_and_output(capsys, tmp_path):
    with Broker() as broker:
        where = ["--bootstrap-server", broker.bootstrap, "--topic", "t"]
        sizes = ["--num-records", "500", "--record-size", "20"]
        assert (
            main(
                [
                    "kafka-producer-perf-test",
                    *where,
                    *sizes,
                    "--throughput",
                    "-1",
                    "--producer-props",
                    "acks=1",
                ]
            )
            == 0
        )
        assert re.match(
            r"500 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, "
            r"[\d.]+ ms 50th, [\d.]+ ms 95th, [\d.]+ ms 99th, [\d.]+ ms 99.9th.\n",
            capsys.readouterr().out,
        )
        assert main(["kafka-consumer-perf-test", *where, "--messages", "500"]) == 0
        head, values = capsys.readouterr().out.splitlines()
        assert len(head.split(", ")) == len(values.split(", ")) == 10
        assert values.split(", ")[4] == "500"
        assert (
            main(
                [
                    "kafka-e2e-latency",
                    *where,
                    "--num-records",
                    "5",
                    "--record-size",
                    "9",
                    "--producer-acks",
                    "1",
                ]
            )
            == 0
        )
        assert "Percentiles: 50th = " in capsys.readouterr().out
        lines = tmp_path / "lines"
        lines.write_text("one\ntwo\n")
        file = ["--num-records", "9", "--payload-file", str(lines), "--throughput", "1000"]
        assert main(["kafka-producer-perf-test", *where, *file]) == 0
        assert {record.value for record in broker.records("t")[-9:]} <= {b"one", b"two"}


def test_a_member_tells_of_its_assignments_and_leaves_when_it_is_terminated(tmp_path):
    with Broker() as broker:
        broker.create_topic("t", partitions=2)
        line = [sys.executable, "-m", "ottla", "consume", "t", "-g", "g", "-v", "-u", "-b", broker.bootstrap]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
            try:
                assert "assigned: t-0, t-1" in first.stderr.readline()
                with subprocess.Popen(
                    line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                ) as second:
                    try:
                        assert "assigned: t-" in second.stderr.readline()
                        assert "revoked" in first.stderr.readline()
                        second.terminate()
                        assert second.wait(60) == 143
                        assert len(broker.group("g").members) == 1, "it has left"
                        assert "assigned: t-" in first.stderr.readline()
                    finally:
                        second.kill()
            finally:
                first.kill()


@pytest.mark.parametrize("words", [("consume", "t"), ("queue", "consume", "t")])
def test_what_a_reader_of_the_pipe_never_took_is_left_to_the_group(words):
    """More than a pipe holds: when its reader goes, the second record is not written."""
    with Broker() as broker:
        for _ in range(5):
            broker.send("t", "x" * 200_000)
        line = [sys.executable, "-m", "ottla", *words, "-g", "g", "--from-beginning", "-b", broker.bootstrap]
        with subprocess.Popen(line, stdout=subprocess.PIPE) as command:
            assert command.stdout.read(200_001) == b"x" * 200_000 + b"\n"
            command.stdout.close()
            assert command.wait(60) == 0
        again = subprocess.run([*line, "-n", "4"], check=True, stdout=subprocess.PIPE, timeout=60)
        assert again.stdout.count(b"\n") == 4


@pytest.mark.parametrize("option", ["--tee", "--verbose", "--json"])
def test_all_input_is_sent_though_nobody_reads_what_is_printed(option, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(20_000)))
    with Broker() as broker:
        broker.create_topic("t", 1)
        line = [sys.executable, "-m", "ottla", "produce", "t", str(lines), option, "-b", broker.bootstrap]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
            command.stdout.close()
            assert b"Broken pipe" not in command.stderr.read()
            assert command.wait(60) == 0
        assert len(broker.records("t")) == 20_000


def test_a_group_prints_what_came_behind_the_end_too_for_it_is_committed(capfdbinary):
    with Broker() as broker:
        for number in range(5):
            broker.send("t", str(number))
        settings = {
            "bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"
        }  # fmt: skip
        arguments = argparse.Namespace(group="g", count=None, timeout_ms=None, unbuffered=False)
        with Consumer(settings) as consumer:
            consumer.subscribe("t")
            consume._print(
                consumer, arguments, lambda record, count: record.value, {TopicPartition("t", 0): 3}
            )
        assert capfdbinary.readouterr().out == b"01234"
        assert broker.group("g").offsets == {TopicPartition("t", 0): 5}


def test_records_are_sent_at_a_rate(tmp_path, monkeypatch):
    """As often as asked: the pauses are counted, not measured."""

    slept = []
    monkeypatch.setattr("ottla.cli.produce.time.sleep", slept.append)
    with Broker() as broker:
        lines = tmp_path / "lines"
        lines.write_text("".join(f"{number}\n" for number in range(10)))
        assert main(["produce", "t", str(lines), "--rate", "0.5", "-b", broker.bootstrap]) == 0
        assert len(broker.records("t")) == 10
    assert len(slept) == 9 and all(pause + 2 > 15 for pause in slept[8:])


def test_a_group_is_watched_until_it_is_enough(monkeypatch, capsys):

    rounds = []

    def enough(_):
        rounds.append(1)
        if len(rounds) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("ottla.cli.groups.time.sleep", enough)
    with Broker() as broker:
        broker.send("t", "x")
        assert main(["consume", "t", "-g", "g", "-n", "1", "-b", broker.bootstrap]) == 0
        assert main(["groups", "describe", "g", "--watch", "-b", broker.bootstrap]) == 130
    assert capsys.readouterr().out.count("CURRENT-OFFSET") == 3


def test_a_broker_is_drained_and_the_cluster_balanced(capsys):
    with Cluster(brokers=3, default_replication_factor=2) as cluster:
        cluster.create_topic("t", partitions=6, replication_factor=2)
        cluster.send("t", "x")
        where = ["-b", cluster.bootstrap]
        replicas = lambda: [cluster._state("t", index).replicas for index in range(6)]  # noqa: E731
        before = replicas()
        assert main(["cluster", "drain", "3", "--dry-run", *where]) == 0
        assert replicas() == before
        assert main(["cluster", "drain", "3", *where]) == 0
        assert all(3 not in each for each in replicas())
        capsys.readouterr()
        before = replicas()
        assert main(["cluster", "balance", "--dry-run", *where]) == 0
        assert replicas() == before and capsys.readouterr().out.splitlines()[1].startswith("t ")
        assert main(["cluster", "balance", *where]) == 0
        assert {each: sum(each in held for held in replicas()) for each in (1, 2, 3)} == {1: 4, 2: 4, 3: 4}
        assert [record.value for record in cluster.records("t")] == [b"x"]
        assert main(["cluster", "drain", "9", *where]) == 1
        assert "there is no broker 9" in capsys.readouterr().err
