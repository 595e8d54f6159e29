"""`ottla cluster move`: what cannot be moved, and what was not moved, is told."""

import pytest

from ottla.cli import cluster_moves
from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.testing import Broker


@pytest.fixture
def broker(monkeypatch):
    with Broker() as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.create_topic("moved", 2)
        broker.create_topic("other", 1)
        yield broker


@pytest.mark.parametrize("command", ["move", "elect"])
def test_a_partition_that_does_not_exist_is_named(command, broker, capfd):
    assert main(["cluster", command, "moved:9", "other"]) == 1
    assert "moved has no partition 9" in capfd.readouterr().err


def test_partitions_are_listed_as_in_the_other_commands(broker, capfd):
    assert main(["cluster", "move", "moved:1,0"]) == 0
    assert "2/2 moved" in capfd.readouterr().err


def test_a_partition_without_replicas_is_refused(broker, capfd):
    assert main(["cluster", "move", "moved", "--replicas", "0"]) == 1
    assert "--replicas 0: a partition has one replica or more" in capfd.readouterr().err


def test_a_move_that_was_cancelled_is_not_told_as_moved(broker, capfd, monkeypatch):
    monkeypatch.setattr(cluster_moves, "LOOK_S", 0.0)
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        (here,) = admin.describe_topics(["moved"])["moved"].partitions[0].replicas
        targets = {TopicPartition("moved", 0): [here], TopicPartition("moved", 1): [here + 1]}
        assert not cluster_moves._wait(admin, targets)
    err = capfd.readouterr().err
    assert "1/2 moved" in err
    assert f"moved-1: no move is under way, and its replicas are {here} rather than {here + 1}" in err


def test_a_cluster_without_topics_has_nothing_to_move(capfd, monkeypatch):
    with Broker() as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        assert main(["cluster", "balance"]) == 0
    assert "nothing has to move" in capfd.readouterr().err
