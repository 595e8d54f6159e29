"""Subscriptions by pattern bring the topics that the member may see, as soon as it may see them."""

from ottla.testing import Broker
from tests.compat.raw import Raw

MEMBER = {"group_id": "g", "member_id": "AAAAAAAAQACAAAAAAAAAAg"}
JOINING = {
    "member_epoch": 0,
    "rebalance_timeout": 60_000,
    "subscribed_topic_regex": ".*",
    "topic_partitions": [],
}


def assigned(answer, names):
    parts = (answer["assignment"] or {}).get("topic_partitions", [])
    return sorted(names[str(each["topic_id"])] for each in parts)


def test_a_pattern_brings_a_topic_once_its_member_may_describe_it():
    with (
        Broker(security="SASL_PLAINTEXT", users={"alice": "pw"}, authorizer=True) as broker,
        Raw(broker.bootstrap) as alice,
    ):
        for name in ("seen", "hidden"):
            broker.create_topic(name)
        broker.allow("alice", "READ", group="g")
        broker.allow("alice", "DESCRIBE", topic="seen")
        alice.call("sasl_handshake", 1, {"mechanism": "PLAIN"})
        alice.call("sasl_authenticate", 2, {"auth_bytes": b"\0alice\0pw"})
        alice.call("find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})
        joined = alice.call("consumer_group_heartbeat", 1, {**MEMBER, **JOINING})
        (topic,) = alice.call("metadata", 12, {"topics": [{"name": "seen"}]})["topics"]
        ids = {str(topic["topic_id"]): "seen"}
        assert assigned(joined, ids) == ["seen"]  # a hidden one would have no name here
        broker.allow("alice", "DESCRIBE", topic="hidden")
        (topic,) = alice.call("metadata", 12, {"topics": [{"name": "hidden"}]})["topics"]
        ids[str(topic["topic_id"])] = "hidden"
        again = alice.call("consumer_group_heartbeat", 1, {**MEMBER, "member_epoch": joined["member_epoch"]})
        assert assigned(again, ids) == ["hidden", "seen"]
