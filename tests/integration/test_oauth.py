"""OAUTHBEARER with another client, and an issuer whose key rotates."""

import http.server
import json
import threading
import time

import jwt
import pytest
from confluent_kafka import Producer
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ottla.server import jwks
from ottla.testing import Broker


class Issuer:
    """Serves its public keys, and signs with the newest."""

    def __init__(self):
        self.keys = {}
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps({"keys": [issuer.public(each) for each in issuer.keys]}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def rotate(self, key_id):
        self.keys = {key_id: ec.generate_private_key(ec.SECP256R1())}

    def public(self, key_id):
        return json.loads(ECAlgorithm.to_jwk(self.keys[key_id].public_key())) | {"kid": key_id}

    def token(self, **changes):
        ((key_id, key),) = self.keys.items()
        now_s = int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 600, "aud": "kafka", **changes}
        return jwt.encode(claims, key, "ES256", {"kid": key_id})


@pytest.fixture
def issuer():
    one = Issuer()
    one.rotate("first")
    yield one
    one.server.shutdown()
    one.server.server_close()


def sends(broker, issuer, **changes):
    """Whether a record gets in; False when the login fails."""
    results, errors = [], []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (issuer.token(**changes), time.time() + 600),
            "error_cb": errors.append,
            "message.timeout.ms": 100_000,
        }
    )
    producer.produce("t", b"x", on_delivery=lambda error, _: results.append(error))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        producer.poll(0.1)
        if results:
            return results == [None]
        if any("invalid_token" in str(error) or "authentication" in str(error).lower() for error in errors):
            producer.purge()
            return False
    raise AssertionError((results, errors))


def test_tokens_are_checked_and_keys_may_change(issuer, monkeypatch):
    monkeypatch.setattr(jwks, "AGAIN_S", 0.0)
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.url,
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    with Broker(settings, security="SASL_PLAINTEXT") as broker:
        assert sends(broker, issuer)
        assert not sends(broker, issuer, aud="others")
        assert not sends(broker, issuer, exp=int(time.time()) - 600)
        issuer.rotate("second")
        # The first login with the new key sets off the reading.
        broker.wait_until(lambda: sends(broker, issuer), 120, "the new key to be known")
