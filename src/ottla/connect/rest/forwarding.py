"""A worker that stands by: its REST calls go to the active one."""

import http.client
import json
import string
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ottla.connect.rest.intake import bounded_body
from ottla.connect.worker.refusals import Refusal
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
        try:
            body = await bounded_body(request)
        except Refusal as refusal:
            response = _json_response(refusal.code, {"error_code": refusal.code, "message": refusal.message})
        else:
            response = await run_in_threadpool(self._forwarded, request, body)
        await response(scope, receive, send)

    def _forwarded(self, request: Request, body: bytes) -> Response:
        if request.url.path == "/health":
            return _json_response(
                503, {"status": "starting", "message": "Worker stands by or is still starting up."}
            )
        try:
            url = self._active_url()
        except OttlaError as error:
            return _json_response(
                503, {"error_code": 503, "message": f"the group cannot be reached: {error}"}
            )
        # A call that has been forwarded once is not sent on: two workers could play it to each other.
        if url is None or request.headers.get("x-ottla-forwarded"):
            return _json_response(409, {"error_code": 409, "message": _NOBODY})
        headers = {"x-ottla-forwarded": "1"}
        if "content-type" in request.headers:  # the active worker takes JSON alone
            headers["Content-Type"] = request.headers["content-type"]
        asked = urllib.request.Request(
            url + _target(request.scope), body or None, headers, method=request.method
        )
        try:
            with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:
                return _passed_on(answer.status, answer)
        except urllib.error.HTTPError as error:
            return _passed_on(error.code, error)
        except (OSError, http.client.HTTPException) as error:
            return _json_response(
                500, {"error_code": 500, "message": f"IO Error trying to forward REST request: {error}"}
            )


def _target(scope: Any) -> str:
    """Path and query as the caller wrote them: a decoded path may hold spaces and question marks. Only what no address
    may hold is escaped here."""
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    query = scope.get("query_string") or b""
    return quote(path + (b"?" + query if query else b""), safe=string.punctuation)


def _passed_on(code: int, answer: Any) -> Response:
    headers = {"Location": answer.headers["Location"]} if answer.headers["Location"] else None
    return Response(answer.read(), code, headers, media_type=answer.headers["Content-Type"])


def _json_response(code: int, body: dict[str, Any]) -> Response:
    return Response(json.dumps(body).encode(), code, media_type="application/json")
