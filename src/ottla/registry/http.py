"""The REST API over HTTP: an ASGI application, and the server around it.

Without a framework: a registry is started with a test's broker, and half of its start were imports.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import uvicorn

from ottla.errors import OttlaError
from ottla.frozen import frozen
from ottla.registry import errors
from ottla.registry.answers import PlainText
from ottla.registry.connections import Impatient
from ottla.registry.decisions import Registry
from ottla.registry.errors import RegistryError
from ottla.registry.questions import context_with_id, number_of
from ottla.registry.routes import Request, answer, resolved
from ottla.registry.state import State
from ottla.registry.store import TopicStore

if TYPE_CHECKING:
    from ottla.registry.login import Login
    from ottla.registry.rights import Rights

log = logging.getLogger(__name__)
CONTENT_TYPE = b"application/vnd.schemaregistry.v1+json"
BODY_BYTES_MAX = 4 * 1024 * 1024
CONNECTIONS_MAX = 1_000  # each may hold such a body
_WORKERS_MAX = 40
# As ASGI has them.
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
T = TypeVar("T")


@frozen
class Response:
    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Application:
    """Questions are answered at once from memory; what has to wait for the topic is answered on a thread."""

    def __init__(self, store: TopicStore, login: "Login | None" = None) -> None:
        self._store, self._login = store, login
        self._glance = _Glance(store)
        self._workers = ThreadPoolExecutor(_WORKERS_MAX, "registry-answer")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            # Resolved once: what is admitted is what is answered.
            request = resolved(self._glance, _request(scope))
            rights = None
            if self._login is not None:
                request, rights = await self._admitted(self._login, scope, request)
            request = replace(request, body=await _body(receive))
            response = _respond(200, await self._permitted(request, rights))
        except _ClientGone:
            return
        except RegistryError as error:
            response = _refuse(error)
        except OttlaError as error:
            response = _refuse(errors.store_failed(str(error)))
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            response = _refuse(RegistryError(500, 500, "Internal Server Error"))
        await _send(response, scope["method"], send)

    async def _admitted(self, login: "Login", scope: Scope, request: Request) -> "tuple[Request, Rights]":
        """The request that may be answered; raises if the user may not ask it."""
        from ottla.registry.rights import READING, wish_of

        header = next(
            (value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"), None
        )
        rights = login.remembered(header) or await self._on_a_thread(login.check, header)
        if rights is None:
            raise RegistryError(401, 40101, "Unauthorized: a name and a password are needed (HTTP Basic)")
        wish = wish_of(request.method, request.path)
        if not rights.allow_all(READING):
            request = replace(request, readable=frozenset())
        if rights.allow_all(wish):
            return request, rights
        subjects = [wish.subject] if wish.subject else []
        if wish.schema is not None:
            request, subjects = self._store.ask(partial(_with_subjects, request, wish.schema))
        if not await self._on_a_thread(rights.allow, wish, subjects):
            about = f"subject {wish.subject}" if wish.subject else "all subjects"
            raise errors.denied(wish.operation.name, about)
        return request, rights

    async def _permitted(self, request: Request, rights: "Rights | None") -> Any:
        """The answer. Where it needs schemas that others refer to, the user needs rights to their subjects too."""
        while True:
            try:
                return await self._answer(request)
            except errors.ReferencesMet as met:
                from ottla.registry.rights import READING

                assert rights is not None and request.readable is not None
                refused = await self._on_a_thread(rights.refused, READING, met.subjects)
                if refused is not None:
                    raise errors.denied(READING.operation.name, f"subject {refused}") from None
                request = replace(request, readable=request.readable | met.subjects)

    async def _answer(self, request: Request) -> Any:
        # Other forms have to be computed.
        if request.method in ("GET", "HEAD") and "format" not in request.query:
            with suppress(_MustWait):
                return answer(self._glance, request)
        return await self._on_a_thread(answer, self._store, request)

    async def _on_a_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work, *arguments)


def _with_subjects(request: Request, schema: str, registry: Registry) -> tuple[Request, list[str]]:
    """The request about the schema with this id or GUID, and the subjects that have that schema.

    Each context counts its ids from 1, so the request gets the context whose subjects these are: until it is answered,
    the default context may come to have the id too, and nobody asked for the rights to that schema.
    """
    state, number = registry.state, number_of(schema)
    if number is None:
        content = state.guids.get(schema)
        known = (
            []
            if content is None
            else [(place, state.known.get((place, content))) for place in state.contexts]
        )
        return request, _subjects_at([(place, at) for place, at in sorted(known) if at is not None], state)
    try:
        context = context_with_id(registry, request, schema)
    except RegistryError:
        return request, []
    query = {"subject": f":{context}:", **request.query}
    return replace(request, query=query), _subjects_at([(context, number)], state)


def _subjects_at(places: list[tuple[str, int]], state: State) -> list[str]:
    """`places` are contexts and ids."""
    return [
        version.subject
        for context, number in places
        for version in state.using(number, context, deleted=True)
    ]


class _MustWait(Exception):
    """The topic has to be read before this can be answered."""


class _Glance:
    """The store for those who cannot wait."""

    def __init__(self, store: TopicStore) -> None:
        self.ask = store.ask

    def catch_up(self) -> None:
        raise _MustWait

    def cluster_id(self) -> str:
        raise _MustWait

    def change(self, _: Any) -> Any:
        raise _MustWait


class _ClientGone(Exception):
    """Before it had sent all of its request."""


def _request(scope: Scope) -> Request:
    """Without its body. The path is still encoded: a subject may have a slash in it."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return Request(scope["method"], raw.decode("latin-1").partition("?")[0], dict(query))


async def _body(receive: Receive) -> Any:
    body, is_whole = bytearray(), False
    while not is_whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        body += message.get("body", b"")
        is_whole = not message.get("more_body", False)
        if len(body) > BODY_BYTES_MAX:
            raise RegistryError(413, 413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, 400, f"the body is not JSON: {error}") from error


def _respond(status: int, content: Any) -> Response:
    if content is None:
        return Response(204)
    text = str(content) if isinstance(content, PlainText) else json.dumps(content, ensure_ascii=False)
    # A message may quote half a surrogate pair from a request: it stands there as JSON escapes it.
    return Response(status, text.encode("utf-8", "backslashreplace"))


def _refuse(error: RegistryError) -> Response:
    response = _respond(error.status, {"error_code": error.code, "message": error.message})
    if error.status == 401:
        return replace(response, headers=((b"www-authenticate", b'Basic realm="schema registry"'),))
    return response


async def _send(response: Response, method: str, send: Send) -> None:
    headers = list(response.headers)
    if response.status != 204:
        headers += [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(response.body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else response.body})


class Server:
    """In a thread of its own; `address` once it has started."""

    def __init__(
        self,
        store: TopicStore,
        host: str = "127.0.0.1",
        port: int = 8081,
        login: "Login | None" = None,
        **tls: Any,
    ) -> None:
        settings = uvicorn.Config(
            Application(store, login),
            host,
            port,
            http=Impatient,
            log_config=None,
            access_log=False,
            limit_concurrency=CONNECTIONS_MAX,
            lifespan="off",
            timeout_graceful_shutdown=1,
            **tls,
        )
        self._server = uvicorn.Server(settings)
        self._scheme = "https" if settings.is_ssl else "http"
        self._thread = threading.Thread(target=self._server.run, name="registry-http", daemon=True)
        self._host = host
        self.address = ""

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise OSError(f"the registry cannot listen on {self._host}; is the port in use?")
            self._thread.join(0.005)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"{self._scheme}://{self._host}:{port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)

    def wait(self) -> None:
        self._thread.join()
