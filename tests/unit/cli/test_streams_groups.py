"""`ottla kafka-streams-groups` and `ottla groups` beside a streams group."""

import json
import time

import pytest

from ottla.cli.main import main
from ottla.testing import Broker
from tests.compat.raw import Raw

GROUP, CHANGELOG = "words", "words-store-changelog"
HEARTBEAT = "streams_group_heartbeat"


class Member:
    """One member of a group with a sub-topology that has a store."""

    def __init__(self, bootstrap, changelogs=(CHANGELOG,)):
        self._changelogs = changelogs
        self._raw, self._epoch, self.tasks = Raw(bootstrap, "app"), 0, []
        found = self._raw.call("find_coordinator", 2, {"key": GROUP, "key_type": 0})
        assert found["error_code"] == "NONE"

    def beat(self):
        body = {"group_id": GROUP, "member_id": "a", "member_epoch": self._epoch, "process_id": "p"}
        if not self._epoch:
            changelogs = [
                {"name": name, "replication_factor": 1, "topic_configs": []} for name in self._changelogs
            ]
            part = {"subtopology_id": "0", "source_topics": ["lines"], "state_changelog_topics": changelogs}
            body |= {"topology": {"epoch": 0, "subtopologies": [part]}, "rebalance_timeout": 60_000}
        body |= {"active_tasks": self.tasks, "standby_tasks": [], "warmup_tasks": []}
        answer = self._raw.call(HEARTBEAT, 0, body)
        assert answer["error_code"] == "NONE", answer
        self._epoch = answer["member_epoch"]
        if answer["active_tasks"] is not None:
            self.tasks = answer["active_tasks"]
        return answer

    def leave(self):
        body = {"group_id": GROUP, "member_id": "a", "member_epoch": -1}
        assert self._raw.call(HEARTBEAT, 0, body)["error_code"] == "NONE"

    def close(self):
        self._raw.close()


@pytest.fixture
def broker(monkeypatch):
    with Broker(group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0) as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        broker.create_topic("lines", 2)
        broker.send("lines", "one two")
        yield broker


@pytest.fixture
def ask(broker, capfd):
    def ask(*words):
        options = ("--bootstrap-server", broker.bootstrap) if words[0].startswith("kafka-") else ()
        assert main([words[0], *options, *words[1:]]) == 0
        return capfd.readouterr().out

    return ask


@pytest.fixture
def member(broker):
    """One that has its tasks: the broker has created the changelog."""
    member = Member(broker.bootstrap)
    member.beat()
    deadline = time.monotonic() + 60
    while not member.tasks:
        assert time.monotonic() < deadline
        member.beat()
    yield member
    member.close()


def test_a_group_is_listed_described_reset_and_deleted(broker, ask, member):
    tool = "kafka-streams-groups"
    assert ask(tool, "--list") == f"{GROUP}\n"
    assert ask(tool, "--list", "--state", "Stable").split() == ["GROUP", "STATE", GROUP, "Stable"]
    state = ask(tool, "--describe", "--group", GROUP, "--state", "--verbose").splitlines()
    assert state[0].split()[-3:] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert state[1].split()[-4:] == ["Stable", "3", "3", "1"]
    members = ask(tool, "--describe", "--group", GROUP, "--members", "--verbose")
    assert "streams" in members and "ACTIVE: 0:[0,1]; TARGET-ACTIVE: 0:[0,1]; " in members
    offsets = ask(tool, "--describe", "--group", GROUP).splitlines()
    assert [line.split()[:3] for line in offsets[1:]] == [[GROUP, "lines", "0"], [GROUP, "lines", "1"]]
    assert sum(int(line.split()[3]) for line in offsets[1:]) == 1
    assert "GroupNotEmptyException" in ask(tool, "--delete", "--group", GROUP)
    member.leave()
    assert ask(tool, "--describe", "--group", GROUP) == ""
    assert "has no active members" in ask(tool, "--describe", "--group", GROUP, "--state")
    moved = ask(
        tool, "--reset-offsets", "--group", GROUP, "--input-topic", "lines", "--to-latest", "--execute"
    )
    assert sum(int(line.split()[3]) for line in moved.splitlines() if line.startswith(GROUP)) == 1
    assert "was successful" in ask(tool, "--delete", "--group", GROUP)
    assert ask(tool, "--list") == ""
    assert CHANGELOG in broker.topics(), "nobody asked for its end"


RESET = ("--reset-offsets", "--group", GROUP, "--input-topic", "lines", "--to-earliest")


def test_a_group_at_work_keeps_its_internal_topics(broker, ask, member):
    said = ask("kafka-streams-groups", *RESET, "--execute", "--delete-all-internal-topics")
    assert "can only be reset if the group 'words' is inactive" in said
    assert CHANGELOG in broker.topics()
    member.leave()
    ask("kafka-streams-groups", *RESET, "--execute", "--delete-all-internal-topics")
    assert CHANGELOG not in broker.topics()


def test_internal_topics_go_with_the_group_if_that_is_asked_for(broker, ask, member):
    member.leave()
    said = ask("kafka-streams-groups", "--delete", "--group", GROUP, "--delete-all-internal-topics")
    assert "Deletion of associated internal topics of the streams groups ('words') was successful." in said
    assert broker.topics().keys() == {"lines"}


@pytest.mark.parametrize("changelogs", [["lines"], ["other"]])
def test_topics_of_others_are_never_internal(broker, ask, changelogs):
    """An optimized topology has its source topic for a changelog."""
    broker.create_topic("other", 2)
    member = Member(broker.bootstrap, changelogs)
    member.beat()
    member.leave()
    ask("kafka-streams-groups", "--delete", "--group", GROUP, "--delete-all-internal-topics")
    assert broker.topics().keys() == {"lines", "other"}
    member.close()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            (*RESET, "--dry-run", "--delete-all-internal-topics"),
            "Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used.",
        ),
        (
            ("--delete", "--group", GROUP, "--delete-internal-topic", CHANGELOG),
            "Option [delete-internal-topic] takes [reset-offsets] when [execute] is used.",
        ),
        (
            ("--list", "--delete-all-internal-topics"),
            "Option [delete-all-internal-topics] takes one of these options: [delete], [reset-offsets]",
        ),
    ],
)
def test_flags_that_would_do_nothing_are_refused(words, problem, capsys):
    assert main(["kafka-streams-groups", "--bootstrap-server", "127.0.0.1:1", *words]) == 1
    assert problem in capsys.readouterr().err


def test_ottla_groups_knows_streams_groups(ask, member):
    (listed,) = json.loads(ask("groups", "list", "--type", "streams", "--json"))
    assert (listed["group"], listed["type"], listed["state"]) == (GROUP, "streams", "Stable")
    (shown,) = json.loads(ask("groups", "describe", GROUP, "--members", "--json"))
    assert shown["assignment"] == ["lines-0", "lines-1"]
    assert "lines" in ask("groups", "describe", "--all-groups")
    member.leave()
    ask("groups", "delete", GROUP)
    assert json.loads(ask("groups", "list", "--json")) == []
