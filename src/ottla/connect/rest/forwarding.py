"""A worker that stands by: its REST calls go to the active one."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ottla.errors import OttlaError

_TIMEOUT_S = 60
_NOBODY = "Cannot complete request momentarily: no worker of the group is active yet"


class Switch:
    """An ASGI app: this worker's own while it is active, else one that forwards."""

    def __init__(self, active_url: Callable[[], str | None]) -> None:
        self._active_url = active_url
        self._own: Starlette | None = None

    def serve(self, own: Starlette | None) -> None:
        self._own = own

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        own = self._own
        if own is not None:
            await own(scope, receive, send)
            return
        request = Request(scope, receive)
        response = await run_in_threadpool(self._forwarded, request, await request.body())
        await response(scope, receive, send)

    def _forwarded(self, request: Request, body: bytes) -> Response:
        if request.url.path == "/health":
            return _told(503, {"status": "starting", "message": "Worker stands by or is still starting up."})
        try:
            url = self._active_url()
        except OttlaError as error:
            return _told(503, {"error_code": 503, "message": f"the group cannot be reached: {error}"})
        # A call that has been forwarded once is not sent on: two workers could play it to each other.
        if url is None or request.headers.get("x-ottla-forwarded"):
            return _told(409, {"error_code": 409, "message": _NOBODY})
        query = f"?{request.url.query}" if request.url.query else ""
        headers = {"Content-Type": "application/json", "x-ottla-forwarded": "1"}
        asked = urllib.request.Request(
            url + request.url.path + query, body or None, headers, method=request.method
        )
        try:
            with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:
                return _passed_on(answer.status, answer)
        except urllib.error.HTTPError as error:
            return _passed_on(error.code, error)
        except OSError as error:
            return _told(
                500, {"error_code": 500, "message": f"IO Error trying to forward REST request: {error}"}
            )


def _passed_on(code: int, answer: Any) -> Response:
    headers = {"Location": answer.headers["Location"]} if answer.headers["Location"] else None
    return Response(answer.read(), code, headers, media_type=answer.headers["Content-Type"])


def _told(code: int, body: dict[str, Any]) -> Response:
    return Response(json.dumps(body).encode(), code, media_type="application/json")
