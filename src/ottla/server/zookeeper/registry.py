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
        self._told: dict[int, bytes] | None = None
        self._done: tuple[int, bytes] | None = None
        self.wanted: tuple[int, bytes] | None = None
        self.is_stale = True

    def begin(self, listener: Listener) -> None:
        """A new session."""
        self._listener, self._told, self._done, self.is_stale = listener, None, None, True
        self.wanted = None

    async def settle(self, session: Session) -> None:
        if self.wanted is not None and self.wanted != self._done:
            await self._register(session, *self.wanted)
        if self.is_stale:
            await self._look(session)

    async def _register(self, session: Session, broker_id: int, data: bytes) -> None:
        """A znode of an earlier life of this broker is replaced: its session may take long to end."""
        path = self._paths.broker(broker_id)
        found = await session.get(path)
        make = protocol.create(path, data, self._acl, ephemeral=True)
        try:
            if found is None:
                await session.multi(make)
            elif found.owner == session.session_id:
                await session.multi(protocol.set_data(path, data, found.version))
            else:
                await session.multi(protocol.delete(path, found.version), make)
        except ZooKeeperError as error:
            if not {Code.BAD_VERSION, Code.NODE_EXISTS, Code.NO_NODE} & set(error.codes):
                raise
            await self._register(session, broker_id, data)
            return
        self._done, self.is_stale = (broker_id, data), True

    async def _look(self, session: Session) -> None:
        self.is_stale = False
        ids = [each for each in await session.children(self._paths.brokers) if each.isdigit()]
        nodes = await session.get_many([self._paths.broker(each) for each in ids]) if ids else []
        members = {int(each): node.data for each, node in zip(ids, nodes, strict=True) if node is not None}
        if members != self._told and self._listener is not None:
            self._told = members
            self._listener.on_members(members)
