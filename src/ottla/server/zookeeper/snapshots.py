"""Snapshots of the metadata in ZooKeeper, in chunks, and the trimming of what they make superfluous."""

from ottla.server.zookeeper import protocol
from ottla.server.zookeeper.paths import Paths, pack_current, unpack_current
from ottla.server.zookeeper.protocol import Acl, Code, Part, ZooKeeperError
from ottla.server.zookeeper.session import Session

CHUNK_BYTES = 512 << 10
TRIM_AT_ONCE = 100


class Snapshots:
    """`keep_entries` before a snapshot stay, for readers that are only a little behind."""

    def __init__(self, paths: Paths, acl: Acl, keep_entries: int) -> None:
        self._paths, self._acl, self._keep_entries = paths, acl, keep_entries

    async def read(self, session: Session, newer_than: int) -> tuple[int, bytes] | None:
        """The position and the records of the current one, if it is beyond `newer_than`."""
        while True:
            current = await session.get(self._paths.current)
            if current is None:
                return None
            position, chunks = unpack_current(current.data)
            if position <= newer_than:
                return None
            nodes = [await session.get(self._paths.chunk(position, number)) for number in range(chunks)]
            if all(node is not None for node in nodes):
                return position, b"".join(node.data for node in nodes if node is not None)
            # It was replaced while we read: the next one is there already.

    async def write(self, session: Session, position: int, epoch: int, body: bytes) -> None:
        """Each step checks the epoch; only the last one makes it count."""
        guard = protocol.check(self._paths.epoch, epoch)
        await self._remove(session, position, guard)
        await session.multi(guard, protocol.create(self._paths.snapshot(position), b"", self._acl))
        chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)] or [b""]
        for number, chunk in enumerate(chunks):
            await session.multi(guard, protocol.create(self._paths.chunk(position, number), chunk, self._acl))
        await self._point_at(session, guard, pack_current(position, len(chunks)))
        await self._trim(session, guard, position)

    async def _point_at(self, session: Session, guard: Part, data: bytes) -> None:
        try:
            await session.multi(guard, protocol.set_data(self._paths.current, data))
        except ZooKeeperError as error:
            if Code.NO_NODE not in error.codes:
                raise
            await session.multi(guard, protocol.create(self._paths.current, data, self._acl))

    async def _trim(self, session: Session, guard: Part, position: int) -> None:
        """The last entry before the snapshot always stays: the next one checks that it is there."""
        keep = max(self._keep_entries, 1)
        entries = sorted(int(name) for name in await session.children(self._paths.log))
        doomed = [self._paths.entry(number) for number in entries if number < position - keep]
        for at in range(0, len(doomed), TRIM_AT_ONCE):
            await session.multi(guard, *map(protocol.delete, doomed[at : at + TRIM_AT_ONCE]))
        for name in await session.children(self._paths.snapshots):
            if int(name) != position:
                await self._remove(session, int(name), guard)

    async def _remove(self, session: Session, position: int, guard: Part) -> None:
        path = self._paths.snapshot(position)
        try:
            chunks = await session.children(path)
        except ZooKeeperError as error:
            if error.code == Code.NO_NODE:
                return
            raise
        parts = [protocol.delete(f"{path}/{name}") for name in chunks]
        await session.multi(guard, *parts, protocol.delete(path))
