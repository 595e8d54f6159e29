"""Login at an OpenID provider: the authorization code flow with PKCE. The access token is the viewer's Kafka login.

The console does not judge the token: the cluster does, by OAUTHBEARER, and its ACLs are the viewer's rights.
"""

import base64
import hashlib
import json
import secrets
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ottla.console.schemas import basic
from ottla.errors import OttlaError

PENDING_MAX, PENDING_S = 1000, 600.0
TIMEOUT_S, ANSWER_MAX = 10.0, 1024 * 1024
EXPIRES_S = 300.0  # of a token whose provider does not say


class LoginFailed(OttlaError):
    """Why nobody was let in."""


@dataclass(frozen=True, slots=True)
class Provider:
    """As it was given on the command line."""

    issuer: str
    client_id: str
    client_secret: str = ""
    scope: str = "openid profile"


@dataclass(frozen=True, slots=True)
class Pending:
    """A login that was begun: only the browser that began it, and knows `state`, may end it."""

    verifier: str
    redirect: str
    began: float


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    name: str
    expires_s: float


class Oidc:
    def __init__(self, provider: Provider, clock: Callable[[], float] = time.monotonic) -> None:
        self._provider, self._clock = provider, clock
        self._pending: OrderedDict[str, Pending] = OrderedDict()
        self._endpoints: dict[str, Any] = {}

    def begin(self, redirect: str) -> tuple[str, str]:
        """Where to send the browser, and the state that it must bring back. May ask the provider: blocking."""
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        self._pending[state] = Pending(verifier, redirect, self._clock())
        while len(self._pending) > PENDING_MAX:
            self._pending.popitem(last=False)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._provider.client_id,
            "redirect_uri": redirect,
            "scope": self._provider.scope,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = self._endpoint("authorization_endpoint")
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", state

    def finish(self, state: str, code: str) -> Token:
        """The token for a code, once. Blocking."""
        pending = self._pending.pop(state, None)
        if pending is None or self._clock() - pending.began > PENDING_S:
            raise LoginFailed("This login was not begun here, or took too long. Begin again.")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect,
            "client_id": self._provider.client_id,
            "code_verifier": pending.verifier,
        }
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if self._provider.client_secret:  # RFC 6749, 2.3.1: both are encoded before they are joined
            login = quote(self._provider.client_id, safe=""), quote(self._provider.client_secret, safe="")
            headers["Authorization"] = basic(login)
        request = urllib.request.Request(
            self._endpoint("token_endpoint"), urlencode(form).encode(), headers, method="POST"
        )
        answer = _json(request)
        text = answer.get("access_token")
        if not isinstance(text, str) or not text:
            raise LoginFailed("The provider gave no access token.")
        expires = answer.get("expires_in")
        return Token(text, _name(text), float(expires) if isinstance(expires, (int, float)) else EXPIRES_S)

    def _endpoint(self, name: str) -> str:
        if not self._endpoints:
            issuer = self._provider.issuer.rstrip("/")
            configuration = _json(urllib.request.Request(f"{issuer}/.well-known/openid-configuration"))
            if str(configuration.get("issuer", "")).rstrip("/") != issuer:
                raise LoginFailed(f"The provider at {issuer} says that it is {configuration.get('issuer')}.")
            self._endpoints = configuration
        address = str(self._endpoints.get(name, ""))
        if urlsplit(address).scheme not in ("http", "https"):
            raise LoginFailed(f"The provider names no {name}.")
        return address


def _name(token: str) -> str:
    """For the change log and the page. Read, not checked: the broker does that before the name is used."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims.get("preferred_username") or claims.get("sub") or "unnamed")[:200]
    except (IndexError, ValueError, AttributeError):
        return "unnamed"


def _json(request: urllib.request.Request) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            document = json.loads(response.read(ANSWER_MAX))
    except urllib.error.HTTPError as error:
        raise LoginFailed(f"The provider refused: {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise LoginFailed(f"The provider does not answer: {getattr(error, 'reason', error)}") from None
    if not isinstance(document, dict):
        raise LoginFailed("The provider's answer makes no sense.")
    return document
