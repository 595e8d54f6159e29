"""Requests that are answered inside of each other, and timers: no client ends what others wait for."""

import logging
import struct
import uuid

import pytest

from ottla.testing import Broker
from ottla.wire import batch
from ottla.wire.records import Record
from ottla.wire.schema import Message
from tests.compat.raw import Closed, Raw

PIPELINED = 255
WAITING, GROUPS = 300, 60_000
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
EVERYBODY = {**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


def framed(frame):
    return struct.pack(">i", len(frame)) + frame


def a_handshake(mechanism=b""):
    return framed(struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", len(mechanism)) + mechanism)


def a_token(token):
    return framed(struct.pack(">hhih", 36, 0, 1, -1) + struct.pack(">i", len(token)) + token)


def is_refused_in_time(broker):
    """A wrong login is answered by a timer."""
    with Raw(broker.bootstrap) as raw:
        raw.send_bytes(a_handshake(b"PLAIN") + a_token(b"\0alice\0wrong"))
        return raw.is_closed_by_server()


def failures(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("before", [b"", a_handshake(b"PLAIN") + a_token(b"\0alice\0wrong")])
def test_very_many_requests_behind_a_refused_login_are_not_looked_at(before, caplog):
    with Broker(security="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
        with Raw(broker.bootstrap) as raw:
            raw.send_bytes(before + a_handshake() * PIPELINED)
            assert raw.is_closed_by_server()
        assert is_refused_in_time(broker)
    assert not failures(caplog)


def test_very_many_versions_that_nobody_has_are_all_answered(caplog):
    """ApiVersions of an unknown version is answered without a handler."""
    with Broker() as broker, Raw(broker.bootstrap) as raw:
        raw.send_bytes(framed(struct.pack(">hhih", 18, 99, 1, -1)) * PIPELINED)
        for _ in range(PIPELINED):
            assert raw.receive_frame()[:4] == struct.pack(">i", 1)
    assert not failures(caplog)


def test_large_requests_that_fail_at_once_do_not_stop_the_one_before_them_nor_timers(caplog):
    impossible = framed(struct.pack(">hhih", 15, 0, 1, -1) + struct.pack(">i", 2**31 - 1))
    with Broker() as broker:
        others = [Raw(broker.bootstrap) for _ in range(WAITING)]
        with Raw(broker.bootstrap) as first:
            large = first.frame("describe_groups", 0, {"groups": [f"g{number}" for number in range(GROUPS)]})
            first.send_frame(large)
            for other in others:
                other.send_bytes(impossible)
            assert len(first.receive("describe_groups", 0)["groups"]) == GROUPS
        for other in others:
            assert other.is_closed_by_server()
            other.close()
        with Raw(broker.bootstrap) as raw:  # it waits for a timer
            body = {
                "max_wait": 50,
                "min_bytes": 1,
                "topics": [{"topic": "t", "partitions": [{"partition": 0}]}],
            }
            broker.create_topic("t")
            raw.call("fetch", 11, body)
    assert not failures(caplog)


def test_a_right_on_a_topic_without_a_name_is_none_on_topics_named_by_their_ids():
    with Broker(EVERYBODY) as broker:
        broker.create_topic("secret")
        broker.allow("boss", "WRITE", topic="secret")
        with Raw(broker.bootstrap) as raw:
            (topic,) = raw.call("metadata", 12, {"topics": [{"name": "secret", "topic_id": None}]})["topics"]
            assert topic["error_code"] == "TOPIC_AUTHORIZATION_FAILED"
            transaction = {
                "v3_and_below_transactional_id": "x",
                "v3_and_below_topics": [{"name": "", "partitions": [0]}],
            }
            raw.call("add_partitions_to_txn", 3, transaction)
            records = bytes(batch.build([Record(-1, 1_790_000_000_000, None, b"x")]))
            data = [{"topic_id": _topic_id(broker), "partition_data": [{"index": 0, "records": records}]}]
            answer = raw.call("produce", 13, {"acks": 1, "timeout": 1000, "topic_data": data})
            (partition,) = answer["responses"][0]["partition_responses"]
            assert partition["error_code"] == "TOPIC_AUTHORIZATION_FAILED"


def _topic_id(broker):
    return uuid.UUID(bytes=broker._node.broker.image.topics["secret"].topic_id)


def test_parts_that_are_denied_are_told_apart_without_comparing_them(monkeypatch):
    """Each with each would be an hour of the loop for as many as a request may have."""
    with Broker({**AUTHORIZER, "allow.everyone.if.no.acl.found": "false"}) as broker:
        broker.allow("ANONYMOUS", "DESCRIBE", topic="mine", prefix=True)

        def compared(*_):
            raise AssertionError("messages are compared")

        names = [f"{owner}-{number}" for number in range(10) for owner in ("mine", "other")]
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in names]
        with Raw(broker.bootstrap) as raw:
            monkeypatch.setattr(Message, "__eq__", compared)
            answer = raw.call("list_offsets", 7, {"topics": topics})
        codes = {topic["name"]: topic["partitions"][0]["error_code"] for topic in answer["topics"]}
        assert codes == {
            name: "UNKNOWN_TOPIC_OR_PARTITION" if name.startswith("mine") else "TOPIC_AUTHORIZATION_FAILED"
            for name in names
        }


def test_a_produce_that_wants_no_answer_gets_none_when_it_is_denied():
    with Broker({**AUTHORIZER, "allow.everyone.if.no.acl.found": "false"}) as broker:
        broker.create_topic("orders")
        with Raw(broker.bootstrap) as raw:
            data = [{"name": "orders", "partition_data": [{"index": 0, "records": b"x" * 80}]}]
            raw.send("produce", 9, {"acks": 0, "timeout": 1000, "topic_data": data})
            with pytest.raises(Closed):
                raw.receive_frame()
