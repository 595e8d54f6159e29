"""What auditors are told: denials as lines that cannot be forged, failed logins in the log and in the metrics."""

import json
import logging
import socket
import ssl

import pytest

from ottla import errors
from ottla.client import Admin
from ottla.testing import Broker
from ottla.wire import batch
from ottla.wire.records import Record
from tests.compat.raw import Raw


def counts(broker):
    return broker._node.broker.metrics.counts


def lines(caplog):
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "ottla.audit"]


def test_denials_are_lines_of_json_and_what_was_allowed_if_asked_for(caplog):
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
    }
    forged = 'g", "decision": "allowed"}\n{"principal": "User:admin'
    with (
        caplog.at_level(logging.INFO, "ottla.audit"),
        Broker(settings) as broker,
        Raw(broker.bootstrap) as raw,
    ):
        raw.call("describe_groups", 5, {"groups": [forged]})
        (denied,) = lines(caplog)
        assert denied == {
            "principal": "User:ANONYMOUS",
            "host": "127.0.0.1",
            "operation": "DESCRIBE",
            "resource_type": "GROUP",
            "resource": forged,
            "decision": "denied",
        }
        broker.allow("ANONYMOUS", "DESCRIBE", group="mine")
        caplog.clear()
        raw.call("describe_groups", 5, {"groups": ["mine"]})
        assert lines(caplog) == []
        caplog.set_level(logging.DEBUG, "ottla.audit")
        raw.call("describe_groups", 5, {"groups": ["mine"]})
        assert [(line["resource"], line["decision"]) for line in lines(caplog)] == [("mine", "allowed")]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_failed_logins_are_counted_and_their_address_is_in_the_log(mechanism, caplog):
    with Broker(security="SASL_PLAINTEXT", users={"alice": "alice-secret"}) as broker:
        before = counts(broker)["ottla_logins_total"]
        good = broker.client_settings("alice", mechanism=mechanism)
        with Admin(good) as admin:
            admin.list_topics()
        assert counts(broker)["ottla_logins_total"] > before
        assert counts(broker)["ottla_failed_logins_total"] == 0
        for _ in range(3):
            with (
                Admin(good | {"sasl.password": "guess"}) as admin,
                pytest.raises(errors.SaslAuthenticationFailed),
            ):
                admin.list_topics()
        assert counts(broker)["ottla_failed_logins_total"] == 3
        messages = [record.getMessage() for record in caplog.records]
        assert len([text for text in messages if "failed login from 127.0.0.1:" in text]) == 3
        assert not any("guess" in line or "alice-secret" in line for line in caplog.text.splitlines())


def test_failed_tls_handshakes_are_counted():
    with Broker(security="SSL") as broker:
        assert counts(broker)["ottla_failed_tls_handshakes_total"] == 0
        host, port = broker.bootstrap.split(":")
        context = ssl.create_default_context()
        with socket.create_connection((host, int(port)), 10) as raw, pytest.raises(ssl.SSLError):
            context.wrap_socket(raw, server_hostname="localhost")  # it does not trust the authority
        broker.wait_until(lambda: counts(broker)["ottla_failed_tls_handshakes_total"] == 1)


def produce(raw, records):
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    answer = raw.call("produce", 9, {"acks": 1, "timeout": 1000, "topic_data": data})
    return answer["responses"][0]["partition_responses"][0]["error_code"]


def test_a_connection_that_was_allowed_to_write_is_asked_again_when_a_rule_changes():
    """Its rights are remembered with it: not beyond a change, and not for records that need others."""
    records = bytes(batch.build([Record(-1, 1_790_000_000_000, None, b"v")]))
    in_transaction = bytes(
        batch.build(
            [Record(-1, 1_790_000_000_000, None, b"v")],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with Broker(settings) as broker, Raw(broker.bootstrap) as raw:
        broker.create_topic("t")
        assert produce(raw, records) == "TOPIC_AUTHORIZATION_FAILED"
        broker.allow("ANONYMOUS", "WRITE", topic="t")
        for _ in range(3):
            assert produce(raw, records) == "NONE"
        assert produce(raw, in_transaction) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        broker.deny("ANONYMOUS", "WRITE", topic="t")
        for _ in range(3):
            assert produce(raw, records) == "TOPIC_AUTHORIZATION_FAILED"


def test_records_that_end_before_their_attributes_are_refused_also_where_the_rights_are_known(caplog):
    """Where a connection's rights are remembered, the attributes of its records are looked at before anything else."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }

    def produced(raw, records):
        data = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
        answer = raw.call("produce", 9, {"acks": 1, "timeout": 1000, "topic_data": data})
        return answer["responses"][0]["partition_responses"][0]["error_code"]

    whole = bytes(batch.build([Record(-1, 1_790_000_000_000, None, b"x")]))
    with Broker(settings) as broker, Raw(broker.bootstrap) as raw:
        broker.create_topic("orders")
        assert produced(raw, whole) == "NONE"
        for size in (1, 5, 17, 22, 23, 60):
            assert produced(raw, whole[:size]) in ("CORRUPT_MESSAGE", "INVALID_RECORD"), size
        assert produced(raw, whole) == "NONE"
    assert not [record for record in caplog.records if record.exc_info]
