"""`kafka-acls`: what it refuses, and what it leaves alone."""

import os
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.testing import Broker


def test_rules_that_were_not_named_are_not_removed(capsys) -> None:
    """--principal belongs to --list: taken silently, it would remove the rules of everybody."""
    with Broker({"super.users": "User:ANONYMOUS"}, authorizer=True) as broker:
        tool = ["kafka-acls", "--bootstrap-server", broker.bootstrap]
        for user in ("alice", "bob"):
            assert main([*tool, "--add", "--allow-principal", f"User:{user}", "--topic", "t"]) == 0
        assert main([*tool, "--remove", "--force", "--principal", "User:bob", "--topic", "t"]) == 1
        assert "The --principal option is only available if --list is set" in capsys.readouterr().err
        assert main([*tool, "--list"]) == 0
        assert capsys.readouterr().out.count("principal=User:") == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--list --allow-principal User:a", 'Option "[allow-principal]" can\'t be used with option "[list]"'),
        ("--list --producer --topic t", 'Option "[producer]" can\'t be used with option "[list]"'),
        (
            "--add --producer --operation Read --topic t --allow-principal User:a",
            'Option "[operation]" can\'t be used with option "[producer]"',
        ),
        (
            "--add --consumer --deny-principal User:a --topic t --group g",
            'Option "[deny-principal]" can\'t be used with option "[consumer]"',
        ),
        (
            "--add --idempotent --topic t --allow-principal User:a",
            "The --idempotent option is only available if --producer is set",
        ),
        (
            "--add --consumer --topic t --group g --cluster --allow-principal User:a",
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id",
        ),
    ],
)
def test_flags_of_kafka_acls_that_contradict_each_other_are_refused(words, problem, capsys) -> None:
    assert main(["kafka-acls", "--bootstrap-server", "127.0.0.1:1", *words.split()]) == 1
    assert problem in capsys.readouterr().err


def test_the_cluster_has_no_prefix(capsys) -> None:
    with Broker({"super.users": "User:ANONYMOUS"}, authorizer=True) as broker:
        tool = ["kafka-acls", "--bootstrap-server", broker.bootstrap]
        role = ["--allow-principal", "User:a", "--producer", "--idempotent", "--topic", "t"]
        assert main([*tool, "--add", *role, "--resource-pattern-type", "prefixed"]) == 0
        assert main([*tool, "--list", "--cluster"]) == 0
        assert "name=kafka-cluster, patternType=LITERAL)`:" in capsys.readouterr().out


def test_a_question_that_nobody_answers_removes_nothing(capsys, monkeypatch) -> None:
    with (
        Broker({"super.users": "User:ANONYMOUS"}, authorizer=True) as broker,
        Path(os.devnull).open() as nothing,
    ):
        monkeypatch.setattr("sys.stdin", nothing)
        tool = ["kafka-acls", "--bootstrap-server", broker.bootstrap]
        assert main([*tool, "--add", "--allow-principal", "User:a", "--topic", "t"]) == 0
        assert main([*tool, "--remove", "--topic", "t"]) == 1
        assert main([*tool, "--list"]) == 0
        assert "principal=User:a" in capsys.readouterr().out
