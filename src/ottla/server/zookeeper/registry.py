"""Who is there: one ephemeral znode for each broker."""

from ottla.metadata.log import Listener
from ottla.server.zookeeper import protocol
from ottla.server.zookeeper.paths import Paths
from ottla.server.zookeeper.protocol import Acl, Code, ZooKeeperError
from ottla.server.zookeeper.session import Session


class Registry:
    """`wanted` is what this broker wants to be known as, for as long as its session lives."""

    def __init__(self, paths: Paths, acl: Acl) -> None:
        self._paths, self._acl = paths, acl
        self._listener: Listener | None = None
        self._reported: dict[int, bytes] | None = None
        self._done: tuple[int, bytes] | None = None
        self.wanted: tuple[int, bytes] | None = None
        self.is_stale = True

    def begin(self, listener: Listener) -> None:
        """A new session."""
        self._listener, self._reported, self._done, self.is_stale = listener, None, None, True
        self.wanted = None

    async def settle(self, session: Session) -> None:
        if self.wanted is not None and self.wanted != self._done:
            await self._register(session, *self.wanted)
        if self.is_stale:
            await self._look(session)

    async def _register(self, session: Session, broker_id: int, data: bytes) -> None:
        """A znode that this broker left before a restart is replaced: its session may take long to end."""
        path = self._paths.broker(broker_id)
        node = await session.get(path)
        make = protocol.create(path, data, self._acl, ephemeral=True)
        try:
            if node is None:
                await session.multi(make)
            elif node.owner == session.session_id:
                await session.multi(protocol.set_data(path, data, node.version))
            else:
                await session.multi(protocol.delete(path, node.version), make)
        except ZooKeeperError as error:
            if not {Code.BAD_VERSION, Code.NODE_EXISTS, Code.NO_NODE} & set(error.codes):
                raise
            await self._register(session, broker_id, data)
            return
        self._done, self.is_stale = (broker_id, data), True

    async def _look(self, session: Session) -> None:
        self.is_stale = False
        ids = [name for name in await session.children(self._paths.brokers) if name.isdecimal()]
        nodes = await session.get_many([self._paths.broker(broker_id) for broker_id in ids]) if ids else []
        members = {
            int(broker_id): node.data for broker_id, node in zip(ids, nodes, strict=True) if node is not None
        }
        if members != self._reported and self._listener is not None:
            self._reported = members
            self._listener.on_members(members)
