"""The REST API over HTTP: an ASGI application, and the server around it."""

import json
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ottla.errors import OttlaError
from ottla.registry import errors
from ottla.registry.answers import PlainText
from ottla.registry.errors import RegistryError
from ottla.registry.login import READ, Login
from ottla.registry.routes import Request, answer
from ottla.registry.store import TopicStore

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

log = logging.getLogger(__name__)
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
BODY_BYTES_MAX = 4 * 1024 * 1024
_READING = ("GET", "HEAD", "OPTIONS")


class Application:
    """Questions are answered at once from memory; what has to wait for the topic is answered on a thread."""

    def __init__(self, store: TopicStore, login: Login | None = None) -> None:
        self._store, self._login = store, login
        self._glance = _Glance(store)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            return
        try:
            http = HttpRequest(scope, receive)
            if self._login is not None:
                await self._admit(self._login, http)
            request = await _read(http)
            response = _respond(200, await self._answer(request))
        except ClientDisconnect:
            return
        except RegistryError as error:
            response = _refuse(error)
        except OttlaError as error:
            response = _refuse(errors.store_failed(str(error)))
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            response = _refuse(RegistryError(500, 500, "Internal Server Error"))
        await response(scope, receive, send)

    async def _admit(self, login: Login, http: HttpRequest) -> None:
        header = http.headers.get("authorization")
        may = login.remembered(header) or await run_in_threadpool(login.check, header)
        if may is None:
            raise RegistryError(401, 40101, "Unauthorized: a name and a password are needed (HTTP Basic)")
        if may == READ and http.method not in _READING and not _is_question(http):
            raise RegistryError(403, 40301, "User is denied: it may read and change nothing")

    async def _answer(self, request: Request) -> Any:
        if (
            request.method in ("GET", "HEAD") and "format" not in request.query
        ):  # other forms have to be computed
            with suppress(_MustWait):
                return answer(self._glance, request)
        return await run_in_threadpool(answer, self._store, request)


def _is_question(http: HttpRequest) -> bool:
    """A POST that looks a schema up, or compares one."""
    segments = [segment for segment in http.url.path.split("/") if segment]
    return http.method == "POST" and (segments[:1] == ["compatibility"] or segments[-1:] != ["versions"])


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


async def _read(request: HttpRequest) -> Request:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise RegistryError(413, 413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    try:
        content: Any = json.loads(body) if body else None
    except ValueError as error:
        raise RegistryError(400, 400, f"the body is not JSON: {error}") from error
    path = request.scope.get("raw_path", request.scope["path"].encode()).decode("latin-1").partition("?")[0]
    return Request(request.method, path, dict(request.query_params), content)


def _respond(status: int, content: Any) -> Response:
    if content is None:
        return Response(status_code=204)
    text = str(content) if isinstance(content, PlainText) else json.dumps(content, ensure_ascii=False)
    return Response(text.encode(), status, media_type=CONTENT_TYPE)


def _refuse(error: RegistryError) -> Response:
    response = _respond(error.status, {"error_code": error.code, "message": error.message})
    if error.status == 401:
        response.headers["www-authenticate"] = 'Basic realm="schema registry"'
    return response


class Server:
    """In a thread of its own; `address` once it has started."""

    def __init__(
        self,
        store: TopicStore,
        host: str = "127.0.0.1",
        port: int = 8081,
        login: Login | None = None,
        **tls: Any,
    ) -> None:
        settings = uvicorn.Config(
            Application(store, login),
            host,
            port,
            log_config=None,
            access_log=False,
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
