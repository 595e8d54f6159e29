"""Flags of older releases, as labs print them."""

import pytest

from ottla.cli.main import main


@pytest.mark.parametrize(
    "command",
    [
        "kafka-topics --list --zookeeper localhost:2181",
        "kafka-topics --create --zookeeper=localhost:2181 --topic a --partitions 1 --replication-factor 1",
        "kafka-console-consumer --zookeeper localhost:2181 --topic a --from-beginning",
        "kafka-consumer-groups --zookeeper localhost:2181 --list",
    ],
)
def test_zookeeper_is_answered_with_what_to_write(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 1
    assert "--bootstrap-server localhost:9092" in capsys.readouterr().err


def test_whitelist_is_include(capsys):
    with pytest.raises(SystemExit):
        main(["kafka-console-consumer", "--whitelist", "a.*", "--bootstrap-server", "localhost:9092"])
    assert "--include" in capsys.readouterr().err


def test_new_consumer_is_taken(capsys):
    """It goes on to the next complaint: there is no such address."""
    assert main(["kafka-consumer-groups", "--new-consumer", "--list", "--bootstrap-server", ":9092"]) == 1
    printed = capsys.readouterr().err
    assert "not needed" in printed and "write host:port" in printed
