"""SASL on a connection: who gets in, who does not, and what is answered before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.requests.authentication import Authentication, Login
from ottla.broker.requests.client import Client
from ottla.broker.routes import ROUTES
from ottla.client.loop import security as client_side
from ottla.security import plain, scram
from ottla.security.mechanisms import Authenticated
from ottla.testing.world.time import ProcessClock, Time
from ottla.wire import codec
from ottla.wire.frames import LENGTH, request_header
from ottla.wire.messages import APIS
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

USERS = {"alice": "secret"}
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED = 33, 34, 58


def scram_lookup():
    credential = scram.credential_of("sha256", "secret", b"salt-salt", 4096)
    return scram.user_lookup({"alice": credential})


class Connection:
    """The broker's end, driven by frames."""

    def __init__(self, **more):
        self.time, self.client, self.closed = Time(), Client("10.0.0.1", 4711), []
        mechanisms = {
            "PLAIN": lambda: plain.plain(plain.users_check(USERS)),
            "SCRAM-SHA-256": lambda: scram.scram("sha256", scram_lookup(), "nonce"),
        }
        login = Login({**mechanisms, **more.pop("mechanisms", {})}, **more)
        self.authentication = Authentication(login, ProcessClock(self.time), self.client, self.closed.append)
        self.answers = []

    def answer(self, buffers):
        self.answers.append(b"".join(bytes(each) for each in buffers))

    def send(self, request, version):
        frame = request_header(APIS[request.API_KEY], version, 7, "c")
        codec.write(request, version, frame)
        return self.authentication.on_frame(bytes(frame[LENGTH.size :]), self)

    def last(self, kind, version):
        position = LENGTH.size + 4 + (version >= APIS[kind.API_KEY].flexible_from)
        return codec.read(kind, version, self.answers[-1], position)[0]

    def handshake(self, mechanism="PLAIN", version=1):
        assert self.send(SaslHandshakeRequest(mechanism=mechanism), version)
        return self.last(SaslHandshakeResponse, version)

    def authenticate(self, token, version=2):
        assert self.send(SaslAuthenticateRequest(auth_bytes=token), version)
        return self.last(SaslAuthenticateResponse, version)

    def wait_ms(self, milliseconds):
        end = self.time.exact_ms + milliseconds
        self.time.call_later(milliseconds, lambda: None)
        while self.time.exact_ms < end and self.time.next_event():
            pass


@pytest.fixture
def connection():
    return Connection()


def test_plain_logs_in(connection):
    assert connection.handshake().mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert not connection.authentication.is_done
    response = connection.authenticate(b"\0alice\0secret")
    assert (response.error_code, response.session_lifetime_ms) == (0, 0)
    assert connection.authentication.is_done
    assert connection.client.principal == "User:alice"
    assert connection.closed == []


def test_scram_logs_in_over_two_messages_and_proves_the_broker(connection):
    connection.handshake("SCRAM-SHA-256")
    client = client_side.scram("sha256", "alice", "secret")
    challenge = connection.authenticate(next(client))
    response = connection.authenticate(client.send(challenge.auth_bytes))
    with pytest.raises(StopIteration):
        client.send(response.auth_bytes)
    assert connection.client.principal == "User:alice"


def test_tokens_are_bare_after_a_handshake_of_version_0(connection):
    connection.handshake(version=0)
    assert connection.authentication.on_frame(b"\0alice\0secret", connection)
    assert connection.answers[-1] == LENGTH.pack(0)
    assert connection.client.principal == "User:alice"


def test_a_wrong_password_is_answered_late_and_closes_the_connection(connection):
    connection.handshake()
    assert connection.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    connection.wait_ms(99)
    assert len(connection.answers) == 1 and not connection.closed
    connection.wait_ms(2)
    response = connection.last(SaslAuthenticateResponse, 2)
    assert response.error_code == SASL_AUTHENTICATION_FAILED
    assert "secret" not in response.error_message and "wrong" not in response.error_message
    assert len(connection.closed) == 1
    assert connection.client.principal == "User:ANONYMOUS"


@pytest.mark.parametrize("login", [lambda c: None, lambda c: c.handshake()])
def test_nothing_but_the_login_is_served_before_it(connection, login):
    login(connection)
    answered = len(connection.answers)
    assert connection.send(MetadataRequest(topics=[]), 12)
    assert len(connection.closed) == 1
    assert len(connection.answers) == answered


def test_api_versions_is_for_everybody(connection):
    assert not connection.send(ApiVersionsRequest(), 3)
    assert connection.closed == []


def test_an_unknown_mechanism_is_told_what_there_is_and_closed(connection):
    response = connection.handshake("GSSAPI")
    assert response.error_code == UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert len(connection.closed) == 1


def test_authenticate_without_a_handshake_is_an_illegal_state(connection):
    assert connection.authenticate(b"\0alice\0secret").error_code == ILLEGAL_SASL_STATE
    assert connection.client.principal == "User:ANONYMOUS"
    assert len(connection.closed) == 1


def test_a_second_handshake_is_an_illegal_state_unless_sessions_end(connection):
    connection.handshake()
    connection.authenticate(b"\0alice\0secret")
    assert connection.handshake().error_code == ILLEGAL_SASL_STATE


class TestSessions:
    """Logins that last a minute."""

    @pytest.fixture
    def connection(self):
        one = Connection(session_ms_max=60_000)
        one.handshake()
        assert one.authenticate(b"\0alice\0secret").session_lifetime_ms == 60_000
        return one

    def test_requests_pass_until_the_session_ends(self, connection):
        connection.wait_ms(59_000)
        assert not connection.send(MetadataRequest(topics=[]), 12)
        connection.wait_ms(1_001)
        assert connection.send(MetadataRequest(topics=[]), 12)
        assert len(connection.closed) == 1

    def test_a_client_that_logs_in_again_goes_on(self, connection):
        connection.wait_ms(50_000)
        assert connection.handshake().error_code == 0
        assert connection.authentication.was_done  # who logs in again is not cut off as one who never did
        assert connection.authenticate(b"\0alice\0secret").session_lifetime_ms == 60_000
        connection.wait_ms(50_000)
        assert not connection.send(MetadataRequest(topics=[]), 12)

    def test_it_may_log_in_again_even_when_its_session_has_ended(self, connection):
        connection.wait_ms(61_000)
        assert connection.handshake().error_code == 0

    def test_it_stays_the_same_principal(self, connection):
        USERS["bob"] = "secret"
        try:
            connection.wait_ms(2_000)
            connection.handshake()
            assert connection.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0secret"), 2)
            connection.wait_ms(200)
        finally:
            del USERS["bob"]
        assert connection.last(SaslAuthenticateResponse, 2).error_code == SASL_AUTHENTICATION_FAILED
        assert connection.client.principal == "User:alice"
        assert len(connection.closed) == 1

    def test_it_stays_with_its_mechanism(self, connection):
        connection.wait_ms(2_000)
        assert connection.handshake("SCRAM-SHA-256").error_code == ILLEGAL_SASL_STATE

    def test_it_logs_in_at_most_once_a_second(self, connection):
        connection.wait_ms(500)
        assert connection.handshake().error_code == ILLEGAL_SASL_STATE


def expiring(expires_ms):
    def exchange():
        yield b""
        return Authenticated("User:token", expires_ms=expires_ms)

    return exchange


@pytest.mark.parametrize("session_ms_max, lifetime_ms", [(0, 5_000), (60_000, 5_000), (3_000, 3_000)])
def test_a_session_ends_with_its_credential_or_before(session_ms_max, lifetime_ms):
    now_ms = Time().now_ms()
    connection = Connection(session_ms_max=session_ms_max, mechanisms={"TOKEN": expiring(now_ms + 5_000)})
    connection.handshake("TOKEN")
    assert connection.authenticate(b"x").session_lifetime_ms == lifetime_ms


def test_a_mechanism_may_have_sessions_of_its_own_length():
    mechanisms = {"TOKEN": expiring(None)}
    connection = Connection(
        session_ms_max=60_000, session_ms_by_mechanism={"TOKEN": 5_000}, mechanisms=mechanisms
    )
    connection.handshake("TOKEN")
    assert connection.authenticate(b"x").session_lifetime_ms == 5_000


def test_an_expired_credential_does_not_log_in():
    connection = Connection(mechanisms={"TOKEN": expiring(Time().now_ms())})
    connection.handshake("TOKEN")
    connection.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
    connection.wait_ms(200)
    assert connection.last(SaslAuthenticateResponse, 2).error_code == SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "frame", [b"", b"\0\x11", b"\0\x24\0\x09\0\0\0\0\xff\xff", b"\0\x11\0\x01\0\0\0\0\xff\xff\0\x09abc"]
)
def test_garbage_closes_the_connection(connection, frame):
    assert connection.authentication.on_frame(frame, connection)
    assert len(connection.closed) == 1


LOGIN = {ApiVersionsRequest.API_KEY, SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY}


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.api.name)
def test_no_other_api_gets_an_answer_before_the_login(connection, route):
    if route.api.key in LOGIN:
        return
    frame = bytes(request_header(route.api, route.version_max, 7, "c")[LENGTH.size :])
    assert connection.authentication.on_frame(frame, connection)
    assert connection.answers == [] and len(connection.closed) == 1


@given(st.lists(st.binary(max_size=80), max_size=6))
def test_whatever_is_sent_nobody_becomes_somebody_without_a_password(frames):
    connection = Connection()
    for frame in frames:
        if connection.closed:
            break
        connection.authentication.on_frame(frame, connection)
    assert connection.client.principal == "User:ANONYMOUS"
    assert not connection.authentication.is_done


def test_a_mechanism_that_fails_lets_nobody_in():
    def broken():
        yield b""
        raise ZeroDivisionError

    connection = Connection(mechanisms={"BROKEN": broken})
    connection.handshake("BROKEN")
    connection.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
    connection.wait_ms(200)
    assert connection.last(SaslAuthenticateResponse, 2).error_code == SASL_AUTHENTICATION_FAILED
    assert len(connection.closed) == 1 and not connection.authentication.is_done
