"""Keys of those who issue tokens: a set that cannot be read leaves the keys as they were."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ottla.server import jwks
from ottla.server.jwks import KeySet


def a_set():
    key = json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key()))
    return json.dumps({"keys": [{**key, "kid": "k"}]})


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "7", "{}", '{"keys": 7}', '{"keys": [7]}', '{"keys": []}', "\0"]
)
def test_a_set_that_is_none_has_no_keys_and_is_in_the_log(tmp_path, caplog, text):
    (tmp_path / "keys.json").write_text(text)
    keys = KeySet(str(tmp_path / "keys.json"))
    assert not keys._keys
    assert "keys.json cannot be read" in caplog.text


def test_a_set_that_is_broken_later_leaves_the_keys_that_are_known(tmp_path, monkeypatch):
    monkeypatch.setattr(jwks, "AGAIN_S", 600.0)
    path = tmp_path / "keys.json"
    path.write_text(a_set())
    keys = KeySet(str(path))
    known = keys.key("k")
    assert known is not None
    path.write_text("[]")
    keys._read()
    assert keys.key("k") is known
