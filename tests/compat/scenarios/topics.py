"""Topics by raw requests: create, describe, extend, empty and delete, in every version, also wrongly."""

from __future__ import annotations

from typing import Any

from tests.compat import batches
from tests.compat.answers import Session

_WRONG_NAMES = ("", ".", "..", "a b", "a/b", "é", "x" * 250)


def create_topics(s: Session) -> None:
    for version in s.versions("create_topics"):
        name = s.name(f"create-{version}")
        wanted = [
            {"name": name, "num_partitions": 3, "replication_factor": 1},
            {"name": f"{name}-config", "num_partitions": 1, "replication_factor": 1, "configs": _configs(3)},
        ]
        s.call("create_topics", version, {"topics": wanted, "timeout": 30_000}, "new")
        s.call("create_topics", version, {"topics": wanted[:1], "timeout": 30_000}, "again")


def create_topics_with_defaults_and_assignments(s: Session) -> None:
    for version in s.versions("create_topics", 4):
        name = s.name(f"defaults-{version}")
        wanted = [
            {"name": f"{name}-defaults", "num_partitions": -1, "replication_factor": -1},
            {
                "name": f"{name}-manual",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": _assigned(0, 1),
            },
            {
                "name": f"{name}-gap",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": _assigned(0, 2),
            },
            {
                "name": f"{name}-both",
                "num_partitions": 2,
                "replication_factor": 1,
                "assignments": _assigned(0, 1),
            },
            {
                "name": f"{name}-nobody",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [77]}],
            },
        ]
        s.call("create_topics", version, {"topics": wanted, "timeout": 30_000})


def create_topics_validate_only(s: Session) -> None:
    for version in s.versions("create_topics"):
        name = s.name(f"validate-{version}")
        wanted = [{"name": name, "num_partitions": 2, "replication_factor": 1}]
        s.call("create_topics", version, {"topics": wanted, "timeout": 30_000, "validate_only": True})
        s.note(f"v{version} afterwards", s.metadata(name)["error_code"])


def create_topics_wrongly(s: Session) -> None:
    version = s.latest("create_topics")
    wrong = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in _WRONG_NAMES]
    wrong += [
        {"name": s.name("zero"), "num_partitions": 0, "replication_factor": 1},
        {"name": s.name("negative"), "num_partitions": -5, "replication_factor": 1},
        {"name": s.name("replicas"), "num_partitions": 1, "replication_factor": 3},
        {"name": s.name("no-replicas"), "num_partitions": 1, "replication_factor": 0},
        {"name": s.name("twice"), "num_partitions": 1, "replication_factor": 1},
        {"name": s.name("twice"), "num_partitions": 1, "replication_factor": 1},
        *(
            {"name": s.name(f"config-{i}"), "num_partitions": 1, "replication_factor": 1, "configs": [config]}
            for i, config in enumerate(_WRONG_CONFIGS)
        ),
    ]
    s.call("create_topics", version, {"topics": wrong, "timeout": 30_000})
    s.topic("collide.a")
    collides = [{"name": s.name("collide_a"), "num_partitions": 1, "replication_factor": 1}]
    s.call("create_topics", version, {"topics": collides, "timeout": 30_000}, "dot and underscore")


_WRONG_CONFIGS = (
    {"name": "no.such.config", "value": "1"},
    {"name": "retention.ms", "value": "soon"},
    {"name": "retention.ms", "value": "-2"},
    {"name": "cleanup.policy", "value": "burn"},
    {"name": "segment.bytes", "value": "1"},
    {"name": "compression.type", "value": "rar"},
    {"name": "min.cleanable.dirty.ratio", "value": "1.5"},
    {"name": "max.message.bytes", "value": None},
    {"name": "message.timestamp.type", "value": "Never"},
    {"name": "unclean.leader.election.enable", "value": "maybe"},
)


def delete_topics(s: Session) -> None:
    for version in s.versions("delete_topics"):
        name = s.topic(f"delete-{version}")
        topic_id = s.topic_id(name)
        by_name = {"topic_names": [name], "topics": [{"name": name, "topic_id": None}], "timeout": 30_000}
        s.call("delete_topics", version, by_name, "by name")
        s.call("delete_topics", version, by_name, "again")
        if version >= 6:
            again = s.topic("by-id")
            s.call("delete_topics", version, _by_id(s.topic_id(again)), "by id")
            s.call("delete_topics", version, _by_id(topic_id), "by an old id")
            both = {"topics": [{"name": again, "topic_id": topic_id}], "timeout": 30_000}
            s.call("delete_topics", version, both, "by name and id")
            neither = {"topics": [{"name": None, "topic_id": None}], "timeout": 30_000}
            s.call("delete_topics", version, neither, "by neither")


def a_topic_made_anew_has_another_id(s: Session) -> None:
    name = s.topic("anew")
    first = s.topic_id(name)
    s.ask("delete_topics", {"topics": [{"name": name, "topic_id": None}], "timeout": 30_000})
    s.topic("anew")
    s.fence()  # until then Apache Kafka's broker may know the deleted one
    s.note("differs", first != s.topic_id(name))
    topics = [{"name": None, "topic_id": first}]
    s.call("metadata", s.latest("metadata"), {"topics": topics}, "by the old id")


def create_partitions(s: Session) -> None:
    for version in s.versions("create_partitions"):
        name = s.topic(f"extend-{version}")

        def ask(count: int, note: str, topic: str = name, v: int = version, **more: Any) -> None:
            wanted = {"name": topic, "count": count, "assignments": None, **more}
            body = {"topics": [wanted], "timeout": 30_000, "validate_only": note == "validate only"}
            s.call("create_partitions", v, body, note)

        ask(2, "validate only")
        ask(3, "more")
        s.wait_for_leaders(name, 3)
        ask(3, "same")
        ask(1, "fewer")
        ask(-1, "negative")
        ask(5, "unknown", topic="no-such-topic")
        ask(5, "assigned", assignments=[{"broker_ids": [1]}, {"broker_ids": [1]}])
        ask(7, "too few assigned", assignments=[{"broker_ids": [1]}])
        ask(7, "unknown broker", assignments=[{"broker_ids": [9]}, {"broker_ids": [9]}])


def delete_records(s: Session) -> None:
    for version in s.versions("delete_records"):
        name = s.topic(f"cut-{version}")
        s.produce(name, batches.batch([b"a", b"b", b"c", b"d"]))
        for offset in (2, 1, -1, 99, -5):
            partitions = [{"partition_index": 0, "offset": offset}, {"partition_index": 9, "offset": 0}]
            body = {"topics": [{"name": name, "partitions": partitions}], "timeout": 30_000}
            s.call("delete_records", version, body, f"before {offset}")
        missing = [{"name": "no-such-topic", "partitions": [{"partition_index": 0, "offset": 0}]}]
        s.call("delete_records", version, {"topics": missing, "timeout": 30_000}, "unknown")


def metadata(s: Session) -> None:
    name = s.topic("metadata", partitions=2)
    for version in s.versions("metadata"):
        for note, topics in _asked_of_metadata(s, name, version):
            allowed = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": version > 9}
            if version < 4 and note == "unknown":
                continue  # these versions create what they do not find
            s.call("metadata", version, {"topics": topics, **allowed}, note)


def metadata_creates_topics(s: Session) -> None:
    for version in s.versions("metadata", 4):
        name = s.name(f"auto-{version}")
        body = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": True}
        first = s.ask("metadata", body, version)["topics"][0]["error_code"]
        s.note(
            f"v{version} at first", first in ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NONE")
        )
        s.wait_for_leaders(name, 1)
        s.call("metadata", version, body, "then")
        wrong = {"topics": [{"name": "a/b", "topic_id": None}], "allow_auto_topic_creation": True}
        s.call("metadata", version, wrong, "wrong name")


def describe_topic_partitions(s: Session) -> None:
    first, second = s.topic("page-a", partitions=3), s.topic("page-b", partitions=2)
    topics = [{"name": second}, {"name": first}, {"name": "no-such-topic"}, {"name": "a/b"}]
    for version in s.versions("describe_topic_partitions"):
        cursor = None
        for page in range(9):
            body = {"topics": topics, "response_partition_limit": 2, "cursor": cursor}
            answer = s.call("describe_topic_partitions", version, body, f"page {page}")
            cursor = answer["next_cursor"]
            if cursor is None:
                break
        backwards = {
            "topics": topics,
            "response_partition_limit": 9,
            "cursor": {"topic_name": first, "partition_index": 1},
        }
        s.call("describe_topic_partitions", version, backwards, "from the middle")


def _asked_of_metadata(s: Session, name: str, version: int) -> list[tuple[str, object]]:
    asked: list[tuple[str, object]] = [
        ("known", [{"name": name, "topic_id": None}]),
        ("unknown", [{"name": "no-such-topic", "topic_id": None}]),
        ("wrong name", [{"name": "a/b", "topic_id": None}]),
    ]
    if version >= 1:
        asked.append(("none", []))
    if version >= 12:
        asked.append(("by id", [{"name": None, "topic_id": s.topic_id(name)}]))
        asked.append(("by unknown id", [{"name": None, "topic_id": "00000000-0000-0000-0000-0000000000ff"}]))
    if version >= 10:
        asked.append(("by name and id", [{"name": name, "topic_id": s.topic_id(name)}]))
    return asked


def _configs(count: int) -> list[dict[str, str]]:
    return [
        {"name": "retention.ms", "value": "60000"},
        {"name": "cleanup.policy", "value": "compact,delete"},
        {"name": "max.message.bytes", "value": "2000"},
    ][:count]


def _assigned(*partitions: int) -> list[dict[str, object]]:
    return [{"partition_index": partition, "broker_ids": [1]} for partition in partitions]


def _by_id(topic_id: str) -> dict[str, object]:
    return {"topics": [{"name": None, "topic_id": topic_id}], "timeout": 30_000}


def named_twice(s: Session) -> None:
    """One thing several times in a request."""
    name, nobody = s.topic("named-twice", 2), s.name("named-twice-nobody")
    s.call("metadata", s.latest("metadata"), {"topics": [{"name": name, "topic_id": None}] * 3})
    offsets = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}] * 2
    s.call("list_offsets", 7, {"topics": [{"name": name, "partitions": offsets}]})
    s.call("list_offsets", 7, {"topics": [{"name": name, "partitions": offsets[:1]}] * 2}, "topic")
    records = [{"partition_index": 0, "offset": 0}] * 2
    s.call("delete_records", 2, {"topics": [{"name": name, "partitions": records}], "timeout": 5000})
    alter = {"resource_type": 2, "resource_name": name, "configs": _altered("retention.ms", "1000000")}
    s.call("incremental_alter_configs", 1, {"resources": [alter] * 2})
    describe = {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]}
    s.call("describe_configs", 4, {"resources": [describe]}, "afterwards")
    s.call("describe_configs", 4, {"resources": [describe] * 2})
    s.call("describe_topic_partitions", 0, {"topics": [{"name": name}] * 3, "response_partition_limit": 2000})
    directories = [{"path": "/nowhere", "topics": [{"name": name, "partitions": [0, 0]}]}] * 2
    s.call("alter_replica_log_dirs", 2, {"dirs": directories})
    s.call(
        "delete_topics", 6, {"topics": [{"name": nobody, "topic_id": None}] * 3, "timeout": 5000}, "nobody"
    )
    s.call("delete_topics", 6, {"topics": [{"name": name, "topic_id": None}] * 3, "timeout": 5000})
    twice = [{"index": 0, "records": batches.batch([b"v"])}] * 2
    body = {"acks": -1, "timeout": 5000, "topic_data": [{"name": name, "partition_data": twice}]}
    s.call("produce", 9, body)


def _altered(name: str, value: str) -> list[dict[str, object]]:
    return [{"name": name, "config_operation": 0, "value": value}]
