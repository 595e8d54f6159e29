"""Hosts of rules: ranges of addresses, which Apache Kafka 4.3 has not, and the spellings of IPv6."""

import tracemalloc

import pytest

from ottla import errors
from ottla.broker.permits.access import Access
from ottla.broker.requests.client import Client
from ottla.metadata.image import Image
from ottla.security.acls import Acl, Operation, PatternType, Permission, Question, ResourceType, Rules
from ottla.security.administration import create_acls
from ottla.security.authorizer import StandardAuthorizer


def a_rule(host, permission=Permission.ALLOW, name="t"):
    return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", host, Operation.READ, permission)


def allowed(host, *rules):
    return Rules(rules).decide(Question("User:a", host, Operation.READ, ResourceType.TOPIC, "t")).allowed


@pytest.mark.parametrize(
    ("host", "inside", "outside"),
    [
        ("10.0.0.0/8", "10.255.1.2", "11.0.0.1"),
        ("10.1.2.3/24", "10.1.2.250", "10.1.3.3"),  # as Kafka 4.4, bits behind the prefix do not matter
        ("192.168.1.7/32", "192.168.1.7", "192.168.1.8"),
        ("0.0.0.0/0", "8.8.8.8", "::1"),
        ("fd00::/8", "fd12:3456::1", "fe80::1"),
        ("0:0:0:0:0:0:0:1", "::1", "::2"),  # as Java writes it
        ("2001:DB8::1", "2001:db8::1", "2001:db8::11"),
    ],
)
def test_a_rule_is_for_the_addresses_that_its_host_means(host, inside, outside):
    assert allowed(inside, a_rule(host))
    assert not allowed(outside, a_rule(host))
    both = Rules([a_rule(host)])
    for address, answer in ((inside, True), (outside, False)):
        assert both.allows_any("User:a", address, Operation.READ, ResourceType.TOPIC) is answer


def test_a_range_that_is_denied_wins_over_everybody_allowed():
    rules = a_rule("*"), a_rule("10.0.0.0/8", Permission.DENY)
    assert not allowed("10.1.1.1", *rules)
    assert allowed("11.1.1.1", *rules)


@pytest.mark.parametrize("host", ["10.0.0.0/33", "10.0.0/8", "example.org/8", "/", "::1/129", "x:y"])
def test_a_host_that_is_no_address_is_nobodys(host):
    assert not allowed("10.0.0.1", a_rule(host))
    assert not allowed("::1", a_rule(host))


def test_a_range_that_is_none_is_refused_by_name():
    """Or a rule that denies would be there, and nobody be denied."""
    wrong, name, right = (a_rule(host) for host in ("10.0.0.0/33", "example.org", "10.0.0.0/8"))
    refused, *taken = create_acls([wrong, name, right], Image()).answer
    assert isinstance(refused, errors.InvalidRequest) and "10.0.0.0/33" in str(refused.message)
    assert taken == [None, None]


def test_answers_about_very_long_names_are_given_and_not_kept():
    rule = Acl(
        ResourceType.GROUP,
        "a" * 20_000,
        PatternType.PREFIXED,
        "User:alice",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )
    access, client = Access(StandardAuthorizer(Rules([rule]))), Client("10.0.0.1", 1, principal="User:alice")
    tracemalloc.start()
    try:
        for number in range(500):
            assert access.allows(client, Operation.READ, ResourceType.GROUP, f"{'a' * 20_000}{number}")
            assert not access.allows(client, Operation.READ, ResourceType.GROUP, f"{'b' * 20_000}{number}")
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 4 << 20
    assert access.allows(client, Operation.DESCRIBE, ResourceType.GROUP, "a" * 20_000)


class Counted(Rules):
    """Rules that count how often all of them were looked at."""

    looks = 0

    def allows_any(self, *asked):
        self.looks += 1
        return super().allows_any(*asked)


def test_all_rules_are_looked_at_once_for_all_producers_of_a_client():
    rules = Counted()
    authorizer = StandardAuthorizer(rules)

    def may_produce(host="10.0.0.1"):
        return authorizer.allows_any("User:alice", host, Operation.WRITE, ResourceType.TOPIC)

    assert not any(may_produce() for _ in range(100))
    assert rules.looks == 1
    rule = Acl(
        ResourceType.TOPIC,
        "t",
        PatternType.LITERAL,
        "User:alice",
        "10.0.0.1",
        Operation.WRITE,
        Permission.ALLOW,
    )
    rules.add(rule)
    authorizer.on_rules_changed()
    assert may_produce() and not may_produce("10.0.0.2")
