"""The controller's lease: an ephemeral znode, and the version of the epoch's."""

import asyncio
import logging

from ottla.metadata.log import Listener
from ottla.server.zookeeper import protocol
from ottla.server.zookeeper.paths import Paths
from ottla.server.zookeeper.protocol import Acl, Code, ZooKeeperError
from ottla.server.zookeeper.session import Session

log = logging.getLogger("ottla.zookeeper")


class Lease:
    """Tells the listener who holds it. A holder without contact to ZooKeeper gives it up before its session ends."""

    def __init__(self, broker_id: int, paths: Paths, acl: Acl) -> None:
        self._broker_id, self._paths, self._acl = broker_id, paths, acl
        self._listener: Listener | None = None
        self._reported: tuple[int | None, int] | None = None
        self._ours: int | None = None  # the epoch that we hold
        self._claims = False
        self._over: int | None = None
        self.resigns = False
        self.is_stale = True

    def begin(self, listener: Listener) -> None:
        self._listener, self._reported, self.is_stale = listener, None, True
        self._claims, self.resigns, self._ours = False, False, None

    def claim(self, over: int | None) -> None:
        self._claims, self._over = True, over

    def holds(self, epoch: int) -> bool:
        return self._ours == epoch

    def forget(self) -> None:
        self._ours = self._reported = None

    def maybe_suspend(self, session: Session) -> None:
        """After two thirds of a session without a word from ZooKeeper somebody else may lead soon."""
        silent_s = asyncio.get_running_loop().time() - session.heard_at
        if self._ours is not None and silent_s * 1000 > session.timeout_ms * 2 / 3:
            log.warning("ZooKeeper is silent: the controller's lease is given up")
            epoch, self._ours, self.is_stale = self._ours, None, True
            self._tell(None, epoch)

    async def settle(self, session: Session) -> None:
        if self.resigns:
            await self._resign(session)
        if self.is_stale:
            await self._look(session)
        if self._claims and self._ours is None:
            await self._try(session)

    async def _look(self, session: Session) -> None:
        self.is_stale = False
        node, epoch_node = await session.get_many([self._paths.controller, self._paths.epoch])
        epoch = epoch_node.version if epoch_node is not None else 0
        if node is None:
            self._ours = None
            self._tell(None, epoch)
            return
        holder = int(node.data)
        if node.owner == session.session_id:
            self._ours = epoch
            self._claims = False
        elif holder == self._broker_id:
            # A session from before this broker's restart: it must not be taken for the current one.
            self._ours, self._claims, self._over = None, True, epoch
            return
        else:
            self._ours = None
        self._tell(holder, epoch)

    async def _try(self, session: Session) -> None:
        node, epoch_node = await session.get_many([self._paths.controller, self._paths.epoch])
        epoch = epoch_node.version if epoch_node is not None else 0
        parts = [protocol.set_data(self._paths.epoch, str(self._broker_id).encode(), epoch)]
        if node is not None:
            if self._over != epoch:
                self._claims = False
                return
            parts.append(protocol.delete(self._paths.controller))
        data = str(self._broker_id).encode()
        parts.append(protocol.create(self._paths.controller, data, self._acl, ephemeral=True))
        try:
            await session.multi(*parts)
        except ZooKeeperError as error:
            if not {Code.BAD_VERSION, Code.NODE_EXISTS, Code.NO_NODE} & set(error.codes):
                raise
        self._claims = False
        await self._look(session)

    async def _resign(self, session: Session) -> None:
        """A connection that breaks in here leaves `resigns` set: the next connection deletes the lease."""
        node = await session.get(self._paths.controller)
        if node is not None and node.owner == session.session_id:
            await session.multi(protocol.delete(self._paths.controller))
        # The controller that resigned waits to hear who leads, even when that was reported before.
        self._ours, self._reported, self.is_stale = None, None, True
        self.resigns = False

    def _tell(self, holder: int | None, epoch: int) -> None:
        if self._reported != (holder, epoch) and self._listener is not None:
            self._reported = holder, epoch
            self._listener.on_lease(holder, epoch)
