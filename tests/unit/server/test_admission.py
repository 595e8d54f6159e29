"""Which connections come in: how many at a time and in a second, of the broker, a listener, an address."""

import pytest

from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.server.admission import Admission
from ottla.testing.world.time import Time

LISTENERS = {
    "listeners": "CLIENTS://:9092,BROKERS://:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def admission(clock, **settings):
    config = Config(LISTENERS | {name.replace("_", "."): str(value) for name, value in settings.items()})
    return Admission(lambda: config, clock, lambda: None)


def waits(gate, listener, count):
    return [gate.admit(listener, "10.0.0.1").wait_ms for _ in range(count)]


def test_connections_beyond_the_rate_wait_each_for_its_own_turn():
    clock = Time()
    gate = admission(clock, max_connection_creation_rate=2)
    assert waits(gate, "CLIENTS", 23) == [0] * 20 + [500, 1000, 1500]
    clock.advance(1500)
    assert waits(gate, "CLIENTS", 2) == [500, 1000]


def test_brokers_have_no_part_in_the_rate_of_the_broker_but_in_that_of_their_listener():
    gate = admission(Time(), max_connection_creation_rate=1)
    assert waits(gate, "CLIENTS", 11)[-1] == 1000
    assert waits(gate, "BROKERS", 50) == [0] * 50
    own = admission(Time(), **{"listener.name.brokers.max.connection.creation.rate": 1})
    assert waits(own, "BROKERS", 11)[-1] == 1000
    assert waits(own, "CLIENTS", 50) == [0] * 50


def test_those_that_wait_are_as_many_as_the_system_would_keep():
    clock = Time()
    gate = admission(clock, max_connection_creation_rate=1, socket_listen_backlog_size=3)
    verdicts = [gate.admit("CLIENTS", "10.0.0.1") for _ in range(14)]
    assert [verdict.refused is None for verdict in verdicts] == [True] * 13 + [False]
    for _ in range(100):  # those that are turned away do not make the others wait longer
        assert gate.admit("CLIENTS", "10.0.0.1").refused is not None
    clock.advance(1000)
    assert gate.admit("CLIENTS", "10.0.0.1").wait_ms == 3000


def test_connections_of_all_listeners_count_together_and_those_of_one_alone():
    gate = admission(
        Time(),
        max_connections=3,
        max_connections_per_ip=2,
        **{"listener.name.clients.max.connections": 2},
    )
    gate.on_connected("CLIENTS", "10.0.0.1")
    gate.on_connected("BROKERS", "10.0.0.1")
    assert "max.connections.per.ip=2" in str(gate.admit("CLIENTS", "10.0.0.1").refused)
    assert gate.admit("CLIENTS", "10.0.0.2").refused is None
    gate.on_connected("CLIENTS", "10.0.0.2")
    assert "max.connections=3" in str(gate.admit("BROKERS", "10.0.0.3").refused)
    gate.on_disconnected("BROKERS", "10.0.0.1")
    assert "listener CLIENTS" in str(gate.admit("CLIENTS", "10.0.0.3").refused)
    assert gate.admit("BROKERS", "10.0.0.3").refused is None


def test_a_limit_of_a_listener_that_is_no_number_is_refused():
    with pytest.raises(InvalidConfig, match=r"listener\.name\.clients\.max\.connections=many"):
        admission(Time(), **{"listener.name.clients.max.connections": "many"})


def test_a_limit_of_a_listener_may_change_while_running():
    config = Config(LISTENERS)
    gate = Admission(lambda: config, Time(), lambda: None)
    gate.on_connected("CLIENTS", "10.0.0.1")
    assert gate.admit("CLIENTS", "10.0.0.1").refused is None
    config = config.with_dynamic({}, {"listener.name.clients.max.connections": "1"})
    assert "listener CLIENTS" in str(gate.admit("CLIENTS", "10.0.0.1").refused)
    assert gate.admit("BROKERS", "10.0.0.1").refused is None
    config = config.with_dynamic({}, {})
    assert gate.admit("CLIENTS", "10.0.0.1").refused is None
