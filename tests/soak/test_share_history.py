"""The judge of share groups finds what is planted: in histories, and in a broker."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from ottla import Admin
from ottla.coordination.share.outcomes import Outcome
from ottla.coordination.share.records import AVAILABLE
from ottla.coordination.share.window import Window
from ottla.testing import Broker
from tests.soak import shares
from tests.soak.share_history import ACCEPT, RELEASE, Delivery, History

LOCK_S = 10.0
FIRST = Delivery(b"1", "a", 0.0, 0.1, 1)
SECOND = Delivery(b"1", "b", 1.0, 1.1, 2)


def judged(first, second, deaths=(), ended=()):
    history = History(LOCK_S, deaths=list(deaths), ended=dict(ended))
    history.deliveries[b"1"] = [first, second]
    return [wrong.split(": ")[1].split(" (")[0] for wrong in history.anomalies()]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"kind": ACCEPT, "confirmed": True}, {}, "it came again after its acceptance was confirmed"),
        ({}, {}, "it came again although its member holds it"),
        ({"kind": RELEASE, "confirmed": True}, {"count": 1}, "its delivery count is 1, not [2]"),
        ({"kind": RELEASE, "confirmed": True}, {"count": 3}, "its delivery count is 3, not [2]"),
        ({}, {"asked_s": 11.0, "came_s": 11.1, "count": 1}, "its delivery count is 1, not [2]"),
    ],
)
def test_a_delivery_that_nothing_explains_is_found(first, second, why):
    assert judged(replace(FIRST, **first), replace(SECOND, **second)) == [why]


@pytest.mark.parametrize(
    ("first", "second", "deaths", "ended"),
    [
        ({"kind": RELEASE, "confirmed": True}, {}, [], {}),
        ({"kind": ACCEPT, "confirmed": None}, {}, [], {}),
        ({}, {"asked_s": 11.0, "came_s": 11.1}, [], {}),
        ({}, {"count": 1}, [], {"a": 0.5}),
        ({}, {"count": 1}, [0.5], {}),
        ({}, {"asked_s": 0.0}, [], {}),
    ],
)
def test_a_delivery_with_a_reason_is_none(first, second, deaths, ended):
    assert judged(replace(FIRST, **first), replace(SECOND, **second), deaths, ended) == []


def _accepts_are_forgotten(after):
    return lambda self, kind, count, wall_ms: (
        Outcome(AVAILABLE, count) if kind == 1 else after(self, kind, count, wall_ms)
    )


def _releases_count_double(after):
    return lambda self, kind, count, wall_ms: (
        Outcome(AVAILABLE, count + 1) if kind == 2 else after(self, kind, count, wall_ms)
    )


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        (None, None),
        (_accepts_are_forgotten, "after its acceptance was confirmed"),
        (_releases_count_double, "its delivery count is"),
    ],
)
def test_a_bug_planted_in_the_broker_is_caught_for_its_reason(monkeypatch, planted, message):
    if planted is not None:
        monkeypatch.setattr(Window, "_after", planted(Window._after))
    history, report = History(shares.LOCK_S), shares.Report()
    settings: dict[str, Any] = {name.replace(".", "_"): value for name, value in shares.SETTINGS.items()}
    with Broker(**settings) as broker:
        broker.create_topic(shares.TOPIC, shares.PARTITIONS)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_configs("group", shares.GROUP, set_=shares.OF_GROUP)
        for number in range(60):
            broker.send(shares.TOPIC, str(number))
        report.sent = 60
        members = [shares.Member(broker.bootstrap, seed, history) for seed in range(2)]
        for member in members:
            member.start()
        deadline = time.monotonic() + 60
        while len(history.accepted()) < 60 and not any(history.anomalies()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for member in members:
            member.stop()
    shares.judge(history, report)
    if message is None:
        assert report.is_clean, report
    else:
        assert report.failures and all(message in wrong for wrong in report.failures), report
