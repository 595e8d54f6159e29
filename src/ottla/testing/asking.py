"""Requests from inside: through the same handlers that serve clients, without a socket."""

import asyncio
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.context import Client, Context
from ottla.broker.routes import ROUTES
from ottla.broker.waits import Running
from ottla.wire.schema import Message

CLIENT_ID = "ottla-testing"


async def ask(broker: Broker, request: Message, version: int | None = None) -> Any:
    """On the broker's loop. The response, or what the handler raised."""
    route = ROUTES[request.API_KEY]
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def finished(response: Any, error: BaseException | None) -> None:
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(response)

    chosen = route.version_max if version is None else version
    context = Context(broker, Client("127.0.0.1", 0), CLIENT_ID, chosen, lambda: None)
    running = Running(route.handler(request, context), finished)  # type: ignore[arg-type]
    running.step()
    try:
        return await done
    except asyncio.CancelledError:
        running.cancel()
        raise
