"""What the courses' scenarios share: the two clients, and the public one's warnings, which are not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Target
from tests.course.faces import Api, Confluent, Ours

_HERE = Path(__file__).parent
FACES = {"ottla-api": Ours, "confluent": Confluent}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("default"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "api" in metafunc.fixturenames:
        metafunc.parametrize("api", list(FACES), indirect=True)


@pytest.fixture
def api(request: pytest.FixtureRequest, target: Target) -> Api:
    """A client of the server under test: the scenario must come out the same with each."""
    return FACES[request.param](target.bootstrap)
