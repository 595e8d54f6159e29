"""OAUTHBEARER: tokens that are signed, for us and not over, and all the others."""

import base64
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import SaslAuthenticationFailed
from ottla.security.oauth import Expected, oauthbearer

NOW = 1_800_000_000
KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
EXPECTED = Expected(("kafka",), "https://issuer")
CLAIMS = {"sub": "alice", "iat": NOW, "exp": NOW + 60, "aud": "kafka", "iss": "https://issuer"}


DEEP = base64.urlsafe_b64encode(b"[" * 99_999).decode()


def keys(key_id):
    return KEY.public_key() if key_id == "k" else None


def token(key=KEY, algorithm="ES256", key_id="k", **changes):
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, key, algorithm, {"kid": key_id})


def logged_in(text, authorization_id="", expected=EXPECTED, keys=keys):
    server = oauthbearer(keys, expected, lambda: NOW)
    next(server)
    message = f"n,{authorization_id},\x01auth=Bearer {text}\x01\x01".encode()
    try:
        challenge = server.send(message)
        assert isinstance(challenge, bytes)
    except StopIteration as end:
        return end.value
    assert json.loads(challenge) == {"status": "invalid_token"}
    server.send(b"\x01")
    raise AssertionError("it went on")


def test_a_good_token_is_its_subject_until_it_expires():
    who = logged_in(token())
    assert (who.principal, who.expires_ms) == ("User:alice", (NOW + 60) * 1000)
    assert logged_in(token(exp=NOW - 10)).principal == "User:alice"  # within the skew of clocks


def unsigned(**changes):
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, None, "none")


def test_without_keys_an_unsigned_token_is_believed_until_it_expires():
    expected = Expected(clock_skew_s=0)
    who = logged_in(unsigned(), expected=expected, keys=None)
    assert (who.principal, who.expires_ms) == ("User:alice", (NOW + 60) * 1000)
    assert logged_in(unsigned(iat=None), expected=expected, keys=None).principal == "User:alice"
    assert logged_in(unsigned(), "a=alice", expected=expected, keys=None).principal == "User:alice"


@pytest.mark.parametrize(
    "bad",
    [
        token(),
        unsigned(exp=NOW - 1),
        unsigned(exp=None),
        unsigned(exp="soon"),
        unsigned(nbf=NOW + 60),
        unsigned(sub=None),
        unsigned(sub=""),
        unsigned(sub=["alice"]),
        unsigned() + "c2lnbmVk",
        unsigned().removesuffix("."),
        "..",
        "e30.e30.",
        "bnVsbA.bnVsbA.",
        "MQ.MQ.",
        f"{DEEP}.{DEEP}.",
        "x",
    ],
)
def test_without_keys_other_tokens_are_refused(bad):
    with pytest.raises(SaslAuthenticationFailed):
        logged_in(bad, expected=Expected(clock_skew_s=0), keys=None)


def test_with_keys_an_unsigned_token_is_refused():
    with pytest.raises(SaslAuthenticationFailed):
        logged_in(unsigned())


def test_another_claim_may_be_the_name():
    assert logged_in(token(email="a@b"), expected=Expected(principal_claim="email")).principal == "User:a@b"


@pytest.mark.parametrize(
    "bad",
    [
        token(OTHER),
        token(key_id="unknown"),
        token(exp=NOW - 60),
        token(exp=None),
        token(exp=10**400),
        token(exp=float("inf")),
        token(exp=float("nan")),
        token(iat=None),
        token(sub=None),
        token(sub=""),
        token(sub=" "),
        token(nbf=NOW + 600),
        token(aud="others"),
        token(iss="https://mallory"),
        jwt.encode(CLAIMS, "secret-that-is-long-enough-for-hs256", "HS256", {"kid": "k"}),
        jwt.encode(CLAIMS, None, "none", {"kid": "k"}),
        token(rsa.generate_private_key(65537, 2048), "RS256"),
        "not.a.token",
        f"{DEEP}.{DEEP}.{DEEP}",
        "",
    ],
)
def test_a_bad_token_is_refused(bad):
    with pytest.raises(SaslAuthenticationFailed):
        logged_in(bad)


def test_a_name_is_a_text():
    with pytest.raises(SaslAuthenticationFailed):
        logged_in(token(roles=["admin"]), expected=Expected(principal_claim="roles"))


def test_a_stranger_cannot_make_the_broker_look_at_very_many_pairs():
    server = oauthbearer(keys, EXPECTED, lambda: NOW)
    next(server)
    many = "a=\x01" * 101
    with pytest.raises(SaslAuthenticationFailed, match="first message"):
        server.send(f"n,,\x01{many}auth=Bearer {token()}\x01\x01".encode())


def test_nobody_can_be_somebody_else():
    with pytest.raises(SaslAuthenticationFailed):
        logged_in(token(), authorization_id="a=admin")


def test_the_log_says_why_a_token_is_refused_and_the_client_is_not_told(caplog):
    with pytest.raises(SaslAuthenticationFailed) as refusal:
        logged_in(token(aud="others"))
    assert refusal.value.message == '{"status":"invalid_token"}'
    assert "Audience" in caplog.text


@given(st.binary(max_size=100))
def test_garbage_is_refused(message):
    server = oauthbearer(keys, EXPECTED, lambda: NOW)
    next(server)
    with pytest.raises(SaslAuthenticationFailed):
        server.send(message)
        server.send(b"\x01")
