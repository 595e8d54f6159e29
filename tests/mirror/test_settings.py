"""MirrorMaker's settings: what means the same is taken, the rest is warned of or refused."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from ottla.mirror.errors import BadLink
from ottla.mirror.link import Link, check_together
from ottla.mirror.naming import Naming
from ottla.mirror.settings import IGNORED, REFUSED, TAKEN, links

BASE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
}


def test_a_file_of_mirrormaker_makes_links() -> None:
    (link,) = links(
        BASE
        | {
            "A->B.topics": "orders.*, users",
            "groups": "g.*",
            "A.security.protocol": "SASL_SSL",
            "A.consumer.max.poll.records": "7",
            "replication.policy.separator": "_",
            "tasks.max": "5",
            "sync.group.offsets.enabled": "false",
            "refresh.topics.interval.seconds": "30",
            "B->A.enabled": "false",
        }
    )
    assert (link.source, link.target, link.tasks, link.sync_groups) == ("A", "B", 5, False)
    assert link.topics == ("orders.*", "users") and link.groups == ("g.*",)
    assert link.source_client == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "max.poll.records": "7",
    }
    assert link.refresh_topics_s == 30
    assert link.remote("orders") == "A_orders"


def test_both_directions_and_several_sources_are_links() -> None:
    more = {"clusters": "A,B,C", "C.bootstrap.servers": "c:1", "B->A.enabled": "true", "C->B.enabled": "true"}
    assert [link.name for link in links(BASE | more)] == ["A->B", "B->A", "C->B"]


@pytest.mark.parametrize("name", REFUSED)
def test_promises_that_cannot_be_kept_are_refused(name: str) -> None:
    for spelled in (name, f"A->B.{name}"):
        with pytest.raises(BadLink, match=re.escape(f"{spelled} is refused")):
            links(BASE | {spelled: "x"})


def test_what_has_no_effect_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        links(BASE | {"offset.lag.max": "10", "A->B.nonsense": "x"})
    assert "offset.lag.max has no effect: every acknowledged stretch is known" in caplog.text
    assert "A->B.nonsense is not known and has no effect" in caplog.text


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"A->B.enabled": "false"}, "no link is enabled"),
        ({"A->B.enabled": "maybe"}, "it is true or false"),
        ({"clusters": ""}, "clusters= names the aliases"),
        ({"B.bootstrap.servers": None}, "B.bootstrap.servers is missing"),
        ({"tasks.max": "many"}, "is not a number"),
        ({"topics": "(unclosed"}, "is not a pattern"),
        ({"mode": "wild"}, "it is compatible or exact"),
        ({"replication.policy.class": "com.example.Mine"}, "a Java class cannot run here"),
        ({"offset-syncs.topic.location": "moon"}, "it is source or target"),
    ],
)
def test_bad_settings_are_named(more: dict[str, str | None], text: str) -> None:
    told = {name: value for name, value in {**BASE, **more}.items() if value is not None}
    with pytest.raises(BadLink, match=re.escape(text)):
        links(told)


@pytest.mark.parametrize(
    "policy", ["IdentityReplicationPolicy", "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"]
)
def test_two_ways_with_identical_names_are_refused(policy: str) -> None:
    more = {"replication.policy.class": policy}
    (link,) = links(BASE | more)
    assert link.remote("orders") == "orders"
    with pytest.raises(BadLink, match="for ever"):
        links(BASE | more | {"B->A.enabled": "true"})


def test_a_longer_way_round_with_identical_names_is_refused() -> None:
    def link(source: str, target: str) -> Link:
        return Link(source, target, {}, {}, naming=Naming(identical=True))

    check_together((link("A", "B"), link("B", "C")))
    with pytest.raises(BadLink, match="back to A"):
        check_together((link("A", "B"), link("B", "C"), link("C", "A")))


def test_cycles_are_recognised_by_the_prefix() -> None:
    link = Link("A", "B", {}, {})
    assert link.wants_topic("orders") and link.wants_topic("C.orders")
    assert not link.wants_topic("B.orders")  # it came from there
    assert not link.wants_topic("C.B.orders")  # over another cluster, too
    assert not link.wants_topic("__consumer_offsets")
    assert not link.wants_topic("A.checkpoints.internal")
    assert not link.wants_topic("mm2-offset-syncs.B.internal")
    assert not link.wants_topic("ottla-mirror.B.A.internal")


def test_every_setting_is_in_the_documented_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "mirror.md").read_text()
    missing = [name for name in (*TAKEN, *IGNORED, *REFUSED) if f"`{name}`" not in text]
    assert not missing
