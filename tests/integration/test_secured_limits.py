"""Before a client is known it gets little: small frames, few handshakes, no place beyond the limits."""

import socket
import ssl
import struct
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from ottla.security.certificates import Authority
from ottla.testing import Broker
from tests.oracle.ottla import Ottla
from tests.soak.fuzz import memory_mb


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(120)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def sends(settings) -> bool:
    results = []
    producer = Producer({**settings, "linger.ms": 0})
    producer.produce("t", b"x", on_delivery=lambda error, _: results.append(error))
    return producer.flush(60) == 0 and results == [None]


def test_a_large_frame_before_the_login_closes_the_connection_at_once():
    with Broker(security="SASL_PLAINTEXT", users={"alice": "x"}) as broker:
        with socket.create_connection(("127.0.0.1", broker.port)) as stranger:
            stranger.sendall(struct.pack(">i", 600 << 10))
            assert is_closed(stranger)
        assert sends(broker.client_settings("alice"))


def test_of_very_many_half_open_handshakes_the_oldest_goes_and_nobody_is_kept_out():
    with Broker(security="SSL") as broker, ExitStack() as open_ones:
        strangers = [
            open_ones.enter_context(socket.create_connection(("127.0.0.1", broker.port))) for _ in range(290)
        ]
        assert sends(broker.client_settings())
        assert is_closed(strangers[0])


@pytest.mark.parametrize("size", [1, 4, 5, 100])
def test_a_first_message_that_comes_in_pieces_is_put_together(size):
    """The handshake begins when its first message is whole; what a slow network cuts is no reason to fail."""
    from ottla.testing.security import authority

    context = ssl.create_default_context(cadata=authority().pem)
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(into, out, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = out.read()
    with (
        Broker(security="SSL") as broker,
        socket.create_connection(("127.0.0.1", broker.port), 20) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(hello), size):
            connection.sendall(hello[at : at + size])
        while True:
            into.write(connection.recv(1 << 16))
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                connection.sendall(out.read())
            else:
                break
        assert client.version() == "TLSv1.3"


def test_a_client_that_leaves_before_or_in_its_first_message_disturbs_nobody():
    with Broker(security="SSL") as broker:
        for said in (
            b"",
            b"\x16",
            b"\x16\x03\x01\x02\x00half of it",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0\0\0\x10",
        ):
            with socket.create_connection(("127.0.0.1", broker.port), 20) as stranger:
                stranger.sendall(said)
                stranger.shutdown(socket.SHUT_WR)
                assert is_closed(stranger)
        assert sends(broker.client_settings())


def test_half_open_handshakes_count_against_the_limits():
    with Broker(security="SSL", max_connections_per_ip=50) as broker:
        with ExitStack() as open_ones:
            for _ in range(50):
                open_ones.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            with socket.create_connection(("127.0.0.1", broker.port)) as one_more:
                assert is_closed(one_more)
        assert sends(broker.client_settings())


def test_a_certificate_is_exchanged_while_clients_are_connected(tmp_path):
    """New connections see the new one; those that are there go on."""
    from ottla.testing.security import authority

    path = tmp_path / "server.pem"

    def write(name):
        identity = authority().issue(name, "localhost", "127.0.0.1")
        path.write_text(identity.key + identity.certificate)

    def shown(port):
        context = ssl.create_default_context(cadata=authority().pem)
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as connection,
        ):
            return dict(pair[0] for pair in connection.getpeercert()["subject"])["commonName"]  # type: ignore[misc]

    write("first")
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": path}
    with Broker(
        {**settings, "ssl.keystore.key": "", "ssl.keystore.certificate.chain": ""}, security="SSL"
    ) as broker:
        assert shown(broker.port) == "first"
        producer = Producer(broker.client_settings())
        producer.produce("t", b"before")
        assert producer.flush(60) == 0
        write("second")
        broker.advance(seconds=11)  # the files are looked at every ten seconds
        assert shown(broker.port) == "second"
        path.write_text("broken")
        broker.advance(seconds=11)
        assert shown(broker.port) == "second"
        producer.produce("t", b"after")
        assert producer.flush(60) == 0
        assert len(broker.records("t")) == 2


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_large_records_travel_whole_over_tls(protocol):
    with Broker(security=protocol, users={"alice": "x"}, message_max_bytes=5 << 20) as broker:
        settings = broker.client_settings("alice") | {"message.max.bytes": 5 << 20}
        producer = Producer(settings)
        values = [bytes([number]) * (number * 700_000 + 1) for number in range(6)]
        for value in values:
            producer.produce("t", value)
        assert producer.flush(60) == 0
        assert [record.value for record in broker.records("t")] == values
        from confluent_kafka import Consumer

        consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        read = [next(iter(lambda: consumer.poll(120), None)).value() for _ in values]
        consumer.close()
        assert read == values


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_certificate_that_is_asked_for_is_told_so(version):
    """Without the alert a client takes the broker for one that is down, and tries again."""
    from ottla.testing.security import authority

    context = ssl.create_default_context(cadata=authority().pem)
    context.minimum_version = context.maximum_version = version
    settings = {"ssl.client.auth": "required"}
    with (
        Broker(settings, security="SSL") as broker,
        socket.create_connection(("127.0.0.1", broker.port), 20) as plain,
        pytest.raises(ssl.SSLError, match="ALERT"),
        context.wrap_socket(plain, server_hostname="localhost") as stranger,
    ):
        stranger.sendall(b"x" * 100_000)  # what it had to say is not in the way
        stranger.recv(1)


def test_an_idle_tls_connection_costs_less_than_35_kb(tmp_path):
    """The event loop's buffers of 256 KB, of which a page is used, would tear the heap into half-empty pages."""
    pytest.importorskip("uvloop")
    authority = Authority()
    identity = authority.issue("broker", "localhost", "127.0.0.1")
    (tmp_path / "server.pem").write_text(identity.key + identity.certificate)
    context = ssl.create_default_context(cadata=authority.pem)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL",  # the name that `--port` gives the listener
        "ssl.keystore.location": tmp_path / "server.pem",
    }
    with Ottla(settings=settings) as broker, ExitStack() as stack:

        def connect(count):
            for _ in range(count):
                plain = socket.create_connection(("127.0.0.1", broker.port), 60)
                stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))

        connect(50)  # what the first ones need stays
        costs_kb = []
        for _ in range(3):
            before_mb = memory_mb(broker.pid())
            connect(150)
            costs_kb.append((memory_mb(broker.pid()) - before_mb) * 1024 / 150)
        assert sorted(costs_kb)[1] < 35, costs_kb  # beside one of the steps a busy broker may still warm up
