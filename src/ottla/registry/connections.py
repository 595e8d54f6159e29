"""Connections that ask for nothing: uvicorn keeps them for ever, and refuses everybody when it has too many."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

PATIENCE_S = 30.0


class Impatient(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """Closes a connection that has neither finished a request nor waits for an answer since the last look at it."""

    patience_s = PATIENCE_S

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._seen: Any = None  # the request that was under way, or the last one
        self._watch()

    def _watch(self) -> None:
        self._look: asyncio.TimerHandle = self.loop.call_later(self.patience_s, self._on_look)

    def _on_look(self) -> None:
        request = self.cycle
        is_silent = request is None or request.response_complete or request.more_body
        if is_silent and request is self._seen:
            self.transport.abort()
            return
        self._seen = request
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)
