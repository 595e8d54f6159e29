"""What admin tools ask a single broker, and how it refuses what it has not."""

from __future__ import annotations

from tests.compat.answers import Session
from tests.compat.batches import batch


def describe_cluster(s: Session) -> None:
    for version in s.versions("describe_cluster"):
        s.call("describe_cluster", version, {"endpoint_type": 1})
        if version >= 1:
            s.call("describe_cluster", version, {"endpoint_type": 2}, "controllers")
            s.call("describe_cluster", version, {"endpoint_type": 9}, "unknown end point")


def describe_log_dirs(s: Session) -> None:
    name = s.topic("dirs", partitions=2)
    s.produce(name, batch([b"x" * 100]))
    for version in s.versions("describe_log_dirs"):
        s.call("describe_log_dirs", version, {"topics": [{"topic": name, "partitions": [0, 1]}]})
        s.call(
            "describe_log_dirs",
            version,
            {"topics": [{"topic": "no-such-topic", "partitions": [0]}]},
            "unknown",
        )


def elect_leaders(s: Session) -> None:
    name = s.topic("elect")
    for version in s.versions("elect_leaders"):
        for kind in (0, 1):
            body = {
                "election_type": kind,
                "topic_partitions": [
                    {"topic": name, "partitions": [0, 9]},
                    {"topic": "no-such", "partitions": [0]},
                ],
                "timeout": 10_000,
            }
            s.call("elect_leaders", version, body, f"type {kind}")


def reassignments(s: Session) -> None:
    name = s.topic("reassign")
    for version in s.versions("list_partition_reassignments"):
        s.call("list_partition_reassignments", version, {"timeout": 5000, "topics": None}, "all")
        one = [{"name": name, "partition_indexes": [0]}]
        s.call("list_partition_reassignments", version, {"timeout": 5000, "topics": one}, "one")
    for version in s.versions("alter_partition_reassignments"):
        for note, replicas in {
            "to itself": [1],
            "to nobody": [9],
            "cancel": None,
            "twice": [1, 1],
            "none": [],
        }.items():
            topics = [{"name": name, "partitions": [{"partition_index": 0, "replicas": replicas}]}]
            s.call("alter_partition_reassignments", version, {"timeout": 5000, "topics": topics}, note)
        topics = [{"name": "no-such", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
        s.call("alter_partition_reassignments", version, {"timeout": 5000, "topics": topics}, "unknown")


def acls_are_disabled(s: Session) -> None:
    anything = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    for version in s.versions("describe_acls"):
        s.call("describe_acls", version, anything)
    acl = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    for version in s.versions("create_acls"):
        s.call("create_acls", version, {"creations": [acl]})
    for version in s.versions("delete_acls"):
        s.call("delete_acls", version, {"filters": [anything]})


def client_quotas_are_empty(s: Session) -> None:
    for version in s.versions("describe_client_quotas"):
        s.call("describe_client_quotas", version, {"components": [], "strict": False})


def scram_users_are_none(s: Session) -> None:
    for version in s.versions("describe_user_scram_credentials"):
        s.call("describe_user_scram_credentials", version, {"users": None}, "all")
        s.call("describe_user_scram_credentials", version, {"users": [{"name": "nobody"}]}, "one")


def alter_replica_log_dirs(s: Session) -> None:
    name = s.topic("move")
    for version in s.versions("alter_replica_log_dirs"):
        dirs = [{"path": "/no/such/folder", "topics": [{"name": name, "partitions": [0]}]}]
        s.call("alter_replica_log_dirs", version, {"dirs": dirs}, "unknown folder")


def transactions_of_nobody(s: Session) -> None:
    s.coordinator("nobody", kind=1)
    for version in s.versions("list_transactions"):
        body = {
            "state_filters": ["Ongoing", "Nonsense"],
            "producer_id_filters": [424242],
            "duration_filter": -1,
        }
        s.call("list_transactions", version, body)
    for version in s.versions("describe_transactions"):
        s.call("describe_transactions", version, {"transactional_ids": ["nobody", ""]})
