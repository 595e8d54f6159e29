"""`ottla kafka-topics`: Apache Kafka's tool of that name, its flags and its output, without Java."""

import argparse
import base64
import re
from typing import Any

from ottla import errors
from ottla.cli.asking import topics as asking
from ottla.cli.kafka_options import add_bootstrap, need, one_of, refuse, regex_of, say, settings
from ottla.cli.options import UsageError, pairs
from ottla.client import Admin
from ottla.client.admin.topics import EligibleLeaders, NewTopic
from ottla.client.session import Partition, Topic
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError

ACTIONS = ("list", "describe", "create", "alter", "delete")
FILTERS = ("under-replicated", "unavailable", "under-min-isr", "at-min-isr")
# Flag -> the actions that take it.
TAKEN_BY = {
    "config": ("create",),
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "if-exists": ("describe", "alter", "delete"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    "topics-with-overrides": ("describe",),
    **{f"{name}-partitions": ("describe",) for name in FILTERS},
}
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
    parser.add_argument("--delete-config", metavar="NAME", help="has no effect; see kafka-configs")
    parser.add_argument("--if-exists", action="store_true")
    parser.add_argument("--if-not-exists", action="store_true")
    parser.add_argument("--exclude-internal", action="store_true")
    for name in FILTERS:
        parser.add_argument(f"--{name}-partitions", action="store_true")
    parser.add_argument("--topics-with-overrides", action="store_true")
    parser.add_argument("--partition-size-limit-per-response", type=int, help="accepted; has no effect")


def run(arguments: argparse.Namespace) -> int:
    action = one_of(arguments, ACTIONS)
    _check(arguments, action)
    with Admin(settings(arguments, default_api_timeout_ms=15_000)) as admin:
        try:
            _RUN[action](admin, arguments)
        except OttlaError as error:
            print(f"Error while executing topic command : {plain(error, arguments.topic)}")
            return 1
    return 0


def _check(arguments: argparse.Namespace, action: str) -> None:
    if arguments.delete_config:
        say("delete-config option is no longer supported; see kafka-configs --delete-config")
    if action in ("create", "alter", "delete") and arguments.topic_id is None:
        need(arguments, "topic")
    if action == "alter":
        need(arguments, "partitions")
    refuse(arguments, action, *(flag for flag, actions in TAKEN_BY.items() if action not in actions))
    if action == "create" and arguments.replica_assignment:
        refuse(arguments, "replica-assignment", "partitions", "replication-factor")


def plain(error: OttlaError, topic: str | None) -> str:
    """The broker's own words, without the name that our client puts before them."""
    text = getattr(error, "message", None) or str(error)
    return re.sub(r"^[\w.-]+: (?=[A-Z])", "", text.removeprefix(f"{topic}: "))


def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    print("\n".join(_matching(admin, arguments)))


def _create(admin: Admin, arguments: argparse.Namespace) -> None:
    if arguments.partitions is not None and arguments.partitions < 1:
        raise errors.InvalidPartitions("The partitions must be greater than 0")
    if arguments.replication_factor is not None and not 1 <= arguments.replication_factor <= 32_767:
        raise errors.InvalidReplicationFactor("The replication factor must be between 1 and 32767 inclusive")
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
        created = asking.create(admin, new, may_exist=arguments.if_not_exists)
    except errors.TopicAlreadyExists:
        raise errors.TopicAlreadyExists(f"Topic '{arguments.topic}' already exists.") from None
    if created is not None:
        print(f"Created topic {arguments.topic}.")


def _delete(admin: Admin, arguments: argparse.Namespace) -> None:
    for name in _required(admin, arguments):
        admin.delete_topics([name])


def _alter(admin: Admin, arguments: argparse.Namespace) -> None:
    for name in _required(admin, arguments):
        assignments = None
        if arguments.replica_assignment:  # of all partitions; those there are stay where they are
            now = asking.partition_count(admin, name)
            assignments = _assignment(arguments.replica_assignment)[now:]
        admin.add_partitions(name, arguments.partitions, assignments=assignments)


def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    names = (
        _required(admin, arguments) if arguments.topic or arguments.topic_id else _matching(admin, arguments)
    )
    topics = admin.describe_topics(names) if names else {}
    eligible = admin.eligible_leaders(names) if names else {}
    filtered = any(getattr(arguments, f"{name.replace('-', '_')}_partitions") for name in FILTERS)
    for name in sorted(topics):
        topic = topics[name]
        configs = admin.describe_configs("topic", name)
        shown = {c.name: c.value for c in configs.values() if c.source != "DEFAULT_CONFIG"}
        if arguments.topics_with_overrides and not shown:
            continue
        if not filtered:
            print(_topic_line(topic, shown))
        if arguments.topics_with_overrides:
            continue
        least = int(configs["min.insync.replicas"].value or 1) if "min.insync.replicas" in configs else 1
        for partition in sorted(topic.partitions.values(), key=lambda p: p.index):
            if not filtered or _is_wanted(partition, arguments, least):
                print(_partition_line(name, partition, eligible.get(TopicPartition(name, partition.index))))


def _topic_line(topic: Topic, configs: dict[str, Any]) -> str:
    factor = len(next(iter(topic.partitions.values())).replicas) if topic.partitions else 0
    topic_id = base64.urlsafe_b64encode(topic.id).rstrip(b"=").decode()
    shown = ",".join(f"{name}={value}" for name, value in sorted(configs.items()))
    return (
        f"Topic: {topic.name}\tTopicId: {topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {shown}"
    )


def _partition_line(topic: str, partition: Partition, eligible: EligibleLeaders | None) -> str:
    leader = partition.leader if partition.leader >= 0 else "none"
    return (
        f"\tTopic: {topic}\tPartition: {partition.index}\tLeader: {leader}"
        f"\tReplicas: {_joined(partition.replicas)}\tIsr: {_joined(partition.isr)}"
        f"\tElr: {_joined(eligible.elr) if eligible else 'N/A'}"
        f"\tLastKnownElr: {_joined(eligible.last_known) if eligible else 'N/A'}"
    )


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def _is_wanted(partition: Partition, arguments: argparse.Namespace, min_isr: int) -> bool:
    return (
        (arguments.under_replicated_partitions and len(partition.isr) < len(partition.replicas))
        or (arguments.unavailable_partitions and partition.leader < 0)
        or (arguments.under_min_isr_partitions and len(partition.isr) < min_isr)
        or (arguments.at_min_isr_partitions and len(partition.isr) == min_isr)
    )


def _matching(admin: Admin, arguments: argparse.Namespace) -> list[str]:
    """By Kafka's include list: a regular expression in which commas stand for "or"."""
    topics = admin.list_topics(internal=not arguments.exclude_internal)
    if not arguments.topic:
        return sorted(topics)
    pattern = regex_of(arguments.topic.strip().replace(",", "|").strip("'\""))
    return [name for name in sorted(topics) if pattern.fullmatch(name)]


def _required(admin: Admin, arguments: argparse.Namespace) -> list[str]:
    """As `_matching`, but nothing found is an error unless --if-exists."""
    if arguments.topic_id:
        wanted = _topic_id(arguments.topic_id)
        names = [t.name for t in admin.list_topics().values() if t.id == wanted]
        if not names and not arguments.if_exists:
            raise errors.UnknownTopicId(f"TopicId '{arguments.topic_id}' does not exist as expected")
        return names
    names = _matching(admin, arguments)
    if not names and not arguments.if_exists:
        raise errors.UnknownTopicOrPartition(f"Topic '{arguments.topic}' does not exist as expected")
    return names


def _topic_id(text: str) -> bytes:
    wanted = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(wanted) != 16:
        raise UsageError(
            f"Input string `{text}` decoded as {len(wanted)} bytes, which is not equal to the expected 16 bytes "
            "of a base64-encoded UUID"
        )
    return wanted


def _assignment(text: str | None) -> list[list[int]]:
    return [[int(broker) for broker in part.split(":")] for part in text.split(",")] if text else []


_RUN = {"list": _list, "create": _create, "delete": _delete, "describe": _describe, "alter": _alter}
