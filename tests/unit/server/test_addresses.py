"""What clients are told to connect to, and what is refused before they try."""

import socket

import pytest

from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.server.addresses import Address, advertised, listeners

PROTOCOLS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,A:PLAINTEXT"
}


def told(**settings):
    config = Config({name.replace("_", "."): value for name, value in settings.items()} | PROTOCOLS)
    found = advertised(config, [1000 + index for index in range(len(listeners(config)))])
    return [(each.name, each.host, each.port) for each in found]


def test_without_advertised_listeners_it_is_where_it_listens():
    assert told(listeners="PLAINTEXT://127.0.0.1:0") == [("PLAINTEXT", "127.0.0.1", 1000)]


def test_each_listener_is_told_under_its_own_name():
    pair = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
    assert told(listeners=pair, advertised_listeners="OUTSIDE://kafka.example:9094") == [
        ("INSIDE", "127.0.0.1", 1000),
        ("OUTSIDE", "kafka.example", 9094),
    ]


def test_port_0_is_told_as_the_one_that_was_picked():
    assert told(listeners="PLAINTEXT://127.0.0.1:0", advertised_listeners="PLAINTEXT://localhost:0") == [
        ("PLAINTEXT", "localhost", 1000)
    ]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_listening_everywhere_tells_the_name_of_the_machine(host):
    assert told(listeners=f"PLAINTEXT://{host}:9092")[0][1] == socket.gethostname()


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_everywhere_is_no_address_to_tell(host):
    with pytest.raises(InvalidConfig, match="by which clients reach this broker"):
        told(listeners="PLAINTEXT://127.0.0.1:0", advertised_listeners=f"PLAINTEXT://{host}:9092")


def test_a_name_that_is_not_listened_on_is_refused():
    with pytest.raises(InvalidConfig, match="OUTSIDE"):
        told(listeners="PLAINTEXT://127.0.0.1:0", advertised_listeners="OUTSIDE://host:1")


@pytest.mark.parametrize(
    "text",
    ["9092", "PLAINTEXT://host", "PLAINTEXT://host:port", "PLAINTEXT://h:99999", "PLAINTEXT://h:²", ""],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidConfig):
        Address.parse(text)


def test_two_listeners_of_one_name_are_refused():
    with pytest.raises(InvalidConfig, match="name of its own"):
        told(listeners="A://127.0.0.1:0,A://127.0.0.1:1")


def test_an_address_of_version_6_is_written_in_brackets():
    assert Address.parse("PLAINTEXT://[::1]:9092") == Address("PLAINTEXT", "::1", 9092)
