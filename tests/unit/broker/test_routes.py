"""The route table, what is told of it, and what Kafka has."""

import inspect
import runpy
from pathlib import Path

import pytest

from ottla.broker.permits.table import PERMITS, guarded
from ottla.broker.routes import ROUTES
from ottla.errors import ClusterAuthorizationFailed, OttlaError
from ottla.testing import Broker
from tests.unit.broker.handlers.served import Call, Denies, Served

ROOT = Path(__file__).parents[3]


def test_the_documented_table_is_the_route_table():
    table = runpy.run_path(str(ROOT / "tools/protocol_table.py"))["table"]
    assert (ROOT / "docs/protocol.md").read_text() == table()


def test_every_route_has_an_entry_in_the_table_of_rights():
    assert PERMITS.keys() == {route.api.name for route in ROUTES.values()}


def test_a_route_without_an_entry_is_a_refusal_to_start(monkeypatch):
    monkeypatch.delitem(PERMITS, "ListOffsets")
    with (
        pytest.raises(OttlaError, match="does not say who may call ListOffsets"),
        Broker(security="SASL_PLAINTEXT", users={"a": "a"}, authorizer=True),
    ):
        pass


def test_what_only_brokers_may_do_is_refused_to_clients():
    async def reached(request, context):
        raise AssertionError("the handler runs")

    served, everything = Served(), Denies(lambda operation, kind, name: True)
    routes = [
        route for route in ROUTES.values() if route.between_brokers or route.api.name == "WriteTxnMarkers"
    ]
    assert {"AlterPartition", "AllocateProducerIds", "Envelope"} < {route.api.name for route in routes}
    for route in routes:
        request = route.request()
        call = Call(guarded(route.api.name, reached), request, served.context(request, access=everything))
        assert isinstance(call.error, ClusterAuthorizationFailed), route.api.name


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.api.name)
def test_every_route_has_a_handler_for_its_messages(route):
    assert inspect.iscoroutinefunction(route.handler)
    assert route.api.key == route.request.API_KEY
    served, known = range(route.version_min, route.version_max + 1), route.api
    assert known.version_min <= served[0] and served[-1] <= known.version_max
