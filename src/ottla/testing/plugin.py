"""The pytest plugin: on with `pip install`, and nothing of ours is imported until a fixture is used.

Fixtures: `ottla_broker` (fresh for the test), `ottla_session_broker` (one for the run), and on the one of the
two that the test uses: `ottla_bootstrap`, `ottla_topic`, `ottla_admin`. `ottla_cluster` is several brokers;
`ottla_driver` runs applications of `ottla.streams` without any. Settings come with a marker:
`@pytest.mark.ottla(partitions=3, topic_configs={...}, num_partitions=..., data=True, brokers=3)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.client import Admin
    from ottla.streams import App, TestDriver
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster

MARKER = "ottla"
OF_TOPICS = ("partitions", "topic_configs")
OF_CLUSTERS = "brokers"
REPORTED = 30  # requests shown with a failing test
_BROKERS = pytest.StashKey[list["Broker"]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "ottla(settings={}, partitions=1, topic_configs={}, data=False, brokers=3, **settings): how the test's broker "
        "and topic are set up; broker settings under Kafka's names bring a fresh broker",
    )
    _leave_our_asserts_alone(config)


def _leave_our_asserts_alone(config: pytest.Config) -> None:
    """pytest rewrites the asserts of every package that has a plugin. Ours are imported by the threads of brokers while
    a test runs, and Python 3.11 cannot parse in two threads at once ("AST constructor recursion depth mismatch")."""
    hook = config.pluginmanager.rewrite_hook
    for names in ("_must_rewrite", "_marked_for_rewrite_cache"):
        known = getattr(hook, names, None)
        if isinstance(known, set):
            known.discard("ottla")
        elif isinstance(known, dict):
            known.clear()


# -- fixtures ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def ottla_session_broker() -> Iterator[Broker]:
    """One broker for the whole run (with xdist: of this worker). Tests share it, so use `ottla_topic`."""
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A fresh broker for this test alone: a few milliseconds."""
    from ottla.testing.broker import Broker

    marked = _marked(request)
    data: Path | None = request.getfixturevalue("tmp_path") / "ottla" if marked.pop("data", False) else None
    with Broker(_settings(marked), data=data) as broker:
        _note(request, broker)
        yield broker


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three fresh brokers for this test alone, or as many as the marker says: some ten milliseconds."""
    from ottla.testing.cluster import Cluster

    marked = _marked(request)
    with Cluster(_settings(marked), brokers=marked.get(OF_CLUSTERS, 3)) as cluster:
        yield cluster


@pytest.fixture
def ottla_driver() -> Iterator[Callable[..., TestDriver]]:
    """`ottla_driver(app)`: a stream application in memory; without broker, JVM or Spark."""
    from contextlib import ExitStack

    from ottla.streams import TestDriver

    with ExitStack() as drivers:

        def drive(app: App, time_ms: int = 0) -> TestDriver:
            return drivers.enter_context(TestDriver(app, time_ms))

        yield drive


@pytest.fixture
def ottla_bootstrap(request: pytest.FixtureRequest) -> str:
    """HOST:PORT of the broker that this test uses: its own if it has one, else the shared one."""
    return _broker_of(request).bootstrap


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new topic with a name of its own."""
    from ottla.errors import UnknownTopicOrPartition
    from ottla.testing.topics import unique_name

    broker = _broker_of(request)
    marked = _marked(request)
    name = unique_name(request.node.name)
    broker.create_topic(name, marked.get("partitions"), marked.get("topic_configs"))
    yield name
    if broker.is_running:
        try:
            broker.delete_topic(name)
        except UnknownTopicOrPartition:
            return  # the test did it


@pytest.fixture
def ottla_admin(request: pytest.FixtureRequest) -> Iterator[Admin]:
    """An `ottla.client.Admin` of the broker that this test uses."""
    from ottla.client import Admin

    with Admin({"bootstrap.servers": _broker_of(request).bootstrap}) as admin:
        yield admin


def _broker_of(request: pytest.FixtureRequest) -> Broker:
    if "ottla_broker" in request.fixturenames or _settings(_marked(request)):
        broker: Broker = request.getfixturevalue("ottla_broker")
        return broker
    shared: Broker = request.getfixturevalue("ottla_session_broker")
    _note(request, shared)
    return shared


def _settings(marked: dict[str, Any]) -> dict[str, Any]:
    """Those of brokers."""
    return {name: value for name, value in marked.items() if name not in (*OF_TOPICS, OF_CLUSTERS)}


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the markers say; the nearest wins."""
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if len(marker.args) > 1:
            raise pytest.UsageError("the marker ottla takes one mapping of settings, and keywords")
        for arg in marker.args:
            settings |= arg
        settings |= marker.kwargs
        settings |= settings.pop("settings", {})
    return settings


def _note(request: pytest.FixtureRequest, broker: Broker) -> None:
    request.node.stash.setdefault(_BROKERS, []).append(broker)


# -- hooks -------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failing test shows what its brokers were asked last."""
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        for broker in _concerned(item):
            title = f"last requests to {broker!r}"
            report.sections.append((title, broker.report(REPORTED)))  # type: ignore[attr-defined]
    return report


def _concerned(item: pytest.Item) -> list[Broker]:
    """Those of fixtures, and those that the test has made itself and that are still there."""
    noted = item.stash.setdefault(_BROKERS, [])
    used = [*noted]
    module = sys.modules.get("ottla.testing.broker")
    if module is not None:
        used += [
            broker for broker in getattr(item, "funcargs", {}).values() if isinstance(broker, module.Broker)
        ]
        shared = item.session.stash.setdefault(_BROKERS, [])
        used += [broker for broker in list(module.STARTED) if broker not in used and broker not in shared]
    return list(dict.fromkeys(used))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Brokers from before this test are not what a failure of it is about."""
    module = sys.modules.get("ottla.testing.broker")
    item.session.stash[_BROKERS] = list(module.STARTED) if module is not None else []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Repairs the shared broker for the next test."""
    for broker in item.stash.setdefault(_BROKERS, []):
        if broker.is_started:
            broker.heal()
            if not broker.is_running:
                broker.restart()
