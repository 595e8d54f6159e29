"""In front of every page: the names that the console answers to, and the headers of every answer."""

from collections.abc import Sequence
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.console import sessions

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer, forms of our own pages would come with the origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Gate:
    """In front of everything: refuses names that are not ours, adds the headers of every answer."""

    def __init__(self, inner: ASGIApp, names: Sequence[str], port: int) -> None:
        self._inner, self._names, self._port = inner, names, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        if not sessions.is_ours(host, self._names, self._port):
            refusal = PlainTextResponse("this console does not have that name; --allow-host adds one", 421)
            await refusal(scope, receive, with_headers)
            return
        await self._inner(scope, receive, with_headers)
