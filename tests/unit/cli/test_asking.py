"""The layer of the commands that asks: it prints nothing, and neither kind of command asks what the other does."""

import ast
from pathlib import Path

import pytest

import ottla.cli
from ottla.cli.asking import acls, groups, topics
from ottla.cli.asking.resets import Plan
from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import TopicAlreadyExists, UnknownTopicOrPartition
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.testing import Broker

CLI = Path(ottla.cli.__file__).parent


@pytest.fixture
def admin():
    settings = {"super.users": "User:ANONYMOUS"}
    with Broker(settings, authorizer=True) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        yield admin


def names_in(path: Path) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}


def test_what_asks_does_not_print():
    for path in (CLI / "asking").glob("*.py"):
        assert not names_in(path) & {"print", "show", "say", "table"}, path.name


def test_a_topic_is_created_and_deleted_once(admin):
    new = NewTopic("t", 2, 1)
    assert topics.create(admin, new, may_exist=False).partitions == 2
    assert topics.create(admin, new, may_exist=True) is None
    with pytest.raises(TopicAlreadyExists):
        topics.create(admin, new, may_exist=False)
    assert topics.delete(admin, "t", may_be_missing=False)
    assert not topics.delete(admin, "t", may_be_missing=True)
    with pytest.raises(UnknownTopicOrPartition):
        topics.delete(admin, "t", may_be_missing=False)


def test_a_group_is_as_far_behind_as_was_written_since_its_commit():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        for value in ("a", "b", "c"):
            broker.send("t", value)
        partitions = topics.partitions_of("t", [0])
        groups.move(admin, "g", dict.fromkeys(partitions, 1))
        group = admin.describe_group("g")
        assert groups.is_there(admin, group)
        (at,) = groups.progress_of(admin, group)
        assert (at.partition, at.offset, at.end, at.lag, at.owner) == (partitions[0], 1, 3, 2, None)


@pytest.mark.parametrize("tool", ["groups", "kafka-consumer-groups"])
def test_offsets_from_a_file_stay_within_the_log(tool, tmp_path, capsys):
    """Beyond it, a reader would go on where auto.offset.reset says, past records or over all of them again."""
    file = tmp_path / "offsets.csv"
    way = ["--from-file", str(file), "--execute"]
    with Broker() as broker:
        words = {
            "groups": ["groups", "reset-offsets", "g", *way, "-b", broker.bootstrap],
            "kafka-consumer-groups": [
                "kafka-consumer-groups", "--reset-offsets", "--group", "g", *way,
                "--bootstrap-server", broker.bootstrap,
            ],
        }  # fmt: skip
        broker.create_topic("t", 3)
        for index in range(3):
            for value in "abc":
                broker.send("t", value, partition=index)
        file.write_text("t,0,999\nt,1,-7\nt,2,2\n")
        assert main(words[tool]) == 0
        assert broker.group("g").offsets == {
            TopicPartition("t", 0): 3, TopicPartition("t", 1): 0, TopicPartition("t", 2): 2
        }  # fmt: skip
        file.write_text("t,9,1\n")
        main(words[tool])
        out, err = capsys.readouterr()
        assert 'The partitions "t-9" do not exist' in out + err


def test_where_a_topic_is_gone_nobody_knows_the_lag():
    committed = OffsetAndMetadata(2)
    assert groups.Progress(TopicPartition("t", 0), committed, None, None).lag is None


def test_a_rule_passes_its_own_filter_alone(admin):
    one, other = (
        Acl(
            ResourceType.TOPIC,
            name,
            PatternType.LITERAL,
            f"User:{name}",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
        for name in ("a", "b")
    )
    admin.create_acls([one, other])
    assert acls.matching(admin, [acls.exactly(one)]) == [one]
    assert acls.matching(admin, [AclFilter()], "User:b") == [other]


def test_a_plan_remarks_on_partitions_that_end_before_the_time():
    assert Plan({}, ("t-0",)).remarks == ["t-0: no record is as young as that; its end is taken"]  # type: ignore[arg-type]
