"""The public clients warn about themselves; that is not ours to fail on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(autouse=True, scope="module")
def _leftovers_of_clients() -> Iterator[None]:
    """Sockets that a client forgot are found here, where warnings are not errors, and not in another test."""
    yield
    gc.collect()
