"""`ottla queue`, and the other commands beside share groups."""

import json

import pytest

from ottla.cli.main import main
from ottla.testing import Broker


@pytest.fixture
def ask(capfd, monkeypatch):
    with Broker() as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.create_topic("work", 1)
        for number in range(3):
            broker.send("work", str(number))

        def ask(*words):
            code = main(list(words))
            return code, capfd.readouterr().out

        yield ask


def test_records_are_taken_and_the_group_is_shown(ask):
    taken = ("queue", "consume", "work", "-g", "g", "--from-beginning", "-n", "3")
    assert ask(*taken) == (0, "0\n1\n2\n")
    assert json.loads(ask("queue", "list", "--json")[1]) == [{"group": "g", "state": "Empty"}]
    assert json.loads(ask("queue", "describe", "g", "--json")[1]) == [
        {"topic": "work", "partition": 0, "start_offset": 3, "lag": 0}
    ]
    assert json.loads(ask("queue", "describe", "g", "--members", "--json")[1]) == []
    assert ask("queue", "consume", "work", "-g", "g", "--wait", "0.2") == (0, "")


def test_no_more_records_are_taken_than_were_asked_for(ask):
    assert ask("queue", "consume", "work", "-g", "g", "--from-beginning", "-n", "2") == (0, "0\n1\n")
    assert ask("queue", "consume", "work", "-g", "g", "-n", "1") == (0, "2\n")


def test_other_commands_bear_with_share_groups(ask):
    ask("queue", "consume", "work", "-g", "g", "--from-beginning", "-n", "3")
    assert "g " in ask("groups", "list")[1]
    assert ask("groups", "describe", "--all-groups")[0] == 0
    assert ask("top", "--once")[0] == 0
    assert ask("groups", "delete", "g")[0] == 0
    assert ask("queue", "list", "--json") == (0, "[]\n")
