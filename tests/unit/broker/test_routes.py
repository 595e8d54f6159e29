"""The route table, what is told of it, and what Kafka has."""

import inspect
import runpy
from pathlib import Path

import pytest

from ottla.broker.routes import ROUTES

ROOT = Path(__file__).parents[3]


def test_the_documented_table_is_the_route_table():
    table = runpy.run_path(str(ROOT / "tools/protocol_table.py"))["table"]
    assert (ROOT / "docs/protocol.md").read_text() == table()


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.api.name)
def test_every_route_has_a_handler_for_its_messages(route):
    assert inspect.iscoroutinefunction(route.handler)
    assert route.api.key == route.request.API_KEY
    served, known = range(route.version_min, route.version_max + 1), route.api
    assert known.version_min <= served[0] and served[-1] <= known.version_max
