"""`ottla kafka-topics`: Apache Kafka's tool of that name, its flags and its output, without Java."""

import argparse
import base64
import re
from typing import TYPE_CHECKING, Any

from ottla import errors
from ottla.cli.kafka_options import add_bootstrap, one_of, settings
from ottla.cli.options import UsageError, pairs
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.cluster import Partition, Topic

ACTIONS = ("list", "create", "delete", "describe", "alter")
COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--topic", help="with describe, delete and alter a regular expression")
    parser.add_argument("--topic-id")
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--replication-factor", type=int)
    parser.add_argument("--replica-assignment", metavar="1:2,2:3", help="brokers of each partition")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--if-exists", action="store_true")
    parser.add_argument("--if-not-exists", action="store_true")
    parser.add_argument("--exclude-internal", action="store_true")
    for name in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        parser.add_argument(f"--{name}-partitions", action="store_true")
    parser.add_argument("--topics-with-overrides", action="store_true")
    parser.add_argument("--partition-size-limit-per-response", type=int, help="accepted; has no effect")


def run(arguments: argparse.Namespace) -> int:
    from ottla.client import Admin

    action = one_of(arguments, ACTIONS)
    with Admin(settings(arguments, default_api_timeout_ms=15_000)) as admin:
        try:
            _RUN[action](admin, arguments)
        except OttlaError as error:
            print(f"Error while executing topic command : {plain(error)}")
            return 1
    return 0


def plain(error: OttlaError) -> str:
    """The broker's own words, without the name that our client puts before them."""
    text = getattr(error, "message", None) or str(error)
    return re.sub(r"^[\w.-]+: (?=[A-Z])", "", text)


def _list(admin: "Admin", arguments: argparse.Namespace) -> None:
    for name in _matching(admin, arguments):
        print(name)


def _create(admin: "Admin", arguments: argparse.Namespace) -> None:
    from ottla.client.admin.topics import NewTopic

    if not arguments.topic:
        raise UsageError('Missing required argument "[topic]"')
    if "." in arguments.topic or "_" in arguments.topic:
        print(COLLISION)
    new = NewTopic(
        arguments.topic,
        -1 if arguments.partitions is None else arguments.partitions,
        -1 if arguments.replication_factor is None else arguments.replication_factor,
        pairs(arguments.config),
        _assignment(arguments.replica_assignment),
    )
    try:
        admin.create_topics([new])
    except errors.TopicAlreadyExists:
        if not arguments.if_not_exists:
            raise errors.TopicAlreadyExists(f"Topic '{arguments.topic}' already exists.") from None
        return
    print(f"Created topic {arguments.topic}.")


def _delete(admin: "Admin", arguments: argparse.Namespace) -> None:
    for name in _required(admin, arguments):
        admin.delete_topics([name])


def _alter(admin: "Admin", arguments: argparse.Namespace) -> None:
    for name in _required(admin, arguments):
        if arguments.partitions is None:
            raise UsageError('Missing required argument "[partitions]"')
        assignment = _assignment(arguments.replica_assignment)
        now = len(admin.describe_topics([name])[name].partitions) if assignment else 0
        admin.add_partitions(name, arguments.partitions, assignments=assignment[now:] or None)


def _describe(admin: "Admin", arguments: argparse.Namespace) -> None:
    names = (
        _required(admin, arguments) if arguments.topic or arguments.topic_id else _matching(admin, arguments)
    )
    topics = admin.describe_topics(names) if names else {}
    filtered = any(
        getattr(arguments, f"{name}_partitions")
        for name in ("under_replicated", "unavailable", "under_min_isr", "at_min_isr")
    )
    for name in sorted(topics):
        topic = topics[name]
        configs = admin.describe_configs("topic", name)
        overrides = {c.name: c.value for c in configs.values() if c.source == "DYNAMIC_TOPIC_CONFIG"}
        if arguments.topics_with_overrides and not overrides:
            continue
        if not filtered:
            shown = {c.name: c.value for c in configs.values() if c.source != "DEFAULT_CONFIG"}
            print(_topic_line(topic, shown))
        if arguments.topics_with_overrides:
            continue
        least = int(configs["min.insync.replicas"].value or 1) if "min.insync.replicas" in configs else 1
        for partition in sorted(topic.partitions.values(), key=lambda p: p.index):
            if not filtered or _is_wanted(partition, arguments, least):
                print(_partition_line(name, partition))


def _topic_line(topic: "Topic", configs: dict[str, Any]) -> str:
    factor = len(next(iter(topic.partitions.values())).replicas) if topic.partitions else 0
    topic_id = base64.urlsafe_b64encode(topic.id).rstrip(b"=").decode()
    shown = ",".join(f"{name}={value}" for name, value in sorted(configs.items()))
    return (
        f"Topic: {topic.name}\tTopicId: {topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {shown}"
    )


def _partition_line(topic: str, partition: "Partition") -> str:
    leader = partition.leader if partition.leader >= 0 else "none"
    replicas, isr = (",".join(map(str, each)) for each in (partition.replicas, partition.isr))
    return (
        f"\tTopic: {topic}\tPartition: {partition.index}\tLeader: {leader}\tReplicas: {replicas}"
        f"\tIsr: {isr}\tElr: \tLastKnownElr: "
    )


def _is_wanted(partition: "Partition", arguments: argparse.Namespace, min_isr: int) -> bool:
    return (
        (arguments.under_replicated_partitions and len(partition.isr) < len(partition.replicas))
        or (arguments.unavailable_partitions and partition.leader < 0)
        or (arguments.under_min_isr_partitions and len(partition.isr) < min_isr)
        or (arguments.at_min_isr_partitions and len(partition.isr) == min_isr)
    )


def _matching(admin: "Admin", arguments: argparse.Namespace) -> list[str]:
    """By Kafka's include list: a regular expression in which commas stand for "or"."""
    topics = admin.list_topics(internal=not arguments.exclude_internal)
    if not arguments.topic:
        return sorted(topics)
    pattern = re.compile(arguments.topic.strip().replace(",", "|").strip("'\""))
    return [name for name in sorted(topics) if pattern.fullmatch(name)]


def _required(admin: "Admin", arguments: argparse.Namespace) -> list[str]:
    """As `_matching`, but nothing found is an error unless --if-exists."""
    if arguments.topic_id:
        wanted = base64.urlsafe_b64decode(arguments.topic_id + "==")
        found = [t.name for t in admin.list_topics().values() if t.id == wanted]
        if not found and not arguments.if_exists:
            raise errors.UnknownTopicId(f"TopicId '{arguments.topic_id}' does not exist as expected")
        return found
    if not arguments.topic:
        raise UsageError('Missing required argument "[topic]"')
    found = _matching(admin, arguments)
    if not found and not arguments.if_exists:
        raise errors.UnknownTopicOrPartition(f"Topic '{arguments.topic}' does not exist as expected")
    return found


def _assignment(text: str | None) -> list[list[int]]:
    return [[int(broker) for broker in part.split(":")] for part in text.split(",")] if text else []


_RUN = {"list": _list, "create": _create, "delete": _delete, "describe": _describe, "alter": _alter}
