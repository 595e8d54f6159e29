"""`ottla pipelines`: what a pipeline shows of itself, running or not, and how it is reset."""

from __future__ import annotations

import json

import pytest

from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.testing import Broker
from tests.pipelines.local import counting, query, results, send


def test_a_pipeline_is_listed_shown_and_reset(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        where = ["--bootstrap", broker.bootstrap]
        broker.create_topic("in", partitions=2)
        broker.create_topic("out", partitions=2)
        with query(counting(broker)) as running:
            send(broker, ["a", "b", "a", "k9"])
            running.drain()
            send(broker, ["a"])
            assert main(["pipelines", "reset", "count", "--execute", *where]) == 1
            assert "cannot be reset" in capsys.readouterr().err
        assert main(["pipelines", "list", "--json", *where]) == 0
        assert json.loads(capsys.readouterr().out) == [{"pipeline": "count"}]
        assert main(["pipelines", "status", "count", "--json", *where]) == 0
        tasks = json.loads(capsys.readouterr().out)
        assert [task["task"] for task in tasks] == ["count_0", "count_1"]
        assert sum(task["records"] for task in tasks) == 4
        assert sum(task["lag"] for task in tasks) == 1
        assert sum(task["state_rows"] for task in tasks) == 3
        assert main(["pipelines", "reset", "count", *where]) == 0
        assert "would delete the positions of 2 stream tasks" in capsys.readouterr().out
        broker.advance(minutes=2)  # the driver said no good-bye: its session must end
        assert main(["pipelines", "reset", "count", "--execute", *where]) == 0
        assert "deleted count-counts-changelog" in capsys.readouterr().out
        with query(counting(broker)) as running:
            running.drain()
        assert results(broker)["a"][-1] == 3


def test_a_reset_leaves_the_state_of_pipelines_with_longer_names(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        where = ["--bootstrap", broker.bootstrap]
        for topic in ("in", "out", "count-eu-counts-changelog"):
            broker.create_topic(topic, partitions=2)
        with query(counting(broker)) as running:
            send(broker, ["a"])
            running.drain()
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_group_offsets("count-eu", {TopicPartition("in", 0): OffsetAndMetadata(0)})
            broker.advance(minutes=2)
            capsys.readouterr()
            for options in ([], ["--execute"]):
                assert main(["pipelines", "reset", "count", *options, *where]) == 0
                said = capsys.readouterr().out
                assert "delete" in said and "count-counts-changelog" in said and "count-eu" not in said
            assert {"count-eu-counts-changelog"} == {
                topic for topic in admin.list_topics() if topic.endswith("-changelog")
            }


def test_a_pipeline_whose_positions_are_gone_can_be_reset(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        where = ["--bootstrap", broker.bootstrap]
        for topic in ("in", "out"):
            broker.create_topic(topic, partitions=2)
        with query(counting(broker)) as running:
            send(broker, ["a"])
            running.drain()
        broker.advance(minutes=2)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.delete_group("count")
        assert main(["pipelines", "reset", "count", "--execute", *where]) == 0
        assert "deleted count-counts-changelog" in capsys.readouterr().out
        with query(counting(broker)) as running:
            running.drain()
        assert results(broker)["a"] == [1, 1]


@pytest.mark.parametrize("command", ["status", "reset"])
def test_a_pipeline_that_is_not_there_is_a_sentence(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        assert main(["pipelines", command, "nobody", "--bootstrap", broker.bootstrap]) == 1
        assert "there is no pipeline nobody" in capsys.readouterr().err
