"""Metrics that clients push (KIP-714): real clients, the limits, and what is shown of them."""

import json
import struct
import tracemalloc

import confluent_kafka
import pytest

from ottla import errors
from ottla.broker import telemetry as broker_telemetry
from ottla.broker.telemetry import TEXT_MAX, Push, Telemetry
from ottla.cli.main import main
from ottla.client import Admin
from ottla.metadata.image import CLIENT_METRICS_RESOURCE, Image
from ottla.metadata.records import ConfigSet
from ottla.testing import Broker
from ottla.wire import otlp
from tests.metrics.programs import get

ABOUT = {"client_id": "c", "client_software_name": "test", "client_source_address": "127.0.0.1"}


def subscribe(broker, name="all", **settings):
    texts = {
        "metrics": "*",
        "interval.ms": "100",
        **{k.replace("_", "."): str(v) for k, v in settings.items()},
    }
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.alter_configs("client-metrics", name, set_=texts)


def clients(broker):
    return json.loads(get(broker.http, "/telemetry")[2])["clients"]


def test_librdkafka_pushes_by_itself_and_its_metrics_are_shown():
    with Broker(ottla_client_telemetry_topic="telemetry") as broker:
        broker.create_topic("telemetry", 1)
        subscribe(broker)
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "rd"})
        producer.produce("orders", b"v")
        producer.flush(60)

        def pushed():
            producer.poll(0.05)
            return [each for each in clients(broker) if each["client_id"] == "rd" and each["metrics"]]

        (client,) = broker.wait_until(pushed, 60, "a push")
        assert client["client_software_name"] == "confluent-kafka-python"
        assert any(point["name"].startswith("org.apache.kafka.producer.") for point in client["metrics"])
        # The bytes as they came, with who sent them.
        record = broker.wait_until(lambda: broker.records("telemetry"), 90, "a record")[0]
        assert record.key.decode() == client["client_instance_id"]
        assert dict(record.headers)["client_id"] == b"rd"
        assert "ottla_client_telemetry_instances 1" in get(broker.http, "/metrics")[2]


def test_clients_are_told_of_telemetry_while_somebody_subscribes():
    with Broker() as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        with Admin(client) as admin:
            assert "PushTelemetry" not in _apis(admin)
        subscribe(broker)
        with Admin(client) as admin:
            assert "PushTelemetry" in _apis(admin)
            admin.alter_configs("client-metrics", "all", delete=["metrics", "interval.ms"])
        with Admin(client) as admin:
            assert "PushTelemetry" not in _apis(admin)


def _apis(admin):
    return admin.api_versions().keys()


# -- limits --------------------------------------------------------------------------------------


def a_telemetry(**settings):
    image = Image()
    telemetry = Telemetry(image, iter(bytes([n]) * 16 for n in range(1, 250)).__next__, bytes_max=1000)
    for name, value in settings.items():
        image.apply(ConfigSet(CLIENT_METRICS_RESOURCE, "s", name.replace("_", "."), value))
    return telemetry, image


def test_a_client_matches_by_the_whole_of_its_names():
    telemetry, _ = a_telemetry(
        metrics="a,b", interval_ms="500", match="client_id=c.*,client_software_name=test"
    )
    told = telemetry.on_get(bytes(16), {**ABOUT, "client_id": "c1"}, "User:a", 0)
    assert (told.metrics, told.interval_ms) == (("a", "b"), 500)
    other = telemetry.on_get(bytes(16), {**ABOUT, "client_id": "xc1"}, "User:a", 0)
    assert (other.metrics, other.interval_ms) == ((), 300_000)


def test_no_subscription_makes_a_client_push_less_often_than_by_default():
    telemetry, _ = a_telemetry(metrics="a", interval_ms="3600000")
    assert telemetry.on_get(bytes(16), ABOUT, "User:a", 0).interval_ms == 300_000


def test_a_changed_subscription_makes_the_old_one_unknown():
    telemetry, image = a_telemetry(metrics="a", interval_ms="500")
    told = telemetry.on_get(bytes(16), ABOUT, "User:a", 0)
    image.apply(ConfigSet(CLIENT_METRICS_RESOURCE, "s", "metrics", "b"))
    with pytest.raises(errors.UnknownSubscriptionId):
        push(telemetry, told.instance_id, told.subscription_id, 1000)
    again = telemetry.on_get(told.instance_id, ABOUT, "User:a", 2000)
    assert again.metrics == ("b",)
    push(telemetry, told.instance_id, again.subscription_id, 2000)


def push(telemetry, instance_id, subscription_id, now_ms, metrics=b"x"):
    return telemetry.on_push(
        instance_id, ABOUT, "User:a", Push(now_ms, 0, metrics), subscription_id, now_ms, terminating=False
    )


def test_a_push_that_comes_too_early_is_refused_but_for_the_last_one():
    telemetry, _ = a_telemetry(metrics="a", interval_ms="500")
    told = telemetry.on_get(bytes(16), ABOUT, "User:a", 1000)
    push(telemetry, told.instance_id, told.subscription_id, 1000)
    with pytest.raises(errors.ThrottlingQuotaExceeded):
        push(telemetry, told.instance_id, told.subscription_id, 1499)
    with pytest.raises(errors.ThrottlingQuotaExceeded):
        telemetry.on_get(told.instance_id, ABOUT, "User:a", 1499)
    push(telemetry, told.instance_id, told.subscription_id, 1500)
    last = Push(1501, 0, b"x")
    telemetry.on_push(told.instance_id, ABOUT, "User:a", last, told.subscription_id, 1501, terminating=True)
    assert telemetry.pushes == 3


def test_what_is_kept_is_bounded_in_clients_and_in_bytes(monkeypatch):
    monkeypatch.setattr(broker_telemetry, "INSTANCES_MAX", 10)
    monkeypatch.setattr(broker_telemetry, "KEPT_BYTES_MAX", 3000)
    telemetry, _ = a_telemetry(metrics="a", interval_ms="500")
    for number in range(20):
        told = telemetry.on_get(bytes(16), ABOUT, "User:a", number)
        push(telemetry, told.instance_id, told.subscription_id, number, bytes(1000))
    assert len(telemetry.instances) == 10
    kept = [each.last for each in telemetry.instances.values() if each.last is not None]
    assert [push.at_ms for push in kept] == [17, 18, 19]
    telemetry.on_get(bytes(16), ABOUT, "User:a", 10_000_000)
    assert len(telemetry.instances) == 1  # the others are silent for long


# -- decoding ------------------------------------------------------------------------------------


def field(number, data):
    if isinstance(data, bytes):
        return bytes([number << 3 | 2, len(data)]) + data
    return bytes([number << 3 | 1]) + data.pack()


class Fixed:
    def __init__(self, text, value):
        self.text, self.value = text, value

    def pack(self):
        return struct.pack(self.text, self.value)


def test_long_names_of_clients_are_not_kept_whole():
    """A client id may have 32,767 characters, and a connection may name another instance with each request."""
    telemetry = Telemetry(Image(), lambda: bytes(16), 1_000_000)
    instance = telemetry.on_get(b"i" * 16, {"client_id": "c" * 30_000}, "p" * 30_000, 0)
    assert (len(instance.about["client_id"]), len(instance.principal)) == (TEXT_MAX, TEXT_MAX)


def test_strangers_who_name_one_instance_after_another_cost_ten_megabytes_at_most():
    telemetry = Telemetry(Image(), lambda: bytes(16), 1_000_000)
    tracemalloc.start()
    try:
        for number in range(20_000):
            about = dict.fromkeys(("client_id", "client_software_name"), f"{number}" + "c" * 30000)
            instance = telemetry.on_get(b"%016d" % number, about, "p", number)
            if number % 100 == 0:
                push(telemetry, instance.instance_id, instance.subscription_id, number, bytes(500_000))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 10_000_000


def test_making_room_for_a_push_does_not_look_at_all_clients(monkeypatch):
    monkeypatch.setattr("ottla.broker.telemetry.KEPT_BYTES_MAX", 10)
    telemetry = Telemetry(Image(), lambda: bytes(16), 1_000_000)
    silent = [telemetry.on_get(b"%016d" % number, {}, "", 0) for number in range(100)]
    for number in range(1_000, 1_005):
        instance = telemetry.on_get(b"%016d" % number, {}, "", 0)
        push = Push(0, 0, b"12345")
        telemetry.on_push(instance.instance_id, {}, "", push, instance.subscription_id, 0, terminating=False)
    assert list(telemetry._with_push) == [b"%016d" % 1003, b"%016d" % 1004]
    assert all(each.last is None for each in silent)


def test_a_push_that_decompresses_to_much_is_not_shown():
    from ottla.server.metrics.telemetry_page import UNPACKED_BYTES_MAX, _shown
    from ottla.wire.compression import GZIP, compress

    telemetry = Telemetry(Image(), lambda: bytes(16), 1_000_000)
    instance = telemetry.on_get(b"i" * 16, {}, "", 0)
    instance.last = Push(0, GZIP, bytes(compress(GZIP, bytes(UNPACKED_BYTES_MAX + 1))))
    shown = _shown(instance)
    assert shown["metrics"] == [] and shown["error"]


def test_points_are_read_with_their_labels():
    attribute = field(1, b"node") + field(2, field(1, b"n1"))
    as_double = field(7, attribute) + field(4, Fixed("<d", 1.5))
    as_int = field(6, Fixed("<q", -3))
    metric = field(1, b"some.rate") + field(5, field(1, as_double))
    counter = field(1, b"some.total") + field(7, field(1, as_int))
    data = field(1, field(1, b"") + field(2, field(2, metric) + field(2, counter)))
    assert otlp.points(data) == [
        otlp.Point("some.rate", {"node": "n1"}, 1.5),
        otlp.Point("some.total", {}, -3),
    ]
    for cut in range(1, len(data)):
        with pytest.raises(errors.CorruptMessage):
            otlp.points(data[:cut])


def test_kafka_client_metrics_prints_what_apache_kafkas_tool_prints(capsys):
    with Broker() as broker:
        base = ["kafka-client-metrics", "--bootstrap-server", broker.bootstrap]
        assert main([*base, "--alter", "--name", "s", "--metrics", "a.,b", "--interval", "1000"]) == 0
        assert main([*base, "--list"]) == 0
        assert main([*base, "--describe", "--name", "s"]) == 0
        assert main([*base, "--delete", "--name", "s"]) == 0
        assert main([*base, "--list"]) == 0
        assert capsys.readouterr().out == (
            "Altered client metrics config for s.\n"
            "s\n"
            "Client metrics configs for s are:\n"
            "  interval.ms=1000\n"
            "  match=\n"
            "  metrics=a.,b\n"
            "Deleted client metrics config for s.\n"
        )
