"""Login at an OpenID provider: its token is the viewer's login at the cluster."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
import time
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ottla.console.oidc import PENDING_MAX, LoginFailed, Oidc, Provider
from ottla.testing import Broker
from tests.console.consoles import Client, Console, rows, until


class OpenId:
    """A provider that lets everybody in as alice, at another host name than the console."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.codes: dict[str, str] = {}  # code -> challenge
        self.audience, self.expires_s = "kafka", 600
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.answer(self)

            def do_POST(self) -> None:
                provider.exchange(self)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nobody reads it."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        path, query = urlsplit(handler.path).path, parse_qs(urlsplit(handler.path).query)
        if path == "/authorize":
            handler.send_response(302)
            handler.send_header("Location", self.authorize(query))
            handler.end_headers()
            return
        told = {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
            },
            "/keys": {"keys": [json.loads(ECAlgorithm.to_jwk(self.key.public_key())) | {"kid": "one"}]},
        }[path]
        self._send(handler, 200, told)

    def authorize(self, query: dict[str, list[str]]) -> str:
        """What the browser is sent back with."""
        assert query["response_type"] == ["code"] and query["code_challenge_method"] == ["S256"]
        assert query["client_id"] == ["console"]
        code = f"code-{len(self.codes)}"
        self.codes[code] = query["code_challenge"][0]
        return f"{query['redirect_uri'][0]}?{urlencode({'code': code, 'state': query['state'][0]})}"

    def exchange(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        form = parse_qs(handler.rfile.read(int(handler.headers["Content-Length"])).decode())
        challenge = self.codes.pop(form["code"][0], None)
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        known = base64.b64encode(b"console:se%2Fcret").decode()
        if challenge != base64.urlsafe_b64encode(digest).rstrip(b"=").decode():
            self._send(handler, 400, {"error": "invalid_grant"})
        elif handler.headers["Authorization"] != f"Basic {known}":
            self._send(handler, 401, {"error": "invalid_client"})
        else:
            self._send(handler, 200, {"access_token": self.token(), "expires_in": self.expires_s})

    def token(self) -> str:
        now_s = int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 600, "aud": self.audience}
        return jwt.encode(claims, self.key, "ES256", {"kid": "one"})

    def _send(self, handler: http.server.BaseHTTPRequestHandler, status: int, told: object) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(json.dumps(told).encode())


@pytest.fixture(scope="module")
def provider():
    one = OpenId()
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.fixture(scope="module")
def guarded(provider, tmp_path_factory):
    """A console of a cluster that takes the provider's tokens, and nothing else."""
    secret = tmp_path_factory.mktemp("oidc") / "secret"
    secret.write_text("se/cret\n")
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    options = ["--login", "oidc", "--oidc-issuer", provider.url, "--oidc-client-id", "console"]
    options += ["--oidc-client-secret", str(secret)]
    with (
        Broker(settings, security="SASL_PLAINTEXT") as broker,
        Console(broker.bootstrap, *options, settings={"security.protocol": "SASL_PLAINTEXT"}) as console,
    ):
        yield console


def begin(console: Console, provider: OpenId) -> tuple[Client, str]:
    """A browser, and the path that the provider sends it back to."""
    client = Client(console.base)
    sent = client.get("/login/oidc").headers["location"]
    back = provider.authorize(parse_qs(urlsplit(sent).query))
    assert back.startswith(f"{console.base}/login/callback?")
    return client, back.removeprefix(console.base)


def test_who_logs_in_at_the_provider_is_that_user_of_the_cluster(guarded, provider):
    assert Client(guarded.base).get("/topics").headers["location"] == "/login"
    client, back = begin(guarded, provider)
    assert client.get(back).status == 200
    assert rows(client.json("/topics"), "topics") == []
    assert "alice" in client.get("/").text
    again = client.get(back)  # a code is good once
    assert again.status == 403


def test_a_login_that_another_browser_began_is_refused(guarded, provider):
    _, back = begin(guarded, provider)
    stranger, _ = begin(guarded, provider)
    assert stranger.get(back).status == 403
    assert Client(guarded.base).get(back).status == 403
    assert Client(guarded.base).get("/login/callback?error=access_denied").status == 403


def test_a_token_that_the_cluster_does_not_take_lets_nobody_in(guarded, provider):
    provider.audience = "others"
    try:
        client, back = begin(guarded, provider)
        refused = client.get(back)
    finally:
        provider.audience = "kafka"
    assert refused.status == 403 and "does not take this token" in refused.text


def test_a_session_ends_with_its_token(guarded, provider):
    provider.expires_s = 3
    try:
        client, back = begin(guarded, provider)
        assert client.get(back).status == 200
    finally:
        provider.expires_s = 600
    until(lambda: client.get("/topics").headers.get("location") == "/login", "the session ends")


def test_a_browser_comes_back_from_the_provider_and_is_in(chromium, guarded):
    """The cookie is strict, and the provider another site: a plain redirect would come without it."""
    context = chromium.new_context()
    context.set_default_timeout(90_000)
    page = context.new_page()
    page.goto(guarded.base + "/topics")
    page.get_by_role("link", name="Log in").click()
    page.wait_for_url(guarded.base + "/")
    assert page.locator("h1").inner_text() == "Overview"
    assert page.locator(".who").inner_text().count("alice") == 1
    context.close()


def test_logins_that_were_begun_are_bounded_and_end(provider):
    now = [0.0]
    oidc = Oidc(Provider(provider.url, "console", "se/cret"), lambda: now[0])
    _, first = oidc.begin("http://here/login/callback")
    _, second = oidc.begin("http://here/login/callback")
    for _ in range(PENDING_MAX - 1):
        oidc.begin("http://here/login/callback")
    with pytest.raises(LoginFailed, match="not begun here"):
        oidc.finish(first, "code")
    now[0] = 601.0
    with pytest.raises(LoginFailed, match="took too long"):
        oidc.finish(second, "code")
    with pytest.raises(LoginFailed, match="does not answer"):
        Oidc(Provider("http://127.0.0.1:1", "console")).begin("http://here")
