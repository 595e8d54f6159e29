"""The web application: who may come in, pages in three formats, changes, the stream of events."""

import asyncio
import base64
import binascii
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from ottla.console import audit, changes, export, forms, layout, live, router, searching, sessions, words
from ottla.console.connectors import Connect
from ottla.console.context import BadRequest, Context, NotFound
from ottla.console.entrance import login_page
from ottla.console.gate import Gate
from ottla.console.masking import Masks
from ottla.console.model import Messages, Notice, Notices, Page
from ottla.console.rendering import Blocks
from ottla.console.schemas import Schemas
from ottla.console.sessions import Session, Sessions
from ottla.console.tail import Tail
from ottla.console.views.messages import messages as show_messages
from ottla.console.workspace import Workspace
from ottla.errors import OttlaError
from ottla.security import passwords

log = logging.getLogger(__name__)
WORKSPACES_MAX, IDLE_S = 50, 1800.0
_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(slots=True)
class Config:
    """What the console was started with."""

    settings: dict[str, Any]
    port: int
    names: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    allow_changes: bool = False
    login: str = "token"  # token, basic, kafka
    users: dict[str, str] = field(default_factory=dict)  # for basic: names and hashes
    masks: Masks = field(default_factory=Masks)
    tls: bool = False
    viewer: str = "local"
    metrics: tuple[str, ...] = ()  # pages that tell what the protocol does not
    registry: str = ""  # addresses of what else belongs to the cluster
    connect: str = ""
    spark: str = ""
    announce: Callable[[str], None] = lambda address: None  # a new address for another browser


class Console:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.sessions = Sessions()
        self.change_log = audit.ChangeLog()
        self.searches = searching.Searches()
        self.streams = live.Streams()
        self.schemas = Schemas.at(config.registry) if config.registry else None
        self.connect = Connect.at(config.connect) if config.connect else None
        self._own = Workspace(config.settings, config.metrics)
        self._workspaces: dict[str, Workspace] = {}
        self._static = {path.name: _asset(path) for path in sorted(_STATIC.iterdir())}
        self._by_header: dict[str, str] = {}

    @property
    def cookie(self) -> str:
        return f"ottla-{self.config.port}"  # browsers do not tell ports apart

    def application(self) -> ASGIApp:
        routes = [
            Route("/static/{name}", self.static),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/events", self.events),
            Route("/events/{id}", self.follow, methods=["POST"]),
            Route("/do/{action}", self.change, methods=["POST"]),
            Route("/{path:path}", self.page),
        ]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            # The first sample connects and compiles codecs: it is done by the time somebody opens the address.
            first = asyncio.ensure_future(self._own.sampler.fresh()) if self.config.login != "kafka" else None
            yield
            if first is not None:
                first.cancel()
            await self.close()

        return Gate(Starlette(routes=routes, lifespan=lifespan), self.config.names, self.config.port)

    async def close(self) -> None:
        await self.searches.close()
        for workspace in [self._own, *self._workspaces.values()]:
            await workspace.close()

    # -- who -------------------------------------------------------------------------------------------

    async def session(self, request: Request) -> Session | None:
        found = self.sessions.get(request.cookies.get(self.cookie))
        return found if found is not None else await self._by_authorization(request)

    async def _by_authorization(self, request: Request) -> Session | None:
        """`Authorization: Basic`, for programs; one session for all their requests."""
        header = request.headers.get("authorization", "")
        if self.config.login == "token" or not header.lower().startswith("basic "):
            return None
        digest = hashlib.sha256(header.encode()).hexdigest()
        if (known := self.sessions.get(self._by_header.get(digest))) is not None:
            return known
        try:
            name, _, password = base64.b64decode(header[6:], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
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
        return self._welcome(RedirectResponse("/", 303), opened)

    async def _log_in(self, name: str, password: str, address: str) -> Session | str:
        """A session, or why not."""
        if not self.sessions.may_try(address):
            return "Too many wrong passwords. Wait a minute."
        if self.config.login == "basic":
            hashed = self.config.users.get(name, passwords.NOBODY)
            if await asyncio.to_thread(passwords.is_password, password, hashed):
                return self.sessions.open(name)
        elif name:
            settings = {**self.config.settings, "sasl.username": name, "sasl.password": password}
            workspace = Workspace(settings, self.config.metrics)
            try:
                await workspace.admin.describe_cluster()
            except OttlaError as error:
                await workspace.close()
                log.info("login of %s as a Kafka user failed: %s", name, error)
            else:
                session = self.sessions.open(name, settings)
                await self._keep(session.id, workspace)
                return session
        self.sessions.on_failure(address)
        return "The name or the password is wrong."

    async def logout(self, request: Request) -> Response:
        session = await self.session(request)
        form = await forms.fields(request)
        if session is None or self._is_forged(request, session, form.get("csrf")):
            return PlainTextResponse("not from one of the console's own pages", 403)
        self.sessions.close(session)
        if (workspace := self._workspaces.pop(session.id, None)) is not None:
            await workspace.close()
        response = RedirectResponse("/login", 303)
        response.delete_cookie(self.cookie)
        return response

    def _welcome(self, response: Response, session: Session) -> Response:
        response.set_cookie(
            self.cookie, session.id, httponly=True, samesite="strict", secure=self.config.tls, path="/"
        )
        return response

    def _is_forged(self, request: Request, session: Session, token: str | None) -> bool:
        headers = request.headers
        return sessions.is_forged(
            session, token, headers.get("origin"), headers.get("host", ""), headers.get("sec-fetch-site")
        )

    async def workspace(self, session: Session) -> Workspace:
        if session.settings is None:
            return self._own
        workspace = self._workspaces.get(session.id)
        if workspace is None:
            workspace = Workspace(session.settings, self.config.metrics)
            await self._keep(session.id, workspace)
        workspace.used_at = time.monotonic()
        return workspace

    async def _keep(self, identity: str, workspace: Workspace) -> None:
        self._workspaces[identity] = workspace
        now = time.monotonic()
        idle = sorted(self._workspaces, key=lambda each: self._workspaces[each].used_at)
        for name in idle:
            each = self._workspaces[name]
            too_many = len(self._workspaces) > WORKSPACES_MAX
            if (
                each is not workspace
                and not each.sampler.watchers
                and (too_many or now - each.used_at > IDLE_S)
            ):
                await self._workspaces.pop(name).close()

    # -- pages -----------------------------------------------------------------------------------------

    async def static(self, request: Request) -> Response:
        asset = self._static.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("there is no such file", 404)
        data, kind, tag = asset
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    async def page(self, request: Request) -> Response:
        if (token := request.query_params.get("token")) is not None and self.config.login == "token":
            return self._redeem(request, token)
        session = await self.session(request)
        if session is None:
            return self._refuse(request)
        here = request.scope["raw_path"].decode("ascii", "replace").partition("?")[0]
        query = request.scope["query_string"].decode("ascii", "replace")
        address = f"{here}?{query}" if query else here
        status, page = await self._answer(session, address)
        return await self._rendered(request, session, address, page, status)

    async def _answer(self, session: Session, address: str) -> tuple[int, Page]:
        """Whatever goes wrong is a page, too."""
        try:
            return 200, await self.view(session, address)
        except NotFound as error:
            return 404, _trouble("Not here", str(error))
        except BadRequest as error:
            return 400, _trouble("That does not work", str(error))
        except OttlaError as error:
            return 502, _trouble("The cluster refused", str(error))

    async def context(self, session: Session, address: str) -> tuple[router.View, Context]:
        path, query = layout.split(address)
        view, names = router.find(path)
        workspace = await self.workspace(session)
        return view, Context(
            workspace, names, query, session.viewer, self.config.allow_changes, self.config.masks, self
        )

    async def view(self, session: Session, address: str) -> Page:
        view, context = await self.context(session, address)
        return await view(context)

    async def _rendered(
        self, request: Request, session: Session, address: str, page: Page, status: int
    ) -> Response:
        wanted = request.query_params.get("format") or (
            "json" if request.headers.get("accept") == "application/json" else "html"
        )
        headers = {"cache-control": "no-store"}
        match wanted:
            case "json":
                return Response(export.to_json(page), status, headers, "application/json")
            case "csv":
                disposition = {"content-disposition": 'attachment; filename="ottla.csv"'}
                return Response(
                    export.to_csv(page, request.query_params.get("table", "")),
                    status,
                    headers | disposition,
                    "text/csv",
                )
            case "jsonl":
                records = [
                    each for block in page.blocks if isinstance(block, Messages) for each in block.messages
                ]
                disposition = {"content-disposition": 'attachment; filename="ottla.jsonl"'}
                return Response(
                    export.messages_jsonl(records), status, headers | disposition, "application/x-ndjson"
                )
        workspace = await self.workspace(session)
        notices, session.notices = session.notices, []
        frame = layout.Frame(
            address,
            session.csrf,
            session.viewer,
            workspace.settings.get("bootstrap.servers", ""),
            self.config.allow_changes,
            notices,
            self.config.login != "token",
        )
        return HTMLResponse(layout.document(page, frame), status, headers)

    def _redeem(self, request: Request, token: str) -> Response:
        session = self.sessions.redeem(token)
        if session is None:
            if self.sessions.get(request.cookies.get(self.cookie)) is not None:
                return RedirectResponse("/", 303)  # this browser has used the address before
            return self._refuse(request)
        self.config.announce(self.sessions.issue_token(self.config.viewer))
        rest = {name: value for name, value in request.query_params.items() if name != "token"}
        return self._welcome(RedirectResponse(words.address(request.url.path, rest), 303), session)

    def _refuse(self, request: Request) -> Response:
        if self.config.login == "token":
            text = "This address needs the token that the console printed at its start. A token lets one browser in."
            return HTMLResponse(login_page("token", text), 403)
        if request.headers.get("accept") == "application/json" or "authorization" in request.headers:
            return PlainTextResponse("log in first", 401, {"www-authenticate": 'Basic realm="ottla"'})
        return RedirectResponse("/login", 303)

    # -- changes ---------------------------------------------------------------------------------------

    async def change(self, request: Request) -> Response:
        session = await self.session(request)
        if session is None:
            return self._refuse(request)
        form = await forms.fields(request)
        if self._is_forged(request, session, form.get("csrf")):
            return PlainTextResponse("not from one of the console's own pages", 403)
        back = forms.local(form.get("back", "/"))
        name = request.path_params["action"]
        if name == "stop-search":
            return await self._stop_search(session, form, back)
        if name not in changes.ACTIONS:
            return PlainTextResponse("there is no such change", 404)
        if not self.config.allow_changes:
            return PlainTextResponse("this console only reads; start it with --allow-changes", 403)
        goto = await self._carry_out(session, name, form)
        return RedirectResponse(forms.local(goto) if goto else back, 303)

    async def _carry_out(self, session: Session, name: str, form: dict[str, str]) -> str | None:
        _, context = await self.context(session, "/")
        what = changes.told_of(name, form)
        try:
            outcome = await changes.ACTIONS[name](context, form)
        except (BadRequest, OttlaError) as error:
            self.change_log.note(session.viewer, name, what, str(error))
            session.notices.append(Notice("bad", f"Nothing was changed: {error}"))
            return None
        self.change_log.note(session.viewer, name, what, "done")
        session.notices.append(Notice("good", outcome.text))
        await context.workspace.sampler.fresh(0)  # the next page shows what was changed
        return outcome.goto

    async def _stop_search(self, session: Session, form: dict[str, str], back: str) -> Response:
        if (job := self.searches.find(session.viewer, form.get("search", ""))) is not None:
            job.stop()
        return RedirectResponse(back, 303)

    # -- live ------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        session = await self.session(request)
        if session is None:
            return self._refuse(request)
        workspace = await self.workspace(session)

        async def page_of(address: str) -> tuple[Page, Blocks]:
            path, query = layout.split(address)
            sort = lambda key: words.address(path, {**query, "sort": key, "page": ""})  # noqa: E731
            return await self.view(session, address), Blocks(session.csrf, address, sort)

        def tail_of(address: str) -> Tail | None:
            path, query = layout.split(address)
            try:
                view, names = router.find(path)
            except NotFound:
                return None
            wanted = view is show_messages and query.get("live") == "1"
            return Tail(workspace, names[0], query, self.config.masks, self.schemas) if wanted else None

        stream = live.Stream(session.id, workspace.sampler, page_of, tail_of)
        if not self.streams.open(stream):
            return PlainTextResponse("too many browsers watch this console", 503)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self.streams.events(stream), media_type="text/event-stream", headers=headers)

    async def follow(self, request: Request) -> Response:
        session = await self.session(request)
        if session is None or self._is_forged(request, session, request.headers.get("x-csrf")):
            return PlainTextResponse("not from one of the console's own pages", 403)
        stream = self.streams.get(request.path_params["id"], session.id)
        if stream is None:
            return PlainTextResponse("there is no such stream", 404)
        pages = (await forms.body(request)).decode(errors="replace").split("\n")
        stream.follow([forms.local(page) for page in pages if page])
        return Response(status_code=204)


def _trouble(title: str, text: str) -> Page:
    return Page(title, "", blocks=[Notices("trouble", [Notice("bad", text)])], live=False)


def _asset(path: Path) -> tuple[bytes, str, str]:
    data = path.read_bytes()
    return data, _TYPES[path.suffix], f'"{hashlib.sha256(data).hexdigest()[:16]}"'


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
