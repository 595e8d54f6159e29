"""Who comes in: one-time tokens, passwords, Kafka users, an OpenID provider. And with which identity they ask."""

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from ottla.console import forms, sessions, words
from ottla.console.entrance import entered_page, login_page
from ottla.console.masking import Masks
from ottla.console.oidc import LoginFailed, Oidc, Provider
from ottla.console.sessions import Session, Sessions
from ottla.console.workspace import Workspace
from ottla.errors import OttlaError
from ottla.security import passwords

log = logging.getLogger(__name__)
WORKSPACES_MAX, IDLE_S = 50, 1800.0
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclass(slots=True)
class Config:
    """What the console was started with."""

    settings: dict[str, Any]
    port: int
    names: tuple[str, ...] = _LOCAL
    allow_changes: bool = False
    login: str = "token"  # token, basic, kafka, oidc
    oidc: Provider | None = None
    users: dict[str, str] = field(default_factory=dict)  # for basic: names and hashes
    masks: Masks = field(default_factory=Masks)
    tls: bool = False
    login_https: bool = False  # a proxy in front has TLS
    viewer: str = "local"
    metrics: tuple[str, ...] = ()  # pages that tell what the protocol does not
    registry: str = ""  # addresses of what else belongs to the cluster
    connect: str = ""
    spark: str = ""
    announce: Callable[[str], None] = lambda address: None  # a new address for another browser


class Doorway:
    """Sessions, and the workspace of each: viewers of one identity share theirs."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.sessions = Sessions()
        self.own = Workspace(config.settings, config.metrics)
        self._oidc = Oidc(config.oidc) if config.oidc is not None else None
        self._workspaces: dict[str, Workspace] = {}
        self._by_header: dict[str, str] = {}

    @property
    def cookie(self) -> str:
        return f"ottla-{self.config.port}"  # browsers do not tell ports apart

    async def close(self) -> None:
        for workspace in [self.own, *self._workspaces.values()]:
            await workspace.close()

    async def session(self, request: Request) -> Session | None:
        session = self.sessions.get(request.cookies.get(self.cookie))
        return session if session is not None else await self._by_authorization(request)

    async def _by_authorization(self, request: Request) -> Session | None:
        """`Authorization: Basic`, for programs; one session for all their requests."""
        header = request.headers.get("authorization", "")
        if self.config.login in ("token", "oidc") or not header.lower().startswith("basic "):
            return None
        digest = hashlib.sha256(header.encode()).hexdigest()
        if (known := self.sessions.get(self._by_header.get(digest))) is not None:
            return known
        try:
            name, _, password = base64.b64decode(header[6:], validate=True).decode().partition(":")
        except ValueError:  # not ASCII, not Base64, or not UTF-8
            return None
        opened = await self._log_in(name, password, _address(request))
        if isinstance(opened, str):
            return None
        if len(self._by_header) >= sessions.SESSIONS_MAX:
            self._by_header.clear()
        self._by_header[digest] = opened.id
        return opened

    async def login(self, request: Request) -> Response:
        if self.config.login == "token":
            return RedirectResponse("/", 303)
        if request.method == "GET":
            return HTMLResponse(login_page(self.config.login))
        origin = request.headers.get("origin")
        if origin not in (
            None,
            f"http://{request.headers.get('host')}",
            f"https://{request.headers.get('host')}",
        ):
            return PlainTextResponse("this login came from another site", 403)
        form = await forms.fields(request)
        opened = await self._log_in(form.get("name", ""), form.get("password", ""), _address(request))
        if isinstance(opened, str):
            return HTMLResponse(login_page(self.config.login, opened), 403)
        return self._welcome(request, RedirectResponse("/", 303), opened)

    async def _log_in(self, name: str, password: str, address: str) -> Session | str:
        """A session, or why not."""
        if not self.sessions.may_try(address):
            return "Too many wrong passwords. Wait a minute."
        if self.config.login == "basic":
            hashed = self.config.users.get(name, passwords.NOBODY)
            if await asyncio.to_thread(passwords.is_password, password, hashed):
                return self.sessions.open(name)
        elif name and self.config.login == "kafka":
            settings = {**self.config.settings, "sasl.username": name, "sasl.password": password}
            if (session := await self._open_as(name, settings)) is not None:
                return session
        self.sessions.on_failure(address)
        return "The name or the password is wrong."

    async def _open_as(
        self, name: str, settings: dict[str, Any], expires_s: float | None = None
    ) -> Session | None:
        """A session with an identity of its own, if the cluster lets it in."""
        workspace = Workspace(settings, self.config.metrics)
        try:
            await workspace.admin.describe_cluster()
        except OttlaError as error:
            await workspace.close()
            log.info("login of %s as a Kafka user failed: %s", name, error)
            return None
        session = self.sessions.open(name, settings, expires_s)
        await self._keep(session.id, workspace)
        return session

    async def begin_oidc(self, request: Request) -> Response:
        if self._oidc is None:
            return RedirectResponse("/login", 303)
        scheme = "https" if self.config.tls or self.config.login_https else "http"
        redirect = f"{scheme}://{request.headers['host']}/login/callback"
        try:
            address, state = await asyncio.to_thread(self._oidc.begin, redirect)
        except LoginFailed as error:
            return HTMLResponse(login_page(self.config.login, str(error)), 502)
        response = RedirectResponse(address, 303)
        # Lax: the browser comes back from another site.
        response.set_cookie(
            f"{self.cookie}-login",
            state,
            max_age=600,
            httponly=True,
            samesite="lax",
            secure=self._is_https(request),
        )
        return response

    async def finish_oidc(self, request: Request) -> Response:
        if self._oidc is None:
            return RedirectResponse("/login", 303)
        state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
        begun = request.cookies.get(f"{self.cookie}-login", "")
        trouble = request.query_params.get("error", "")
        if trouble or not state or not hmac.compare_digest(state.encode(), begun.encode()):
            said = (
                f"The provider said: {trouble[:200]}"
                if trouble
                else "This login was not begun in this browser."
            )
            return HTMLResponse(login_page(self.config.login, said), 403)
        try:
            token = await asyncio.to_thread(self._oidc.finish, state, code)
        except LoginFailed as error:
            return HTMLResponse(login_page(self.config.login, str(error)), 403)
        bearer = {"sasl.mechanism": "OAUTHBEARER", "ottla.sasl.oauthbearer.token": token.text}
        session = await self._open_as(token.name, {**self.config.settings, **bearer}, token.expires_s)
        if session is None:
            return HTMLResponse(login_page(self.config.login, "The cluster does not take this token."), 403)
        # A redirect would still count as coming from the other site, and the strict cookie would not be sent.
        response = self._welcome(request, HTMLResponse(entered_page()), session)
        response.delete_cookie(f"{self.cookie}-login")
        return response

    async def logout(self, request: Request) -> Response:
        session = await self.session(request)
        form = await forms.fields(request)
        if session is None or self.is_forged(request, session, form.get("csrf")):
            return PlainTextResponse("not from one of the console's own pages", 403)
        self.sessions.close(session)
        if (workspace := self._workspaces.pop(session.id, None)) is not None:
            await workspace.close()
        response = RedirectResponse("/login", 303)
        response.delete_cookie(self.cookie)
        return response

    def _welcome(self, request: Request, response: Response, session: Session) -> Response:
        response.set_cookie(
            self.cookie,
            session.id,
            httponly=True,
            samesite="strict",
            secure=self._is_https(request),
            path="/",
        )
        return response

    def _is_https(self, request: Request) -> bool:
        """Whether the browser came with TLS, the proxy's too, which says so: else it would drop a `Secure` cookie."""
        is_forwarded = request.headers.get("x-forwarded-proto", "").lower() == "https"
        return self.config.tls or (self.config.login_https and is_forwarded)

    def is_forged(self, request: Request, session: Session, token: str | None) -> bool:
        headers = request.headers
        return sessions.is_forged(
            session, token, headers.get("origin"), headers.get("host", ""), headers.get("sec-fetch-site")
        )

    async def workspace(self, session: Session) -> Workspace:
        if session.settings is None:
            return self.own
        workspace = self._workspaces.get(session.id)
        if workspace is None:
            workspace = Workspace(session.settings, self.config.metrics)
            await self._keep(session.id, workspace)
        workspace.used_at = time.monotonic()
        return workspace

    async def _keep(self, identity: str, workspace: Workspace) -> None:
        self._workspaces[identity] = workspace
        now = time.monotonic()
        idle = sorted(self._workspaces, key=lambda name: self._workspaces[name].used_at)
        for name in idle:
            other = self._workspaces[name]
            too_many = len(self._workspaces) > WORKSPACES_MAX
            if (
                other is not workspace
                and not other.sampler.watchers
                and (too_many or now - other.used_at > IDLE_S)
            ):
                await self._workspaces.pop(name).close()

    def redeem(self, request: Request, token: str) -> Response:
        session = self.sessions.redeem(token)
        if session is None:
            if self.sessions.get(request.cookies.get(self.cookie)) is not None:
                return RedirectResponse("/", 303)  # this browser has used the address before
            return self.refuse(request)
        self.config.announce(self.sessions.issue_token(self.config.viewer))
        rest = {name: value for name, value in request.query_params.items() if name != "token"}
        return self._welcome(request, RedirectResponse(words.address(request.url.path, rest), 303), session)

    def refuse(self, request: Request) -> Response:
        if self.config.login == "token":
            text = "This address needs the token that the console printed at its start. A token lets one browser in."
            return HTMLResponse(login_page("token", text), 403)
        if request.headers.get("accept") == "application/json" or "authorization" in request.headers:
            return PlainTextResponse("log in first", 401, {"www-authenticate": 'Basic realm="ottla"'})
        return RedirectResponse("/login", 303)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
