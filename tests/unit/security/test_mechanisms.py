"""PLAIN and SCRAM servers against the client's half of them, and against RFC 7677's own example."""

import base64
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.loop import security as client_side
from ottla.errors import SaslAuthenticationFailed
from ottla.security import plain, scram
from ottla.security.mechanisms import Authenticated

SALT = b"0123456789abcdef"
USERS = {"alice": "alice-secret", "a,b=c": "päss"}


def logged_in(server, client) -> Authenticated:
    """Carries messages between the two until the server knows who it is."""
    next(server)
    message = next(client)
    while True:
        try:
            answer = server.send(message)
        except StopIteration as end:
            if end.value.last_message:
                with pytest.raises(StopIteration):  # the client is convinced too
                    client.send(end.value.last_message)
            return end.value
        message = client.send(answer)


def a_scram_server(digest: str, users=USERS):
    stored = {name: scram.credential_of(digest, password, SALT, 4096) for name, password in users.items()}
    return scram.scram(digest, scram.user_lookup(stored), "servernonce")


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
@pytest.mark.parametrize("name", USERS)
def test_the_right_password_logs_in(digest, name):
    client = client_side.scram(digest, name, USERS[name])
    assert logged_in(a_scram_server(digest), client).principal == f"User:{name}"


@pytest.mark.parametrize("name, password", [("alice", "wrong"), ("nobody", "alice-secret")])
def test_a_wrong_password_and_an_unknown_user_are_refused_in_the_same_words(name, password):
    with pytest.raises(
        SaslAuthenticationFailed, match="invalid credentials with SASL mechanism SCRAM-SHA-256"
    ):
        logged_in(a_scram_server("sha256"), client_side.scram("sha256", name, password))


def test_the_example_of_rfc_7677_is_answered_as_it_is_written_there():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = {"user": scram.credential_of("sha256", "pencil", salt, 4096)}
    server = scram.scram("sha256", scram.user_lookup(users), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    next(server)
    challenge = server.send(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    with pytest.raises(StopIteration) as end:
        server.send(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
    assert end.value.value.last_message == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_another_authorization_id_is_refused():
    server = a_scram_server("sha256")
    next(server)
    with pytest.raises(SaslAuthenticationFailed, match="authorization id"):
        server.send(b"n,a=admin,n=alice,r=nonce")


@given(st.binary(max_size=60), st.binary(max_size=200))
def test_no_bytes_make_scram_fail_otherwise_than_by_refusing(first, second):
    server = a_scram_server("sha256", {})
    next(server)
    with pytest.raises(SaslAuthenticationFailed):
        server.send(first)
        server.send(second)


@given(st.binary(max_size=200))
def test_garbage_behind_a_good_beginning_is_refused(second):
    server = a_scram_server("sha256", {"alice": "x"})
    next(server)
    server.send(b"n,,n=alice,r=nonce")
    with pytest.raises(SaslAuthenticationFailed):
        server.send(second)


LONGEST = 512 << 10  # sasl.server.max.receive.size


def costs(exchange, *messages):
    """The most memory that a refusal of the last message takes."""
    next(exchange)
    for message in messages[:-1]:
        exchange.send(message)
    tracemalloc.start()
    try:
        with pytest.raises(SaslAuthenticationFailed):
            exchange.send(messages[-1])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "messages",
    [
        [b"n,,n=" + b"a" * LONGEST + b",r=nonce"],
        [b"n,,n=" + b"a" * LONGEST],
        [b"n,,n=" + b"=2C" * (LONGEST // 3) + b",r=nonce"],
        [b"n,a=" + b"=3D" * (LONGEST // 3) + b",n=alice,r=nonce"],
        [b"n,,n=alice,r=nonce" + b",a=" * (LONGEST // 3)],
        [b"n,,n=alice,r=nonce", b"c=biws,r=nonceservernonce" + b"," * LONGEST + b"p=eA=="],
        [b"n,,n=alice,r=nonce", b"c=biws,r=nonceservernonce" + b",p=x" * (LONGEST // 4) + b",!"],
    ],
)
def test_a_stranger_cannot_make_scram_take_much_memory(messages):
    assert costs(a_scram_server("sha256", {"alice": "x"}), *messages) < 10 * LONGEST


@pytest.mark.parametrize("name", ["=", "a=2", "a=2c", "=3=2CD", "=2=3DC"])
def test_a_name_with_an_escape_that_is_none_is_refused(name):
    server = a_scram_server("sha256")
    next(server)
    with pytest.raises(SaslAuthenticationFailed, match="Invalid SCRAM message"):
        server.send(f"n,,n={name},r=nonce".encode())


@pytest.mark.parametrize("more", ["", ",m=1", ",m=,x=p=\n,y", ",p=x"])
def test_extensions_of_a_last_message_are_part_of_what_is_signed(more):
    server = a_scram_server("sha256", {"alice": "x"})
    client = client_side.scram("sha256", "alice", "x")
    next(server)
    final = client.send(server.send(next(client)))
    with pytest.raises(SaslAuthenticationFailed if more else StopIteration):
        server.send(final.replace(b",p=", f"{more},p=".encode()))


def a_plain_server():
    server = plain.plain(plain.users_check(USERS))
    next(server)
    return server


def test_plain_takes_the_right_password():
    with pytest.raises(StopIteration) as end:
        a_plain_server().send(next(client_side.plain("alice", "alice-secret")))
    assert end.value.value == Authenticated("User:alice")


@pytest.mark.parametrize(
    "message, reason",
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0alice-secret", "Invalid username or password"),
        (b"\0\0x", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"bob\0alice\0alice-secret", "authorization id"),
        (b"alice", "3 tokens"),
        (b"\0al\xffice\0x", "UTF-8"),
    ],
)
def test_plain_refuses(message, reason):
    with pytest.raises(SaslAuthenticationFailed, match=reason):
        a_plain_server().send(message)
