"""`ottla groups delete-offsets` where nothing was committed: as Kafka's tool does it."""

import json

import pytest

from ottla.cli.main import main
from ottla.testing import Broker


@pytest.fixture
def ask(capfd, monkeypatch):
    with Broker() as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.send("read", "x")
        broker.create_topic("unread", 2)
        assert main(["consume", "read", "-g", "g", "--from-beginning", "-n", "1"]) == 0
        capfd.readouterr()

        def ask(*words):
            code = main(["groups", "delete-offsets", *words, "--json"])
            out, err = capfd.readouterr()
            return code, json.loads(out) if out else err

        yield ask


def test_all_partitions_of_a_topic_without_commits_are_asked_for(ask):
    assert ask("g", "-t", "unread") == (
        0,
        [{"topic": "unread", "partition": index, "status": "DELETED"} for index in range(2)],
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [(("nobody", "-t", "unread"), "group"), (("g", "-t", "nowhere"), "nowhere")],
)
def test_a_group_or_a_topic_that_does_not_exist_is_an_error(ask, words, told):
    code, err = ask(*words)
    assert code == 1 and told in err


def test_only_what_was_committed_is_deleted_where_something_was(ask):
    assert ask("g", "-t", "read") == (0, [{"topic": "read", "partition": 0, "status": "DELETED"}])
