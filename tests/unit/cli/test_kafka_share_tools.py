"""kafka-share-groups and kafka-console-share-consumer print what Apache Kafka's own print."""

import re

import pytest

from ottla import Admin, ShareConsumer
from ottla.cli.main import main
from ottla.testing import Broker


@pytest.fixture
def ask(capfd):
    with Broker() as broker:
        broker.create_topic("work", 2)
        broker.create_topic("other", 1)
        for number in range(5):
            broker.send("work", str(number), partition=number % 2)
        broker.send("other", "x")
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            for group in ("queue", "empty-one"):
                admin.alter_configs("group", group, set_={"share.auto.offset.reset": "earliest"})
        with ShareConsumer(bootstrap_servers=broker.bootstrap, group_id="queue", client_id="me") as consumer:
            consumer.subscribe(["work", "other"])
            taken = 0
            while taken < 6:
                taken += len(consumer.poll(10))
            consumer.commit()
            words = ("kafka-console-share-consumer", "--topic", "work", "--group", "empty-one")
            assert main([*words, "--bootstrap-server", broker.bootstrap, "--max-messages", "2"]) == 0
            written = capfd.readouterr()
            assert len(written.out.splitlines()) == 2 and "a total of 2 messages" in written.err

            def ask(line):
                assert (
                    main(["kafka-share-groups", "--bootstrap-server", broker.bootstrap, *line.split()]) == 0
                )
                out, err = capfd.readouterr()
                return (
                    re.sub(
                        r"(?<= )[\w-]{22}(?= /)",
                        "MEMBER-ID".ljust(22),
                        out.replace(broker.bootstrap, "HOST:PORT"),
                    )
                    + err
                )

            yield ask


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--list", "empty-one\nqueue\n"),
        ("--list --state", "GROUP           STATE\nempty-one       Empty\nqueue           Stable\n"),
        ("--list --state stable", "GROUP           STATE\nqueue           Stable\n"),
        (
            "--describe --group queue",
            "\nGROUP           TOPIC           PARTITION  START-OFFSET  LAG\n"
            "queue           other           0          1             0\n"
            "queue           work            0          3             0\n"
            "queue           work            1          2             0\n",
        ),
        (
            "--describe --group queue --verbose",
            "\nGROUP           TOPIC           PARTITION  LEADER-EPOCH  START-OFFSET  LAG\n"
            "queue           other           0          0             1             0\n"
            "queue           work            0          0             3             0\n"
            "queue           work            1          0             2             0\n",
        ),
        (
            "--describe --group queue --members --verbose",
            "\nGROUP           CONSUMER-ID            HOST            CLIENT-ID       "
            "#PARTITIONS  MEMBER-EPOCH  ASSIGNMENT\n"
            "queue           MEMBER-ID              /127.0.0.1      me              "
            "3            1             other:0;work:0,1\n",
        ),
        (
            "--describe --group queue --state --verbose",
            "\nGROUP           COORDINATOR (ID)          STATE           GROUP-EPOCH  ASSIGNMENT-EPOCH  #MEMBERS\n"
            "queue           HOST:PORT  (1)      Stable          1            1                 1\n",
        ),
        ("--describe --group empty-one --members", "\nShare group 'empty-one' has no active members.\n"),
        (
            "--describe --group nope",
            "\nError: Executing share group command failed due to "
            "org.apache.kafka.common.errors.GroupIdNotFoundException: Group nope not found.\n",
        ),
        (
            "--delete --group queue",
            "\nError: Deletion of some share groups failed:\n* Group 'queue' could not be deleted due to: "
            "org.apache.kafka.common.errors.GroupNotEmptyException: Share group 'queue' is not EMPTY.\n",
        ),
        (
            "--delete --group nope",
            "\nError: Deletion of some share groups failed:\n* Group 'nope' could not be deleted due to: "
            "java.lang.IllegalArgumentException: Group 'nope' is not a share group.\n",
        ),
        ("--delete --group empty-one", "Deletion of requested share groups ('empty-one') was successful.\n"),
        (
            "--reset-offsets --group empty-one --to-latest --all-topics --execute",
            "\nGROUP           TOPIC           PARTITION  NEW-OFFSET\n"
            "empty-one       work            0          3\nempty-one       work            1          2\n",
        ),
        (
            "--reset-offsets --group queue --to-earliest --all-topics --execute",
            "Share group 'queue' is not empty.\n",
        ),
        (
            "--delete-offsets --group empty-one --topic work",
            "\nTOPIC           STATUS\nwork            Successful\n",
        ),
    ],
)
def test_the_output_is_that_of_apache_kafkas_tool(ask, line, text):
    assert ask(line) == text


def test_offsets_are_reset_only_when_told_to(ask):
    ask("--reset-offsets --group empty-one --to-latest --topic work:1 --execute")
    before = ask("--describe --group empty-one")
    assert before.splitlines()[-1].split()[2:] == ["1", "2", "0"]
    ask("--reset-offsets --group empty-one --to-earliest --topic work --dry-run")
    assert ask("--describe --group empty-one") == before
    ask("--reset-offsets --group empty-one --to-datetime 2020-01-01T00:00:00.000 --topic work --execute")
    assert [row.split()[3] for row in ask("--describe --group empty-one").splitlines()[2:]] == ["0", "0"]


@pytest.mark.parametrize(
    "line",
    [
        "--describe",
        "--describe --group g --members --offsets",
        "--delete-offsets --group g",
        "--reset-offsets --group g --to-latest --all-topics",
        "--reset-offsets --group g --all-topics --execute",
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(line, capfd):
    assert main(["kafka-share-groups", "--bootstrap-server", "localhost:1", *line.split()]) != 0
    assert "takes" in capfd.readouterr().err
