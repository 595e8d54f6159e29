"""`ottla queue dead`: letters that cannot be sent back, and more of them than a group may lock."""

import json

import pytest

from ottla.cli import dead_letters
from ottla.cli.main import main
from ottla.testing import Broker


def test_a_letter_that_the_topic_refuses_stays_a_dead_letter(capfd, monkeypatch):
    with Broker() as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.create_topic("narrow", 1, {"max.message.bytes": 200})
        broker.create_topic("dead", 1)
        for value in ("small", "x" * 1000):
            broker.send("dead", value, headers=[("__dlq.errors.topic", b"narrow")])

        assert main(["queue", "dead", "retry", "dead", "--all"]) == 1
        out, err = capfd.readouterr()
        assert out == "1 sent back\n"
        assert "partition 0, offset 1: " in err
        assert [record.value for record in broker.records("narrow")] == [b"small"]

        assert main(["queue", "dead", "list", "dead", "--json"]) == 0
        assert [letter["offset"] for letter in json.loads(capfd.readouterr().out)] == [1]


@pytest.fixture
def many(monkeypatch):
    """More letters than a share group locks at once."""
    with Broker(group_share_partition_max_record_locks=100) as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.create_topic("work", 1)
        broker.create_topic("dead", 2)
        for number in range(250):
            broker.send("dead", str(number), partition=number % 2, headers=[("__dlq.errors.topic", b"work")])
        yield broker


def test_all_letters_are_sent_back_though_a_group_locks_only_some_of_them(many, capfd, monkeypatch):
    monkeypatch.setattr(dead_letters, "_QUIET_S", 30.0)  # how many there are is known: nothing waits for it
    assert main(["queue", "dead", "retry", "dead", "--all"]) == 0
    assert capfd.readouterr().out == "250 sent back\n"
    assert sorted(int(record.value) for record in many.records("work")) == list(range(250))


def test_all_letters_are_dropped_though_a_group_locks_only_some_of_them(many, capfd, monkeypatch):
    monkeypatch.setattr(dead_letters, "_QUIET_S", 30.0)
    assert main(["queue", "dead", "drop", "dead", "--all"]) == 0
    assert capfd.readouterr().out == "250 dropped\n"


def test_a_letter_that_becomes_one_again_is_sent_once(many, capfd, monkeypatch):
    monkeypatch.setattr(dead_letters, "_QUIET_S", 30.0)
    assert main(["queue", "dead", "retry", "dead", "--all", "--to", "dead"]) == 0
    assert capfd.readouterr().out == "250 sent back\n"
    assert len(many.records("dead")) == 500


def test_a_list_says_that_there_are_more_letters(many, capfd):
    assert main(["queue", "dead", "list", "dead", "--json"]) == 0
    out, err = capfd.readouterr()
    assert len(json.loads(out)) == 200
    assert err.startswith("up to 50 more: ")
