import base64
import hashlib
import hmac

import pytest

from ottla.client.loop.security import plain, scram
from ottla.errors import SaslAuthenticationFailed

# The example of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_plain_sends_user_and_password_at_once() -> None:
    assert list(plain("user", "secret")) == [b"\0user\0secret"]


def test_scram_follows_the_rfcs_example() -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)
    assert next(exchange) == b"n,,n=user,r=" + NONCE.encode()
    assert exchange.send(SERVER_FIRST).endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


@pytest.mark.parametrize(
    "final", [b"v=" + base64.b64encode(bytes(32)), b"e=invalid-proof", b"", SERVER_FINAL[:-3] + b"5G="]
)
def test_a_broker_that_does_not_know_the_password_is_refused(final: bytes) -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises((SaslAuthenticationFailed, ValueError)):
        exchange.send(final)


@pytest.mark.parametrize(
    "first",
    [
        b"r=other,s=AA==,i=1",
        b"r=" + NONCE.encode(),
        b"r=" + NONCE.encode() + b"x,s=AA==,i=999999999",
        b"r=" + NONCE.encode() + "x,s=AA==,i=²".encode(),
    ],
)
def test_a_challenge_that_is_no_answer_or_costs_too_much_is_refused(first: bytes) -> None:
    exchange = scram("sha256", "user", "pencil", NONCE)
    next(exchange)
    with pytest.raises(SaslAuthenticationFailed):
        exchange.send(first)


def test_scram_sha_512_proves_the_password_to_a_server_that_checks_it() -> None:
    salt, iterations, password = b"salt", 4096, b"p,=w"
    exchange = scram("sha512", "a=b,c", "p,=w", "nonce")
    first = next(exchange).decode()
    assert "n=a=3Db=2Cc" in first
    challenge = f"r=nonceserver,s={base64.b64encode(salt).decode()},i={iterations}"
    final = exchange.send(challenge.encode()).decode()
    without_proof, proof = final.rsplit(",p=", 1)
    salted = hashlib.pbkdf2_hmac("sha512", password, salt, iterations)
    stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    message = f"{first[3:]},{challenge},{without_proof}".encode()
    signature = hmac.digest(stored, message, "sha512")
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(key).digest() == stored
