"""Values with schemas of a registry flow through an app."""

import pickle

import pytest
from google.protobuf.duration_pb2 import Duration

from ottla.serialization import AvroDeserializer, AvroSerializer, RegistryClient
from ottla.streams import App, TestDriver, avro, json_schema, protobuf
from ottla.streams.errors import BadValue
from ottla.testing import Broker

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}],
}


@pytest.fixture(scope="module")
def url():
    with Broker(registry=True) as broker:
        yield broker.registry


def test_avro_values_come_in_and_go_out_with_their_schemas(url):
    app = App("orders")
    orders = app.stream("orders", value=avro(url, ORDER, topic="orders"))
    doubled = orders.map_values(
        lambda order: {**order, "n": 2 * order["n"]}, value=avro(url, ORDER, topic="doubled")
    )
    doubled.to("doubled")
    with TestDriver(app) as driver:
        driver.input("orders").pipe({"id": "a", "n": 4}, key="k")
        assert driver.output("doubled").values() == [{"id": "a", "n": 8}]
    assert {"orders-value", "doubled-value"} <= set(RegistryClient(url).subjects())


def test_the_serde_travels_to_workers_and_others_read_what_it_writes(url):
    serde = pickle.loads(pickle.dumps(avro(url, ORDER, topic="travels")))
    cells = serde.encode([{"id": "a", "n": 1}, None])
    assert AvroDeserializer(RegistryClient(url))(cells[0].as_py()) == {"id": "a", "n": 1}
    written = AvroSerializer(RegistryClient(url), ORDER, topic="travels")({"id": "a", "n": 1})
    assert cells.to_pylist() == [written, None]


def test_a_value_that_does_not_fit_is_told(url):
    serde = json_schema(url, {"type": "object", "properties": {"n": {"type": "integer"}}}, topic="told")
    with pytest.raises(BadValue, match="n: "):
        serde.encode([{"n": "many"}])


def test_protobuf_messages_come_in_and_go_out_and_their_serde_travels(url):
    stays, visits = (
        pickle.loads(pickle.dumps(protobuf(url, Duration, topic=topic))) for topic in ("stays", "visits")
    )
    app = App("stays")
    app.stream("stays", value=stays).map_values(
        lambda stay: Duration(seconds=2 * stay.seconds), value=visits
    ).to("visits")
    with TestDriver(app) as driver:
        driver.input("stays").pipe(Duration(seconds=4), key="k")
        assert driver.output("visits").values()[0] == Duration(seconds=8)
    with pytest.raises(BadValue, match=r"a dict is no google.protobuf.Duration"):
        stays.encode([{"seconds": 4}])
