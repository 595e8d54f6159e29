"""The web application: pages in three formats, changes, the stream of events."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from ottla.client.errors import NotSupported
from ottla.console import audit, changes, export, forms, layout, live, router, searching, words
from ottla.console.connectors import Connect, ConnectRefused
from ottla.console.context import BadRequest, Context, NotFound
from ottla.console.doorway import Config, Doorway
from ottla.console.gate import Gate
from ottla.console.model import Messages, Notice, Notices, Page
from ottla.console.rendering import Blocks
from ottla.console.schemas import Schemas
from ottla.console.sessions import Session
from ottla.console.tail import Tail
from ottla.console.views.messages import messages as show_messages
from ottla.errors import NetworkException, OttlaError, ProtocolError, RequestTimedOut, UnknownServerError
from ottla.serialization.registry_client import RegistryRefused

log = logging.getLogger(__name__)
_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_IN_PARTS = ("elect-leaders", "truncate", "reset-offsets")  # one partition may fail while the next does not
_NO_ANSWER = (NetworkException, RequestTimedOut, UnknownServerError)


class Console:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.door = Doorway(config)
        self.change_log = audit.ChangeLog()
        self.searches = searching.Searches()
        self.streams = live.Streams()
        self.schemas = Schemas.at(config.registry) if config.registry else None
        self.connect = Connect.at(config.connect) if config.connect else None
        self._static = {path.name: _asset(path) for path in sorted(_STATIC.iterdir())}

    def application(self) -> ASGIApp:
        routes = [
            Route("/static/{name}", self.static),
            Route("/login", self.door.login, methods=["GET", "POST"]),
            Route("/login/oidc", self.door.begin_oidc),
            Route("/login/callback", self.door.finish_oidc),
            Route("/logout", self.door.logout, methods=["POST"]),
            Route("/events", self.events),
            Route("/events/{id}", self.follow, methods=["POST"]),
            Route("/do/{action}", self.change, methods=["POST"]),
            Route("/{path:path}", self.page),
        ]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            # The first sample connects and compiles codecs: it is done by the time somebody opens the address.
            is_shared = self.config.login in ("token", "basic")
            first = asyncio.ensure_future(self.door.own.sampler.fresh()) if is_shared else None
            yield
            if first is not None:
                first.cancel()
            await self.close()

        return Gate(
            Starlette(routes=routes, lifespan=lifespan, exception_handlers={BadRequest: _refused}),
            self.config.names,
            self.config.port,
        )

    async def close(self) -> None:
        await self.searches.close()
        await self.door.close()

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
            return self.door.redeem(request, token)
        session = await self.door.session(request)
        if session is None:
            return self.door.refuse(request)
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
        workspace = await self.door.workspace(session)
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
                    message
                    for block in page.blocks
                    if isinstance(block, Messages)
                    for message in block.messages
                ]
                disposition = {"content-disposition": 'attachment; filename="ottla.jsonl"'}
                return Response(
                    export.messages_jsonl(records), status, headers | disposition, "application/x-ndjson"
                )
        workspace = await self.door.workspace(session)
        notices, session.notices = session.notices, []
        frame = layout.Frame(
            address,
            session.csrf,
            session.viewer,
            workspace.settings.get("bootstrap.servers", ""),
            self.config.allow_changes,
            notices,
            self.config.login != "token",
            frozenset() if workspace.has_homecare else frozenset({"homecare"}),
        )
        return HTMLResponse(layout.document(page, frame), status, headers)

    # -- changes ---------------------------------------------------------------------------------------

    async def change(self, request: Request) -> Response:
        session = await self.door.session(request)
        if session is None:
            return self.door.refuse(request)
        form = await forms.fields(request)
        if self.door.is_forged(request, session, form.get("csrf")):
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
            session.notices.append(Notice("bad", failure(name, error)))
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
        session = await self.door.session(request)
        if session is None:
            return self.door.refuse(request)
        workspace = await self.door.workspace(session)

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
        session = await self.door.session(request)
        if session is None or self.door.is_forged(request, session, request.headers.get("x-csrf")):
            return PlainTextResponse("not from one of the console's own pages", 403)
        stream = self.streams.get(request.path_params["id"], session.id)
        if stream is None:
            return PlainTextResponse("there is no such stream", 404)
        pages = (await forms.body(request)).decode(errors="replace").split("\n")
        stream.follow([forms.local(page) for page in pages if page])
        return Response(status_code=204)


async def _refused(_: Request, error: Exception) -> Response:
    """What a form sent is beyond a bound: nothing is done with it."""
    return PlainTextResponse(str(error), 400)


def failure(action: str, error: Exception) -> str:
    """What is known of a change that failed. An answer that got lost may have been a good one."""
    if (
        isinstance(error, BadRequest) and action != "elect-leaders"
    ):  # its outcomes are judged after the election
        known = "Nothing was changed"
    elif not _is_answer(error):
        known = "It is not known what was changed"
    elif action in _IN_PARTS:
        known = "Not everything was changed"
    else:
        known = "The change was refused"
    return f"{known}: {error}"


def _is_answer(error: Exception) -> bool:
    if isinstance(error, RegistryRefused | ConnectRefused):
        return 0 < error.status < 500
    return isinstance(error, BadRequest | ProtocolError | NotSupported) and not isinstance(error, _NO_ANSWER)


def _trouble(title: str, text: str) -> Page:
    return Page(title, "", blocks=[Notices("trouble", [Notice("bad", text)])], live=False)


def _asset(path: Path) -> tuple[bytes, str, str]:
    data = path.read_bytes()
    return data, _TYPES[path.suffix], f'"{hashlib.sha256(data).hexdigest()[:16]}"'
