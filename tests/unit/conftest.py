"""Nothing that these tests run may block an event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.blocking import refused_on_loops


@pytest.fixture(scope="session", autouse=True)
def _nothing_blocks_a_loop() -> Iterator[None]:
    with refused_on_loops():
        yield
