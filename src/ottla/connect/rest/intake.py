"""What is done with a request before it is handled: its address is made plain, its body read and checked."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.connect.worker.refusals import Refusal

_JSON = "application/json"
BODY_BYTES_MAX = 8 * 2**20  # a config must fit in a record, by default of 1 MiB


class WithoutLastSlash:
    """`/connectors/` is `/connectors`, as Java's worker has it. An escaped slash (%2F) belongs to a name and stays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        raw_path: bytes = scope.get("raw_path") or path.encode()
        if len(path) > 1 and raw_path.endswith(b"/"):
            scope = {**scope, "path": path[:-1], "raw_path": raw_path[:-1]}
        await self._app(scope, receive, send)


async def json_body(request: Request) -> bytes:
    """A browser lets any web page send a body of another type, or of none, to a worker at localhost. A body that is
    declared as JSON is sent only if the worker allows that page to, which it never does."""
    data = await bounded_body(request)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if data and request.method in ("POST", "PUT", "PATCH") and media_type != _JSON:
        raise Refusal(415, "HTTP 415 Unsupported Media Type")
    return data


async def bounded_body(request: Request) -> bytes:
    """What is declared to be too large is not read at all."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > BODY_BYTES_MAX:
        raise _too_large()
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_BYTES_MAX:
            raise _too_large()
    return bytes(data)


def _too_large() -> Refusal:
    return Refusal(413, f"HTTP 413 Request Entity Too Large: a body has at most {BODY_BYTES_MAX} bytes")
