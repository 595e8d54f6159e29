"""What each API asks for, beside Apache Kafka with the same rules: without rights, with each right alone, with all.

One case for every route; a route without a case fails the last test. Compared are the errors, the names in an answer,
and the operations that it says are allowed.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.permits.table import PERMITS
from ottla.broker.routes import ROUTES
from ottla.errors import NAMES
from ottla.testing import Broker
from ottla.wire import batch, codec
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenResponse
from ottla.wire.messages.describe_transactions import DescribeTransactionsResponse
from ottla.wire.records import Record
from tests.compat.batches import NOW_MS
from tests.compat.raw import Raw, ask_until
from tests.oracle.cluster import Oracle, why_not
from tests.oracle.ports import free_ports

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS = 10, 11, 12, 13
USER = 7
ANY, LITERAL, ALLOW = 1, 3, 3
C = "kafka-cluster"
RECORDS = bytes(batch.build([Record(-1, NOW_MS, b"k", b"v")]))
IN_TRANSACTION = bytes(
    batch.build(
        [Record(-1, NOW_MS, b"k", b"v")],
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
)
new_names = (f"new-{number}" for number in itertools.count())

NO_SUCH_ID = uuid.UUID("00000000-0000-4000-8000-00000000abcd")

# API, version, request (or what makes one of a new name and the id of topic t), and every right that plays a part:
# (operation, resource type, name).
PARTITIONS = [{"name": "t", "partitions": [{"partition_index": 0}]}]
CASES = [
    ("produce", 9, {"acks": 1, "timeout": 1000, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": RECORDS}]}]}, [(WRITE, TOPIC, "t"), (READ, TOPIC, "t")]),
    ("produce", 9, {"acks": 1, "timeout": 1000, "transactional_id": "x", "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": IN_TRANSACTION}]}]}, [(WRITE, TRANSACTIONAL_ID, "other")]),
    ("fetch", 12, {"replica_id": -1, "max_wait": 0, "max_bytes": 1000, "topics": [{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 10}]}]}, [(READ, TOPIC, "t"), (DESCRIBE, TOPIC, "t"), (CLUSTER_ACTION, CLUSTER, C)]),
    ("fetch", 12, {"replica_id": 7, "max_wait": 0, "max_bytes": 1000, "topics": [{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 10}]}]}, [(READ, TOPIC, "t")]),
    ("list_offsets", 7, {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]}, [(DESCRIBE, TOPIC, "t"), (READ, TOPIC, "t"), (CREATE, TOPIC, "t")]),
    ("offset_for_leader_epoch", 4, {"replica_id": -1, "topics": [{"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]}, [(DESCRIBE, TOPIC, "t"), (CLUSTER_ACTION, CLUSTER, C)]),
    ("delete_records", 2, {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout": 1000}, [(DELETE, TOPIC, "t"), (WRITE, TOPIC, "t")]),
    ("metadata", 12, {"topics": [{"name": "t"}, {"name": "no-such"}], "allow_auto_topic_creation": False, "include_topic_authorized_operations": True}, [(DESCRIBE, TOPIC, "t"), (DESCRIBE, TOPIC, "no-such"), (READ, TOPIC, "t")]),
    ("metadata", 12, {"topics": None, "allow_auto_topic_creation": False}, [(DESCRIBE, TOPIC, "t")]),
    ("metadata", 10, {"topics": None, "include_cluster_authorized_operations": True}, [(DESCRIBE, CLUSTER, C), (ALTER, CLUSTER, C)]),
    ("describe_cluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 1}, [(DESCRIBE, CLUSTER, C), (CREATE, CLUSTER, C)]),
    ("describe_topic_partitions", 0, {"topics": [{"name": "t"}, {"name": "no-such"}], "response_partition_limit": 10}, [(DESCRIBE, TOPIC, "t"), (DESCRIBE, TOPIC, "no-such")]),
    ("create_topics", 5, lambda name, topic: {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}], "timeout": 9000}, [(CREATE, CLUSTER, C), (DESCRIBE_CONFIGS, TOPIC, "*")]),
    ("create_topics", 5, lambda name, topic: {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}], "timeout": 9000}, [(CREATE, TOPIC, "*")]),
    ("delete_topics", 5, {"topic_names": ["no-such"], "timeout": 9000}, [(DELETE, TOPIC, "no-such"), (DELETE, CLUSTER, C), (DESCRIBE, TOPIC, "no-such")]),
    ("delete_topics", 6, {"topics": [{"name": "no-such"}], "timeout": 9000}, [(DELETE, TOPIC, "no-such"), (DESCRIBE, TOPIC, "no-such")]),
    ("create_partitions", 3, {"topics": [{"name": "t", "count": 1}], "timeout": 9000}, [(ALTER, TOPIC, "t"), (CREATE, TOPIC, "t")]),
    ("describe_configs", 4, {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": ["retention.ms"]}, {"resource_type": 4, "resource_name": "1", "configuration_keys": ["node.id"]}, {"resource_type": 32, "resource_name": "g", "configuration_keys": ["none"]}]}, [(DESCRIBE_CONFIGS, TOPIC, "t"), (DESCRIBE_CONFIGS, CLUSTER, C), (DESCRIBE_CONFIGS, GROUP, "g"), (ALTER_CONFIGS, TOPIC, "t")]),
    ("alter_configs", 2, {"resources": [{"resource_type": 2, "resource_name": "t", "configs": []}], "validate_only": True}, [(ALTER_CONFIGS, TOPIC, "t"), (ALTER, TOPIC, "t")]),
    ("incremental_alter_configs", 1, {"resources": [{"resource_type": 2, "resource_name": "t", "configs": []}, {"resource_type": 4, "resource_name": "1", "configs": []}, {"resource_type": 32, "resource_name": "g", "configs": []}], "validate_only": True}, [(ALTER_CONFIGS, TOPIC, "t"), (ALTER_CONFIGS, CLUSTER, C), (ALTER_CONFIGS, GROUP, "g")]),
    ("list_config_resources", 0, {}, [(DESCRIBE_CONFIGS, CLUSTER, C)]),
    ("find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g", "h"]}, [(DESCRIBE, GROUP, "g"), (READ, GROUP, "h")]),
    ("find_coordinator", 2, {"key_type": 1, "key": "x"}, [(DESCRIBE, TRANSACTIONAL_ID, "x"), (WRITE, TRANSACTIONAL_ID, "x")]),
    ("join_group", 5, {"group_id": "g", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "nobody", "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}, [(READ, GROUP, "g"), (DESCRIBE, GROUP, "g")]),
    ("sync_group", 3, {"group_id": "g", "generation_id": 1, "member_id": "nobody"}, [(READ, GROUP, "g")]),
    ("heartbeat", 3, {"group_id": "g", "generation_id": 1, "member_id": "nobody"}, [(READ, GROUP, "g")]),
    ("leave_group", 3, {"group_id": "g", "members": [{"member_id": "nobody"}]}, [(READ, GROUP, "g")]),
    ("consumer_group_heartbeat", 0, {"group_id": "n", "member_id": "nobody", "member_epoch": 5, "subscribed_topic_names": ["t"]}, [(READ, GROUP, "n"), (DESCRIBE, TOPIC, "t")]),
    ("offset_commit", 8, {"group_id": "c", "generation_id_or_member_epoch": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 0}]}]}, [(READ, GROUP, "c"), (READ, TOPIC, "t"), (DESCRIBE, TOPIC, "t")]),
    ("offset_fetch", 7, {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}, [(DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "t")]),
    ("offset_fetch", 7, {"group_id": "g", "topics": None}, [(DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "t")]),
    ("offset_fetch", 8, {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}, {"group_id": "h", "topics": None}]}, [(DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "t"), (DESCRIBE, GROUP, "h")]),
    ("offset_delete", 0, {"group_id": "g", "topics": [{"name": "no-such", "partitions": [{"partition_index": 0}]}]}, [(DELETE, GROUP, "g"), (READ, TOPIC, "no-such")]),
    ("txn_offset_commit", 3, {"transactional_id": "x", "group_id": "g", "producer_id": 99, "producer_epoch": 0, "generation_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 0}]}]}, [(WRITE, TRANSACTIONAL_ID, "x"), (READ, GROUP, "g")]),
    ("list_groups", 4, {}, [(DESCRIBE, GROUP, "g"), (DESCRIBE, CLUSTER, C)]),
    ("describe_groups", 5, {"groups": ["g", "h"], "include_authorized_operations": True}, [(DESCRIBE, GROUP, "g"), (READ, GROUP, "h")]),
    ("consumer_group_describe", 0, {"group_ids": ["n"]}, [(DESCRIBE, GROUP, "n")]),
    ("delete_groups", 2, {"groups_names": ["no-such"]}, [(DELETE, GROUP, "no-such"), (READ, GROUP, "no-such")]),
    ("init_producer_id", 4, {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}, [(IDEMPOTENT_WRITE, CLUSTER, C), (WRITE, TOPIC, "other"), (READ, TOPIC, "t")]),
    ("init_producer_id", 4, {"transactional_id": "fresh", "transaction_timeout": -1, "producer_id": -1, "producer_epoch": -1}, [(WRITE, TRANSACTIONAL_ID, "fresh"), (DESCRIBE, TRANSACTIONAL_ID, "fresh")]),
    ("add_partitions_to_txn", 3, {"v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 99, "v3_and_below_topics": [{"name": "t", "partitions": [0]}, {"name": "u", "partitions": [0]}]}, [(WRITE, TRANSACTIONAL_ID, "x"), (WRITE, TOPIC, "t"), (WRITE, TOPIC, "u")]),
    ("add_partitions_to_txn", 4, {"transactions": [{"transactional_id": "x", "producer_id": 99, "topics": [{"name": "t", "partitions": [0]}]}]}, [(CLUSTER_ACTION, CLUSTER, C), (WRITE, TRANSACTIONAL_ID, "x")]),
    ("add_offsets_to_txn", 3, {"transactional_id": "x", "producer_id": 99, "group_id": "g"}, [(WRITE, TRANSACTIONAL_ID, "x"), (READ, GROUP, "g")]),
    ("end_txn", 3, {"transactional_id": "x", "producer_id": 99, "committed": True}, [(WRITE, TRANSACTIONAL_ID, "x"), (READ, TRANSACTIONAL_ID, "x")]),
    ("write_txn_markers", 1, {"markers": [{"producer_id": 99, "topics": [{"name": "no-such", "partition_indexes": [0]}]}]}, [(CLUSTER_ACTION, CLUSTER, C), (ALTER, CLUSTER, C), (DESCRIBE, CLUSTER, C)]),
    ("describe_transactions", 0, {"transactional_ids": ["x", "y"]}, [(DESCRIBE, TRANSACTIONAL_ID, "x"), (WRITE, TRANSACTIONAL_ID, "y")]),
    ("list_transactions", 0, {}, [(DESCRIBE, TRANSACTIONAL_ID, "x")]),
    ("describe_producers", 0, {"topics": [{"name": "t", "partition_indexes": [0]}]}, [(READ, TOPIC, "t"), (DESCRIBE, TOPIC, "t")]),
    ("describe_log_dirs", 4, {"topics": []}, [(DESCRIBE, CLUSTER, C)]),
    ("alter_replica_log_dirs", 2, {"dirs": [{"path": "/no/such", "topics": [{"name": "no-such", "partitions": [0]}]}]}, [(ALTER, CLUSTER, C)]),
    ("elect_leaders", 2, {"election_type": 0, "topic_partitions": [{"topic": "no-such", "partitions": [0]}], "timeout": 1000}, [(ALTER, CLUSTER, C), (CLUSTER_ACTION, CLUSTER, C)]),
    ("alter_partition_reassignments", 0, {"timeout": 1000, "topics": [{"name": "no-such", "partitions": [{"partition_index": 0, "replicas": None}]}]}, [(ALTER, CLUSTER, C)]),
    ("list_partition_reassignments", 0, {"timeout": 1000, "topics": None}, [(DESCRIBE, CLUSTER, C)]),
    ("unregister_broker", 0, {"broker_id": 77}, [(ALTER, CLUSTER, C)]),
    ("describe_quorum", 0, {"topics": [{"topic_name": "no-such", "partitions": [{"partition_index": 0}]}]}, [(DESCRIBE, CLUSTER, C)]),
    ("describe_acls", 3, {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}, [(DESCRIBE, CLUSTER, C)]),
    ("create_acls", 3, {"creations": [{"resource_type": 2, "resource_name": "", "resource_pattern_type": 3, "principal": "User:x", "host": "*", "operation": 3, "permission_type": 3}]}, [(ALTER, CLUSTER, C)]),
    ("delete_acls", 3, {"filters": [{"resource_type_filter": 2, "resource_name_filter": "no-such", "pattern_type_filter": 3, "operation": 1, "permission_type": 1}]}, [(ALTER, CLUSTER, C)]),
    ("describe_client_quotas", 1, {"components": [], "strict": False}, [(DESCRIBE_CONFIGS, CLUSTER, C)]),
    ("alter_client_quotas", 1, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}], "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}]}], "validate_only": True}, [(ALTER_CONFIGS, CLUSTER, C)]),
    ("describe_user_scram_credentials", 0, {"users": [{"name": "no-such"}]}, [(DESCRIBE, CLUSTER, C)]),
    ("alter_user_scram_credentials", 0, {"deletions": [{"name": "no-such", "mechanism": 1}]}, [(ALTER, CLUSTER, C)]),
    ("share_group_heartbeat", 1, {"group_id": "s", "member_id": "nobody", "member_epoch": 5, "subscribed_topic_names": ["t"]}, [(READ, GROUP, "s"), (DESCRIBE, TOPIC, "t")]),
    ("share_group_describe", 1, {"group_ids": ["s"]}, [(DESCRIBE, GROUP, "s"), (READ, GROUP, "s")]),
    ("share_fetch", 1, {"group_id": "s", "member_id": "nobody", "share_session_epoch": 5, "max_wait": 0, "max_bytes": 1000}, [(READ, GROUP, "s")]),
    ("share_acknowledge", 1, {"group_id": "s", "member_id": "nobody", "share_session_epoch": 5}, [(READ, GROUP, "s")]),
    ("describe_share_group_offsets", 0, {"groups": [{"group_id": "s", "topics": [{"topic_name": "t", "partitions": [0]}]}]}, [(DESCRIBE, GROUP, "s"), (DESCRIBE, TOPIC, "t")]),
    ("alter_share_group_offsets", 0, {"group_id": "s", "topics": [{"topic_name": "no-such", "partitions": [{"partition_index": 0, "start_offset": 0}]}]}, [(READ, GROUP, "s"), (READ, TOPIC, "no-such")]),
    ("delete_share_group_offsets", 0, {"group_id": "s", "topics": [{"topic_name": "t"}]}, [(DELETE, GROUP, "s"), (READ, TOPIC, "t")]),
    # A topology after the first heartbeat is refused, but only to those who may see its topics.
    ("streams_group_heartbeat", 0, {"group_id": "w", "member_id": "nobody", "member_epoch": 5, "topology": {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["t"], "repartition_sink_topics": ["u"]}]}}, [(READ, GROUP, "w"), (DESCRIBE, TOPIC, "t"), (DESCRIBE, TOPIC, "u")]),
    ("streams_group_heartbeat", 0, {"group_id": "w", "member_id": "nobody", "member_epoch": 5, "topology": {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["__consumer_offsets"]}]}}, [(READ, GROUP, "w")]),
    ("streams_group_describe", 0, {"group_ids": ["w"]}, [(DESCRIBE, GROUP, "w"), (READ, GROUP, "w")]),
    # Without a key for tokens: what is refused before, and what is said to those who may.
    ("create_delegation_token", 3, {"owner_principal_type": "User", "owner_principal_name": "carol", "max_lifetime": -1}, [(CREATE_TOKENS, USER, "User:carol"), (ALTER, CLUSTER, C)]),
    ("create_delegation_token", 3, {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime": -1}, [(ALTER, CLUSTER, C)]),
    ("renew_delegation_token", 2, {"hmac": b"x", "renew_period": -1}, [(ALTER, CLUSTER, C)]),
    ("expire_delegation_token", 2, {"hmac": b"x", "expiry_time_period": -1}, [(ALTER, CLUSTER, C)]),
    ("describe_delegation_token", 3, {"owners": None}, [(DESCRIBE, CLUSTER, C)]),
    # By the id of a topic, or by one that no topic has.
    ("metadata", 12, lambda name, topic: {"topics": [{"name": None, "topic_id": each} for each in (topic, NO_SUCH_ID)], "allow_auto_topic_creation": False}, [(DESCRIBE, TOPIC, "t"), (READ, TOPIC, "u")]),
    ("fetch", 13, lambda name, topic: {"max_wait": 0, "max_bytes": 1000, "topics": [{"topic_id": each, "partitions": [{"partition": 0, "partition_max_bytes": 10}]} for each in (topic, NO_SUCH_ID)]}, [(READ, TOPIC, "t"), (DESCRIBE, TOPIC, "t")]),
    ("produce", 13, lambda name, topic: {"acks": 1, "timeout": 1000, "topic_data": [{"topic_id": each, "partition_data": [{"index": 0, "records": RECORDS}]} for each in (topic, NO_SUCH_ID)]}, [(WRITE, TOPIC, "t"), (DESCRIBE, TOPIC, "t")]),
    ("delete_topics", 6, lambda name, topic: {"topics": [{"name": None, "topic_id": each} for each in (topic, NO_SUCH_ID)], "timeout": 9000}, [(DESCRIBE, TOPIC, "t"), (READ, TOPIC, "t")]),
    ("offset_commit", 10, lambda name, topic: {"group_id": "c", "generation_id_or_member_epoch": -1, "topics": [{"topic_id": each, "partitions": [{"partition_index": 0, "committed_offset": 0}]} for each in (topic, NO_SUCH_ID)]}, [(READ, GROUP, "c"), (READ, TOPIC, "t")]),
    ("offset_fetch", 10, lambda name, topic: {"groups": [{"group_id": "g", "topics": [{"topic_id": each, "partition_indexes": [0]} for each in (topic, NO_SUCH_ID)]}]}, [(DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "t")]),
    # Not with READ on the topic: nobody has joined the group, so Apache Kafka has no state of it to read from. It answers with
    # no row, or with UNKNOWN_SERVER_ERROR where it may wait; Ottla begins to share the partition.
    ("share_fetch", 1, lambda name, topic: {"group_id": "s", "member_id": "AAAAAAAAQACAAAAAAAAAAQ", "share_session_epoch": 0, "max_wait": 0, "max_bytes": 1000, "max_records": 1, "topics": [{"topic_id": topic, "partitions": [{"partition_index": 0}]}]}, [(READ, GROUP, "s")]),
    # Without a name, and a name that stands for no topic yet.
    ("describe_topic_partitions", 0, {"topics": [], "response_partition_limit": 10}, [(DESCRIBE, TOPIC, "t")]),
    ("metadata", 12, lambda name, topic: {"topics": [{"name": name}], "allow_auto_topic_creation": True}, [(DESCRIBE, TOPIC, "*")]),
    ("metadata", 12, lambda name, topic: {"topics": [{"name": name}], "allow_auto_topic_creation": True}, [(CREATE, TOPIC, "*"), (CREATE, CLUSTER, C)]),
    ("incremental_alter_configs", 1, {"resources": [{"resource_type": 16, "resource_name": "m", "configs": []}, {"resource_type": 8, "resource_name": "1", "configs": []}], "validate_only": True}, [(ALTER_CONFIGS, CLUSTER, C)]),
    ("describe_configs", 4, {"resources": [{"resource_type": 16, "resource_name": "m", "configuration_keys": ["none"]}]}, [(DESCRIBE_CONFIGS, CLUSTER, C)]),
]  # fmt: skip
# Between brokers, or before a client is known: not for a client's eyes, or free for all.
BETWEEN_BROKERS = {"AlterPartition", "AllocateProducerIds", "Envelope"} | {
    f"{what}ShareGroupState{more}"
    for what, more in (("Initialize", ""), ("Read", ""), ("Write", ""), ("Delete", ""), ("Read", "Summary"))
}
FREE = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry"}
# Where Apache Kafka's answer is its own affair: what it says, and what Ottla says, with everything allowed.
OWN_WORDS = {"describe_quorum", "describe_log_dirs", "list_config_resources", "unregister_broker"}

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


class Server:
    """A broker with a listener for clients that log in, and one for a super user who does not."""

    def __init__(self, name: str, clients: str, inside: str) -> None:
        self.name, self.clients = name, clients
        self.admin = Raw(inside)
        self._prepare()

    def _prepare(self) -> None:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("t", "u")]
        self.admin.call("create_topics", 5, {"topics": topics, "timeout": 9000})
        self._until(lambda: self._commit("g") == "NONE" and self._commit("h") == "NONE")
        for api in ("list_groups", "list_transactions"):  # of every partition: all of them are loaded
            self._until(lambda: self.admin.call(api, 0)["error_code"] == "NONE")  # noqa: B023  called at once
        (topic,) = self.admin.call("metadata", 12, {"topics": [{"name": "t"}]})["topics"]
        self.topic_id = uuid.UUID(topic["topic_id"])

    def _commit(self, group: str) -> str:
        self.admin.call("find_coordinator", 2, {"key_type": 0, "key": group})
        self.admin.call("find_coordinator", 2, {"key_type": 1, "key": "x"})
        offsets = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 0}]}]
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": offsets}
        answer = self.admin.call("offset_commit", 8, body)
        fields = {
            "transactional_id": "x",
            "transaction_timeout": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        begun = self.admin.call("init_producer_id", 4, fields)
        code: str = answer["topics"][0]["partitions"][0]["error_code"]
        return code if code != "NONE" else begun["error_code"]

    def grant(self, rights: list[tuple[int, int, str]]) -> None:
        """These rights for alice, and no others."""
        every = {
            "resource_type_filter": ANY,
            "pattern_type_filter": ANY,
            "operation": ANY,
            "permission_type": ANY,
        }
        self.admin.call("delete_acls", 3, {"filters": [every]})
        creations = [
            {
                "resource_type": kind,
                "resource_name": name,
                "resource_pattern_type": LITERAL,
                "principal": "User:alice",
                "host": "*",
                "operation": operation,
                "permission_type": ALLOW,
            }
            for operation, kind, name in rights
        ]
        self.admin.call("create_acls", 3, {"creations": creations})

        def are_there() -> bool:
            """These very ones: the rights before may be as many, and Apache Kafka's broker learns a moment later."""
            described = self.admin.call("describe_acls", 3, every)
            known = [
                (rule["operation"], each["resource_type"], each["resource_name"])
                for each in described["resources"]
                for rule in each["acls"]
            ]
            return sorted(known) == sorted(set(rights))

        self._until(are_there)

    def ask(self, api: str, version: int, body: dict) -> object:
        with self.login() as client:
            if api not in OWN_READERS:
                return client.call(api, version, body)
            client.send(api, version, body)
            return OWN_READERS[api](client.receive_frame())

    def login(self) -> Raw:
        """A connection of alice's."""
        client = Raw(self.clients)
        client.call("sasl_handshake", 1, {"mechanism": "PLAIN"})
        client.call("sasl_authenticate", 2, {"auth_bytes": b"\0alice\0alice-secret"})
        return client

    def _until(self, condition) -> None:
        ask_until(condition, bool, f"{self.name} is ready")


def _states(frame: bytes) -> dict:
    """Of DescribeTransactions: kio does not read the start of a transaction that has none."""
    response, _ = codec.read(DescribeTransactionsResponse, 0, frame, 5)
    return {
        "states": [
            {"error_code": NAMES[each.error_code], "transactional_id": each.transactional_id}
            for each in response.transaction_states
        ]
    }


def _token(frame: bytes) -> dict:
    """Of CreateDelegationToken: kio does not read the times of a token that was not created."""
    response, _ = codec.read(CreateDelegationTokenResponse, 3, frame, 5)
    return {"error_code": NAMES[response.error_code]}


OWN_READERS = {"describe_transactions": _states, "create_delegation_token": _token}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Server]:
    settings = {"authorizer.class.name": AUTHORIZER, "group.initial.rebalance.delay.ms": 0}
    with Oracle(listeners="sasl_plain", settings=settings) as oracle:
        yield Server("kafka", f"127.0.0.1:{oracle.port}", f"127.0.0.1:{oracle.port + 50}")


@pytest.fixture(scope="module")
def ottla() -> Iterator[Server]:
    clients, inside = free_ports(2)
    settings = {
        "listeners": f"CLIENT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{inside}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": 'PlainLoginModule required user_alice="alice-secret";',
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin;User:ANONYMOUS",
    }
    with Broker(settings):
        yield Server("ottla", f"127.0.0.1:{clients}", f"127.0.0.1:{inside}")


CODES = {"error_code", "partition_error_code", "topic_config_error_code"}
NAMED = {
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "user",
    "entity_name",
    "resource_name",
}


def seen(answer: object, path: str = "") -> Iterator[tuple[str, object]]:
    """What an answer tells: error codes, names (but for those of settings), and operations that are allowed."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name in CODES or name.endswith("authorized_operations"):
                yield f"{path}.{name}", value
            elif name == "topic_id":  # another one at each server, or none
                yield f"{path}.{name}", value is not None
            elif name in NAMED and not str(value).startswith("new-"):
                yield f"{path}.{name}", value
            elif isinstance(value, list | dict) and name != "configs":
                yield from seen(value, f"{path}.{name}")
    elif isinstance(answer, list):
        for item in answer:
            yield from seen(item, path)


def said(server: Server, api: str, version: int, body: Any, rights: list) -> list[str]:
    server.grant(rights)
    request = body(next(new_names), server.topic_id) if callable(body) else body
    return sorted(map(str, seen(server.ask(api, version, request))))


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_an_api_asks_for_the_same_rights_and_tells_no_more(case, kafka, ottla):
    api, version, body, rights = case
    tried = [[], *([right] for right in rights), *([rights] if len(rights) > 1 else [])]
    different = []
    for granted in tried:
        if api in OWN_WORDS and granted == tried[-1]:
            continue
        ours, theirs = (said(each, api, version, body, granted) for each in (ottla, kafka))
        if ours != theirs:
            different.append(f"with {granted}:\n  Ottla {ours}\n  Kafka {theirs}")
    assert not different, "\n".join(different)


def test_a_pattern_brings_no_topic_that_its_subscriber_may_not_see(kafka, ottla):
    assert [_assigned_by_pattern(each) for each in (ottla, kafka)] == [["t"], ["t"]]


def _assigned_by_pattern(server: Server) -> list[str]:
    """The topics that alice is given for `.*`: topic u is there, too."""
    server.grant([(READ, GROUP, "pattern"), (DESCRIBE, TOPIC, "t")])
    topics = server.admin.call("metadata", 12, {"topics": None})["topics"]
    names = {str(each["topic_id"]): each["name"] for each in topics}
    member = {"group_id": "pattern", "member_id": "AAAAAAAAQACAAAAAAAAAAg"}
    joining = {"rebalance_timeout": 60_000, "subscribed_topic_regex": ".*", "topic_partitions": []}
    with server.login() as client:
        deadline, epoch, assigned = time.monotonic() + 60, 0, []
        while not assigned and time.monotonic() < deadline:
            body = {**member, "member_epoch": epoch, **(joining if epoch == 0 else {})}
            answer = client.call("consumer_group_heartbeat", 1, body)
            assert answer["error_code"] == "NONE", answer
            epoch = answer["member_epoch"]
            parts = (answer["assignment"] or {}).get("topic_partitions", [])
            assigned = sorted(names[str(each["topic_id"])] for each in parts)
            time.sleep(0.1)  # the server resolves patterns beside its requests
        client.call("consumer_group_heartbeat", 1, {**member, "member_epoch": -1})
    return assigned


def test_every_route_has_an_entry_and_a_case():
    assert set(PERMITS) == {route.api.name for route in ROUTES.values()}
    tried = {case[0].replace("_", "") for case in CASES}
    assert {name for name in PERMITS if name.lower() not in tried} == BETWEEN_BROKERS | FREE
