"""Requests from inside: through the same handlers that serve clients, without a socket."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.broker.broker import Broker
from ottla.broker.requests.client import Client
from ottla.broker.routes import ROUTES
from ottla.broker.waits import Running
from ottla.wire.schema import Message

T = TypeVar("T")

CLIENT_ID = "ottla-testing"
ADMIN = "User:admin"  # a super user of brokers with an authorizer


async def ask(broker: Broker, request: Message, version: int | None = None) -> Any:
    """The response, or what the handler raised. As handlers are, it is driven by `on_loop`."""
    route = ROUTES[request.API_KEY]
    chosen = route.version_max if version is None else version
    context = broker.context(Client("127.0.0.1", 0, principal=ADMIN), CLIENT_ID, chosen)
    return await route.handler(request, context)


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """What awaits the broker's own waits, for asyncio to wait for."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def finished(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    running = Running(work, finished)
    running.step()
    try:
        return await done
    except asyncio.CancelledError:
        running.cancel()
        raise
