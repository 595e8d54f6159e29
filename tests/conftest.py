"""What all tests share: the servers to test against, chosen with `--target`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from ottla.wire import kernel
from tests.oracle import cluster
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla

Target = Oracle | Ottla

# Both servers get these: small numbers where Kafka's defaults would only make the tests slower.
SETTINGS = {
    "node.id": 1,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 1000,
}
_names = itertools.count()


# An example may have to wait for the processor: how long it takes says nothing about the code.
hypothesis.settings.register_profile(
    "ottla", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ottla")


def pytest_configure() -> None:
    """With a compiled kernel that is older than its source, everything would run on the slow one unnoticed."""
    home = Path(kernel.__file__).parent
    if not kernel.COMPILED and any(home.glob("_kernel.*.so")):
        pytest.exit("the compiled kernel does not fit its source: run `pip install -e . --no-deps`", 3)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat")
    group.addoption(
        "--target", choices=("kafka", "ottla", "both"), default="both", help="servers to test against"
    )


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """Apache Kafka, once a session; skipped where it cannot run or was not asked for."""
    if request.config.getoption("--target") == "ottla":
        pytest.skip("only Ottla was asked for (--target)")
    if (reason := cluster.why_not()) is not None:
        pytest.skip(reason)
    with Oracle(settings=SETTINGS, heap="512M") as oracle:
        yield oracle


@pytest.fixture(scope="session")
def ottla(request: pytest.FixtureRequest) -> Iterator[Ottla]:
    """Ottla as a process, once a session."""
    if request.config.getoption("--target") == "kafka":
        pytest.skip("only Apache Kafka was asked for (--target)")
    with Ottla(settings=SETTINGS) as server:
        yield server


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    """The scenario runs on each: the same asserts must hold on both."""
    server: Target = request.getfixturevalue(request.param)
    return server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--target")
        names = ["kafka", "ottla"] if wanted == "both" else [wanted]
        metafunc.parametrize("target", names, indirect=True)


@pytest.fixture
def both(request: pytest.FixtureRequest) -> dict[str, Target]:
    """The servers whose answers are to be compared: one or two, as `--target` says."""
    wanted = request.config.getoption("--target")
    if wanted == "both" and (reason := cluster.why_not()) is not None:
        pytest.skip(reason)
    names = ("kafka", "ottla") if wanted == "both" else (wanted,)
    return {name: request.getfixturevalue(name) for name in names}


@pytest.fixture
def java() -> None:
    """For tests that run Apache Kafka's own tools."""
    if (reason := cluster.why_not()) is not None:
        pytest.skip(reason)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A name nobody else uses on the shared servers."""
    return lambda stem: f"{stem}-{os.getpid()}-{next(_names)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything that touches Apache Kafka is marked so, without every test saying it."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        parameter = getattr(getattr(item, "callspec", None), "params", {}).get("target")
        if fixtures & {"kafka", "both", "java"} or parameter == "kafka":
            item.add_marker(pytest.mark.oracle)
