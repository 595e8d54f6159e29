"""What the courses' scenarios share: the two clients, and the public one's warnings, which are not ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SETTINGS, Target
from tests.course.faces import Api, Confluent, Ours
from tests.oracle import cluster
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla

_HERE = Path(__file__).parent
# Retention and compaction look several times a second instead of every few minutes.
HURRY = {
    **SETTINGS,
    "log.retention.check.interval.ms": 300,
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 500,
}
FACES: dict[str, type[Ours] | type[Confluent]] = {"ottla-api": Ours, "confluent": Confluent}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "api" in metafunc.fixturenames:
        metafunc.parametrize("api", list(FACES), indirect=True)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """In place of the usual one: it looks after its segments all the time."""
    if request.config.getoption("--target") == "ottla":
        pytest.skip("only Ottla was asked for (--target)")
    if (reason := cluster.why_not()) is not None:
        pytest.skip(reason)
    with Oracle(settings=HURRY, heap="512M") as oracle:
        yield oracle


@pytest.fixture(scope="session")
def ottla(request: pytest.FixtureRequest) -> Iterator[Ottla]:
    if request.config.getoption("--target") == "kafka":
        pytest.skip("only Apache Kafka was asked for (--target)")
    with Ottla(settings=HURRY) as server:
        yield server


@pytest.fixture
def api(request: pytest.FixtureRequest, target: Target) -> Api:
    """A client of the server under test: the scenario must come out the same with each."""
    return FACES[request.param](target.bootstrap)
