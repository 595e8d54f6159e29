"""`kafka-consumer-groups` prints the same for the same history on both servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.clients import Confluent, Row
from tests.compat.fences import fence
from tests.compat.members import ConfluentMember, committed, group_of, wait_until
from tests.compat.printed import Printed, assert_alike, run_commands
from tests.compat.raw import Raw
from tests.conftest import Target

Unique = Callable[[str], str]
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
LIVE = (
    "--describe --group {group}",
    "--describe --group {group} --offsets --verbose",
    "--describe --group {group} --members --verbose",
    "--describe --group {group} --state --verbose",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --execute",
    "--delete-offsets --group {group} --topic {topic}",
    "--delete --group {group}",
)
EMPTY = (
    "--describe --group {group}",
    "--describe --group {group} --members",
    "--describe --group {group} --state",
    "--describe --group {group}-nobody",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --dry-run",
    "--reset-offsets --group {group} --topic {topic}:0 --to-offset 3 --execute",
    "--reset-offsets --group {group} --topic {topic} --shift-by -2 --execute",
    "--reset-offsets --group {group} --topic {topic} --to-datetime 2000-01-01T00:00:00.000 --execute",
    "--reset-offsets --group {group} --topic {topic} --by-duration PT1H --export",
    "--reset-offsets --group {group} --all-topics --to-latest --export",
    "--reset-offsets --group {group} --topic {topic} --to-current --execute",
    "--reset-offsets --group {group} --topic {topic}-nowhere --to-earliest --execute",
    "--reset-offsets --group {group} --topic {topic} --to-offset 99 --execute",
    "--describe --group {group}",
    "--delete-offsets --group {group} --topic {topic}:1",
    "--delete-offsets --group {group} --topic {topic}-nowhere",
    "--describe --group {group}",
    "--delete --group {group}",
    "--delete --group {group}",
    "--describe --group {group}",
)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_prints_the_same(
    both: dict[str, Target], protocol: str, unique: Unique
) -> None:
    """Described, reset and deleted, while there is a member and afterwards."""
    stem = unique("printed")
    printed: dict[str, list[Printed]] = {}
    settings = {"group.protocol": "consumer"} if protocol == "consumer" else {}
    for name, server in both.items():
        topic, group, client = f"{stem}-topic", f"{stem}-group", Confluent(server.bootstrap)
        client.create(topic, 2)
        with Raw(server.bootstrap) as raw:
            fence(raw)  # or the coordinator may hear of the topic after its member: an epoch more is printed
        for partition in range(2):
            client.produce(topic, [Row(b"%d" % i) for i in range(10)], partition)
        with group_of(ConfluentMember(server.bootstrap, group, [topic], **settings)) as (member,):
            wait_until(lambda m=member: len(m.read) == 20, "everything read")  # type: ignore[misc]
            where = (server.bootstrap, group, topic, 2)
            wait_until(lambda w=where: committed(*w) == [10, 10], "everything committed")  # type: ignore[misc]
            printed[name] = run_commands(TOOL, server, LIVE, topic, group)
        printed[name] += run_commands(TOOL, server, EMPTY, topic, group)
    assert_alike([*LIVE, *EMPTY], printed)
