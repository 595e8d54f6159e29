"""A failed handshake: the alert leaves, and what the client still sends is thrown away."""

import ssl

import pytest
import trustme

from ottla.server.alerts import AlertingContext


@pytest.fixture
def server_context():
    authority = trustme.CA()
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


def test_after_an_alert_input_is_thrown_away(server_context):
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_context.minimum_version = ssl.TLSVersion.TLSv1_3
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    outdated = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outdated.maximum_version = ssl.TLSVersion.TLSv1_2
    client = outdated.wrap_bio(to_client, to_server, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    assert to_client.pending
    to_server.write(b"x" * 100_000)
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    assert not to_server.pending
    with pytest.raises(ssl.SSLError, match="ALERT"):
        client.do_handshake()


def test_a_client_that_does_not_speak_tls_fails_at_once(server_context):
    to_server = ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, ssl.MemoryBIO(), server_side=True)
    to_server.write(b"\0\0\0\x10\0\x12\0\x04 this is not TLS at all")
    with pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"):
        server.do_handshake()
