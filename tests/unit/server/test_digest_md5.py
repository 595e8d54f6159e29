"""DIGEST-MD5, the client's side: the example of RFC 2831, and servers that are not what they say."""

import pytest

from ottla.server.zookeeper.digest_md5 import LoginRefused, exchange

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


@pytest.fixture
def login():
    started = exchange("chris", "secret", "OA6MHXh6VqTrRk", "imap", "elwood.innosoft.com")
    assert next(started) == b""
    return started


def test_the_example_of_the_rfc(login):
    answer = login.send(CHALLENGE)
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    assert b"secret" not in answer
    with pytest.raises(StopIteration):
        login.send(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")


@pytest.mark.parametrize("last", [b"rspauth=00000000000000000000000000000000", b"", b"x" * 100])
def test_a_server_that_does_not_know_the_password_is_refused(login, last):
    login.send(CHALLENGE)
    with pytest.raises(LoginRefused):
        login.send(last)


def test_a_server_without_this_mechanism_is_refused(login):
    with pytest.raises(LoginRefused, match="DIGEST-MD5"):
        login.send(b"")
