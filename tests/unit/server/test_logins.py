"""Logins of pages over HTTP."""

import asyncio
import base64

import pytest

from ottla.security.passwords import hash_password
from ottla.server.logins import Logins


def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic ?", "Basic \xe9", "Basic /w==", "Bearer x", basic("alice")]
)
def test_a_header_that_is_no_login_is_refused(header):
    users = {"alice": hash_password("secret", b"salt")}
    assert not asyncio.run(Logins(users).allow(header))


def test_a_right_password_gets_in():
    users = {"alice": hash_password("secret", b"salt")}
    assert asyncio.run(Logins(users).allow(basic("alice:secret")))
