"""Our console commands beside Apache Kafka's own: the same lines on one server, the same output and exit status.

Each line runs twice, with names of its own: `{T}` is a topic, `{G}` a group, `{F}` a file for what it exports. Where
Java prints in the order of a hash table (`~` before the line) ours prints by name, and only the order may differ.
"""

from __future__ import annotations

import io
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from tests.conftest import Target
from tests.course.faces import MEMBER, until, until_seen
from tests.oracle import programs
from tests.oracle.programs import Commands, Printed

CLASSES = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}
CHANGE = re.compile(r"^kafka-(topics|configs) .*--(create|alter|delete)\b")
# As long as each other, so that tables are as wide.
JAVAS, OURS = "java", "ours"
# What no two groups or topics have in common, and how it is shown for all of them.
SHOWN = {
    r"TopicId: \S+": "TopicId: ...",
    r"\S{20,}(?= +/127)": "member",
    r"(Stable +)\d+( +)\d+(?= +\d)": r"\1epoch\2epoch",
    r"(/127\S+ +me +\d+ +)\d+( +\S+ +)\d+": r"\1epoch\2epoch",
}

TOPICS = """
kafka-topics --create --topic {T} --partitions 3 --replication-factor 1
kafka-topics --create --topic {T}
kafka-topics --create --topic {T} --if-not-exists
kafka-topics --create --topic {T}.with_dots --config retention.ms=1000
kafka-topics --create --topic {T}-assigned --replica-assignment 1,1
kafka-topics --create --topic {T}-bad --config nonsense=1
kafka-topics --create --topic {T}-bad --config retention.ms=abc
kafka-topics --create --topic {T}-bad --partitions 0
kafka-topics --create --topic {T}-bad --replication-factor 0
kafka-topics --create --topic {T}-bad --replication-factor 3
kafka-topics --create --topic {T}-bad --replica-assignment 1,7
kafka-topics --create --topic {T}-bad --replica-assignment 1,1 --partitions 2
kafka-topics --create --topic {T}-bad --if-exists
kafka-topics --create --topic '{T} bad!'
kafka-topics --create
kafka-topics --create --delete --topic {T}
kafka-topics --list --topic '{T}.*'
kafka-topics --list --topic nowhere
kafka-topics --describe --topic {T}
kafka-topics --describe --topic {T}-assigned,{T}-bad
kafka-topics --describe --topic {T} --topics-with-overrides
kafka-topics --describe --topic {T} --at-min-isr-partitions
kafka-topics --describe --under-replicated-partitions
kafka-topics --describe --topic nowhere
kafka-topics --describe --topic nowhere --if-exists
kafka-topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ
kafka-topics --describe --topic-id garbage
kafka-topics --alter --topic {T} --partitions 4
kafka-topics --alter --topic {T} --partitions 4
kafka-topics --alter --topic {T} --partitions 2
kafka-topics --alter --topic {T} --partitions 6 --replica-assignment 1,1,1,1,1,1
kafka-topics --alter --topic {T} --partitions 7 --replica-assignment 1,1
kafka-topics --alter --topic {T}
kafka-topics --alter --topic {T} --config retention.ms=1
kafka-topics --alter --topic nowhere --partitions 2
kafka-topics --alter --topic nowhere --partitions 2 --if-exists
kafka-topics --describe --topic {T}
kafka-topics --delete --topic {T}
kafka-topics --delete --topic nowhere
kafka-topics --delete --topic nowhere --if-exists
kafka-topics --delete
kafka-topics --nonsense
kafka-topics --version
kafka-topics --list --topic '{T}.*'
"""
RECORDS = r"""
kafka-topics --create --topic {T}
kafka-console-producer --topic {T} < Hello World|Hello again||the end
kafka-console-producer --topic {T} --sync --reader-property parse.key=true < k1	v1|k2	v2
kafka-console-producer --topic {T} --reader-property parse.key=true --reader-property key.separator=: < a:b:c|none|a:d
kafka-console-producer --topic {T} --reader-property parse.headers=true < h1:v1,h2:	v|g:w	x|bad	y
kafka-console-producer --topic {T} --reader-property parse.headers=true < nothing
kafka-console-producer --topic {T} --compression-codec < zipped
kafka-console-producer --topic {T} --compression-codec nonsense < zipped
kafka-console-producer --topic {T} --request-required-acks 1 --timeout 5 --batch-size 100 --retry-backoff-ms 9 < flags
kafka-console-producer < nobody asked
kafka-console-consumer --topic {T} --from-beginning --max-messages 11
kafka-console-consumer --topic {T} --partition 0 --offset 4 --max-messages 2 --formatter-property print.key=true
kafka-console-consumer --topic {T} --partition 0 --offset 6 --max-messages 3 --formatter-property print.headers=true \
 --formatter-property print.partition=true --formatter-property print.offset=true --formatter-property key.separator=/ \
 --formatter-property headers.separator=; --formatter-property null.literal=NIL --formatter-property print.key=true
kafka-console-consumer --topic {T} --partition 0 --offset 0 --max-messages 2 --formatter-property print.value=false
kafka-console-consumer --topic {T} --partition 0 --offset earliest --max-messages 1 \
 --formatter-property line.separator=.
kafka-console-consumer --include '{T}.*' --from-beginning --max-messages 2 --isolation-level read_committed
kafka-console-consumer --topic {T} --partition 0 --offset nonsense
kafka-console-consumer --topic {T} --offset earliest
kafka-console-consumer --topic {T} --partition 0 --offset 1 --from-beginning
kafka-console-consumer --topic {T} --group {G} --command-property group.id=other
kafka-console-consumer --topic {T} --from-beginning --command-property auto.offset.reset=latest
kafka-console-consumer --partition 0
kafka-console-consumer --topic {T} --from-beginning --max-messages 1 --formatter no.such.Class
kafka-console-consumer --topic {T} --partition 0 --offset 0 --max-messages 1 --value-deserializer \
 org.apache.kafka.common.serialization.LongDeserializer
"""
OFFSETS = """
kafka-topics --create --topic {T} --partitions 3
kafka-topics --create --topic {T}-other
kafka-console-producer --topic {T} --reader-property parse.key=true --reader-property key.separator=: < a:1|b:2|c:3|a:4
kafka-get-offsets --topic {T}
kafka-get-offsets --topic '{T}.*' --partitions 0
kafka-get-offsets --topic {T} --partitions 0,2 --time earliest
kafka-get-offsets --topic {T} --partitions 0-2
kafka-get-offsets --topic {T} --partitions 9
kafka-get-offsets --topic-partitions {T}:1,{T}-other
kafka-get-offsets --topic-partitions {T}:-2,{T}:2-
kafka-get-offsets --topic-partitions {T}:x
kafka-get-offsets --topic-partitions {T}:0 --topic {T}
kafka-get-offsets --topic-partitions {T}.*:0 --exclude-internal-topics
kafka-get-offsets --topic {T} --time -2
kafka-get-offsets --topic {T} --time 0
kafka-get-offsets --topic {T} --time 99999999999999
kafka-get-offsets --topic {T} --time earliest-local
kafka-get-offsets --topic {T} --time nonsense
kafka-get-offsets --topic __consumer_offsets --exclude-internal-topics
kafka-get-offsets --topic nowhere
"""
CONFIGS = """
kafka-topics --create --topic {T}
kafka-configs --entity-type topics --entity-name {T} --describe
kafka-configs --topic {T} --alter --add-config retention.ms=500,cleanup.policy=[compact,delete]
kafka-configs --topic {T} --describe
kafka-configs --topic {T} --alter --add-config max.message.bytes=1000 --delete-config cleanup.policy
kafka-configs --topic {T} --alter --add-config-file {P}
kafka-configs --topic {T} --describe
kafka-configs --topic {T} --describe --all
kafka-configs --topic {T} --alter --add-config-file {P} --add-config retention.ms=3
kafka-configs --topic {T} --alter --add-config nonsense=1
kafka-configs --topic {T} --alter --add-config retention.ms=abc
kafka-configs --topic {T} --alter --add-config retention.ms
kafka-configs --topic {T} --alter --delete-config nonsense
kafka-configs --topic {T} --alter
kafka-configs --topic {T}
kafka-configs --describe --topic nowhere
kafka-configs --alter --topic nowhere --add-config retention.ms=1
kafka-configs --alter --entity-type topics --add-config retention.ms=1
kafka-configs --describe --entity-type nonsense --entity-name x
kafka-configs --describe
kafka-configs --describe --broker 1
kafka-configs --describe --broker 9
kafka-configs --describe --broker x
kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2
kafka-configs --describe --entity-type brokers
kafka-configs --alter --entity-type brokers --entity-name 1 --delete-config log.cleaner.threads
kafka-configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=600000000
kafka-configs --describe --broker-defaults
kafka-configs --alter --broker-defaults --delete-config log.retention.ms
kafka-configs --alter --broker 1 --add-config broker.id=3
kafka-configs --alter --group {G} --add-config consumer.session.timeout.ms=50000
kafka-configs --describe --entity-type groups --entity-name {G}
"""
GROUPS = """
kafka-topics --create --topic {T} --partitions 2
kafka-topics --create --topic {T}-more
kafka-console-producer --topic {T} --reader-property parse.key=true --reader-property key.separator=: < a:1|b:2|c:3|d:4
kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-earliest
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-earliest --execute
kafka-consumer-groups --describe --group {G}
kafka-consumer-groups --describe --group {G} --offsets --verbose
kafka-consumer-groups --describe --group {G} --members
kafka-consumer-groups --describe --group {G} --state
kafka-consumer-groups --describe --group {G} --state --verbose
kafka-consumer-groups --describe --group {G} --state --members
kafka-consumer-groups --describe --group {G} --group nobody
kafka-consumer-groups --describe --group nobody --members
kafka-consumer-groups --describe --group {G} --all-groups
kafka-consumer-groups --describe
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-latest --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-current --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-offset 100 --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --shift-by 1 --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --shift-by -1 --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-datetime 2020-01-01T00:00:00.000 --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --by-duration P1DT2H --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --all-topics --to-latest --dry-run
kafka-consumer-groups --reset-offsets --group {G} --topic {T}:1 --to-latest --execute
kafka-consumer-groups --reset-offsets --group {G} --topic {T}-more --shift-by 1 --dry-run
kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-earliest --to-latest --execute
kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-earliest --dry-run --execute
kafka-consumer-groups --reset-offsets --topic {T} --to-earliest --execute
kafka-consumer-groups --reset-offsets --group {G}-nobody --all-topics --to-earliest --dry-run
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-current --export --dry-run > {F}
~kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-latest --execute
~kafka-consumer-groups --reset-offsets --group {G} --from-file {F} --execute
kafka-consumer-groups --describe --group {G}
~kafka-consumer-groups --reset-offsets --group {G} --group {G}-2 --topic {T} --to-earliest --export --execute > {F}
~kafka-consumer-groups --reset-offsets --group {G} --group {G}-2 --from-file {F} --dry-run
~kafka-consumer-groups --list --state empty
kafka-consumer-groups --list --state nonsense
kafka-consumer-groups --list --type nonsense
kafka-consumer-groups --delete-offsets --group {G} --topic {T}:1
kafka-consumer-groups --delete-offsets --group {G} --topic {T}
kafka-consumer-groups --delete-offsets --group {G} --topic {T}:9
kafka-consumer-groups --delete-offsets --group {G} --topic nowhere
kafka-consumer-groups --delete-offsets --group nobody --topic {T}-more
kafka-consumer-groups --delete-offsets --group {G}
kafka-consumer-groups --delete --group {G}-2
kafka-consumer-groups --delete --group {G} --group nobody
kafka-consumer-groups --delete --group {G} --topic {T}
kafka-consumer-groups --validate-regex 'a.*'
"""
MEMBERS = """
kafka-consumer-groups --describe --group {G}
kafka-consumer-groups --describe --group {G} --members
kafka-consumer-groups --describe --group {G} --members --verbose
kafka-consumer-groups --describe --group {G} --state --verbose
~kafka-consumer-groups --list --state --type
kafka-consumer-groups --reset-offsets --group {G} --topic {T} --to-earliest --execute
kafka-consumer-groups --delete-offsets --group {G} --topic {T}
kafka-consumer-groups --delete --group {G}
"""


@pytest.fixture(scope="module")
def java_tools() -> Iterator[Commands]:
    if (reason := programs.why_not_java()) is not None:
        pytest.skip(reason)
    with Commands() as commands:
        yield commands


class Sides:
    """The two that are compared, with files of their own."""

    def __init__(self, server: Target, tools: Commands, folder: Path, stem: str) -> None:
        self._server, self._tools, self._folder, self._stem = server, tools, folder, stem
        (folder / "properties").write_text("retention.ms=777\n# of topics\nsegment.bytes=1048577\n")

    def name(self, side: str, what: str) -> str:
        return f"{self._stem}-{side}-{what}"

    def told(self, line: str, side: str) -> Printed:
        file = self._folder / side
        names = {
            "T": self.name(side, "t"),
            "G": self.name(side, "g"),
            "F": file,
            "P": self._folder / "properties",
        }
        line, _, export = line.format(**names).partition(" > ")
        line, _, typed = line.partition(" < ")
        tool, *words = shlex.split(line)
        words[:0] = ["--bootstrap-server", self._server.bootstrap]
        stdin = typed.replace("|", "\n") + "\n"
        printed = self._tools.run(CLASSES[tool], words, stdin) if side == JAVAS else ours(tool, words, stdin)
        if export:
            Path(export).write_text(printed.out)
        return Printed(printed.status, self._without_names(printed.out, side))

    def fence(self) -> None:
        """The broker learns of changes in their order, a moment after their answers: the next command sees them.

        Its metadata are first, its own settings a moment later: once a second topic is seen, they have the first.
        """
        for _ in range(2):
            name = f"fence-{time.monotonic_ns()}"
            with ottla.Admin(bootstrap_servers=self._server.bootstrap) as admin:
                admin.create_topic(name, 1)
            until_seen(self._server.bootstrap, name)

    def _without_names(self, text: str, side: str) -> str:
        """What may differ: whose names they are, ids, times; and what the other side has made."""
        other = OURS if side == JAVAS else JAVAS
        lines = [
            each for each in text.splitlines(True) if f"-{other}-" not in each and "console-" not in each
        ]
        text = "".join(lines).replace(f"-{side}-", "-side-")
        for pattern, shown in SHOWN.items():
            text = re.sub(pattern, shown, text)
        return text


def ours(tool: str, words: list[str], stdin: str) -> Printed:
    """In this process: a command is a function."""
    with pytest.MonkeyPatch.context() as patch:
        out = io.TextIOWrapper(io.BytesIO(), write_through=True)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        patch.setattr("sys.stdout", out)
        try:
            status = main([tool, *words])
        except SystemExit as ended:
            status = int(ended.code or 0)
        out.flush()
        return Printed(status, out.buffer.getvalue().decode())


def differences(sides: Sides, script: str) -> list[str]:
    found = []
    for line in script.replace("\\\n ", "").strip().splitlines():
        unordered, line = line.startswith("~"), line.removeprefix("~")
        theirs, mine = sides.told(line, JAVAS), sides.told(line, OURS)
        if unordered and sorted(theirs.out.splitlines()) == sorted(mine.out.splitlines()):
            mine = mine._replace(out=theirs.out)
        if theirs != mine:
            found.append(f"{line}\n  Kafka's: {theirs}\n  ours:    {mine}")
        if CHANGE.search(line):
            sides.fence()
    return found


SCRIPTS = {"topics": TOPICS, "records": RECORDS, "offsets": OFFSETS, "configs": CONFIGS, "groups": GROUPS}


@pytest.mark.parametrize("stem", list(SCRIPTS))
def test_the_commands_do_and_print_what_apache_kafkas_own_do(
    kafka: Target, java_tools: Commands, tmp_path: Path, stem: str
) -> None:
    found = differences(Sides(kafka, java_tools, tmp_path, stem), SCRIPTS[stem])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_with_members_are_shown_as_by_apache_kafkas_own(
    kafka: Target, java_tools: Commands, tmp_path: Path, protocol: str
) -> None:
    sides = Sides(kafka, java_tools, tmp_path, f"members-{protocol}")
    consumers = []
    try:
        for side in (JAVAS, OURS):
            topic, group = sides.name(side, "t"), sides.name(side, "g")
            with ottla.Admin(bootstrap_servers=kafka.bootstrap) as admin:
                admin.create_topic(topic, 2)
            sides.fence()  # or the group is shared out again when its members or coordinator hear of the topic
            settings = {**MEMBER, "bootstrap.servers": kafka.bootstrap, "group.id": group, "client.id": "me"}
            consumer = ottla.Consumer({**settings, "group.protocol": protocol})
            consumers.append(consumer)
            consumer.subscribe(topic)
            until(lambda: consumer.poll(0.1) or len(consumer.assignment()) == 2)  # noqa: B023
            consumer.commit({ottla.TopicPartition(topic, 0): 0})
        found = differences(sides, MEMBERS)
        assert not found, "\n".join(found)
    finally:
        for consumer in consumers:
            consumer.close()
