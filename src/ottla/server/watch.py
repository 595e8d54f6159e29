"""Notices dead brokers before their sessions end.

The controller holds a connection to every broker, and every broker one to the controller. When it breaks and
connecting again is refused, the process is gone: others lead at once. That is safe even if it is not so: a
leader that lives on cannot change its ISR, and a controller that lives on is fenced by the next epoch.
Silence proves nothing and waits for the session.
"""

import asyncio
import logging
from collections.abc import Callable

from ottla.errors import OttlaError
from ottla.metadata.controller import Controller
from ottla.metadata.records import Endpoint

log = logging.getLogger("ottla.server")

CONNECT_S = 2.0
AGAIN_S = 0.1


class PeerWatch:
    def __init__(self, controller: Controller, endpoint_of: Callable[[int], Endpoint]) -> None:
        self._controller, self._endpoint_of = controller, endpoint_of
        self._watching: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def on_news(self) -> None:
        """The lease or the members have changed: starts and stops watching brokers accordingly."""
        if self._closed:
            return
        wanted = self._wanted()
        for broker_id in set(self._watching) - wanted:
            self._watching.pop(broker_id).cancel()
        for broker_id in wanted - set(self._watching):
            task = asyncio.get_running_loop().create_task(self._watch(broker_id))
            self._watching[broker_id] = task

    def close(self) -> None:
        self._closed = True
        for task in self._watching.values():
            task.cancel()
        self._watching = {}

    def _wanted(self) -> set[int]:
        controller = self._controller
        if controller.epoch is not None:
            return set(controller.members or ()) - {controller.broker_id}
        return {controller.holder} - {None, controller.broker_id}  # type: ignore[return-value]

    async def _watch(self, broker_id: int) -> None:
        was_gone = False
        while True:
            try:
                endpoint = self._endpoint_of(broker_id)
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            except ConnectionRefusedError:
                if not was_gone:
                    log.warning("broker %d refuses connections: it is lost", broker_id)
                was_gone = True
                self._on_gone(broker_id)  # on every look: the controller that must know may have changed
            except (OttlaError, OSError):
                pass  # not known yet, or silent
            else:
                if was_gone:
                    was_gone = False
                    self._controller.on_back(broker_id)
                try:
                    await reader.read()  # until the other end closes
                except OSError:
                    pass
                finally:
                    writer.close()
                continue
            await asyncio.sleep(AGAIN_S)

    def _on_gone(self, broker_id: int) -> None:
        controller = self._controller
        if controller.epoch is not None:
            controller.on_gone(broker_id)
        elif controller.holder == broker_id:
            controller.depose(controller.lease_epoch)
