"""Database servers as fixtures: one of each for all tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connect.databases import MariaDb, Postgres, why_no_mariadb, why_no_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    reason = why_no_postgres()
    if reason:
        pytest.skip(reason)
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    reason = why_no_mariadb()
    if reason:
        pytest.skip(reason)
    with MariaDb() as server:
        yield server
