"""The metadata log in ZooKeeper. Entry i is a znode of that number.

It is created in one step that also checks the controller epoch and that entry i-1 is there: creation alone
would let in a controller that was deposed. A lease is an ephemeral znode and a new version of the epoch's.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence

from ottla.config.settings import Config
from ottla.metadata import codec
from ottla.metadata.log import (
    ENTRY_MAX_BYTES,
    AppendFailed,
    Deposed,
    Done,
    Listener,
    Outrun,
    TooLarge,
    Unavailable,
)
from ottla.metadata.records import Record
from ottla.server.zookeeper import protocol, security
from ottla.server.zookeeper.lease import Lease
from ottla.server.zookeeper.paths import Paths, pack_entry, parse_connect, timeout_of, unpack_entry
from ottla.server.zookeeper.protocol import Acl, Code, Disconnected, ZooKeeperError
from ottla.server.zookeeper.registry import Registry
from ottla.server.zookeeper.session import Options, Session
from ottla.server.zookeeper.snapshots import Snapshots

log = logging.getLogger("ottla.zookeeper")

FEW, MANY = 4, 100  # entries read at once
RETRY_S = 0.2
KEEP_ENTRIES = 1000


class ZooKeeperLog:
    """A MetadataLog in ZooKeeper. While it is connected, one task reads new entries and appends those that wait."""

    def __init__(
        self,
        broker_id: int,
        options: Options,
        root: str = "/ottla",
        *,
        acl: Acl | None = None,
        keep_entries: int = KEEP_ENTRIES,
    ) -> None:
        self._options, self._paths, self._acl = options, Paths(root), acl or Acl()
        self._snapshots = Snapshots(self._paths, self._acl, keep_entries)
        self._lease = Lease(broker_id, self._paths, self._acl)
        self._registry = Registry(self._paths, self._acl)
        self._session: Session | None = None
        self._listener: Listener | None = None
        self._position = 0
        self._wants_snapshot = True
        self._prepared = False
        self._settling = False
        self._news = asyncio.Event()
        self._catching_up: list[Callable[[], None]] = []
        self._follower: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, config: Config) -> "ZooKeeperLog":
        hosts, root = parse_connect(config.zookeeper_connect)
        options = Options(hosts, timeout_of(config), security.credentials(config), security.tls(config))
        return cls(config.node_id, options, root, acl=security.acl(config))

    # -- the port --------------------------------------------------------------------------------

    def open(self, listener: Listener, position: int = 0) -> None:
        self._listener, self._position, self._wants_snapshot = listener, position, True
        self._lease.begin(listener)
        self._registry.begin(listener)
        if self._session is not None:
            self._session.abandon()
        self._prepared = False
        self._session = Session(
            self._options,
            on_connected=self._on_connected,
            on_event=self._on_event,
            on_expired=self._on_expired,
        )
        if self._follower is not None:
            self._follower.cancel()
        self._follower = asyncio.get_running_loop().create_task(self._follow(self._session))

    def register(self, broker_id: int, registration: bytes) -> None:
        self._registry.wanted = broker_id, registration
        self._news.set()

    def claim(self, broker_id: int, over: int | None = None) -> None:
        self._lease.claim(over)
        self._news.set()

    def resign(self) -> None:
        self._lease.resigns = True
        self._news.set()

    def append(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        body = codec.encode(records)
        if len(body) > ENTRY_MAX_BYTES:
            done(TooLarge(f"{len(body)} bytes of records are more than {ENTRY_MAX_BYTES}"))
            return
        self._begin(self._append(position, epoch, body, records), done)

    def snapshot(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        self._begin(self._snapshot(position, epoch, codec.encode(records)), done)

    def catch_up(self, done: Callable[[], None]) -> None:
        if self._session is None or not self._session.is_connected:
            done()
            return
        self._catching_up.append(done)
        self._news.set()

    def close(self) -> None:
        self._listener = None
        if self._follower is not None:
            self._follower.cancel()
        for task in self._tasks:
            task.cancel()
        if self._session is not None:
            self._session.close()
            self._session = None

    def abandon(self) -> None:
        """As if the process had died."""
        if self._session is not None:
            self._session.abandon()
            self._session = None
        self.close()

    @property
    def is_quiet(self) -> bool:
        """Connected, and nothing is known that is not done."""
        return (
            self._session is not None
            and self._session.is_connected
            and self._prepared
            and not self._settling
            and not self._news.is_set()
        )

    # -- what the session tells ------------------------------------------------------------------

    def _on_connected(self) -> None:
        self._prepared = False
        self._news.set()

    def _on_event(self, path: str) -> None:
        if path == self._paths.controller:
            self._lease.is_stale = True
        elif path.startswith(self._paths.brokers):
            self._registry.is_stale = True
        elif not path.startswith(self._paths.log):
            return
        self._news.set()

    def _on_expired(self) -> None:
        if self._listener is not None:
            self._lease.forget()
            self._listener.on_session_lost()

    # -- following -------------------------------------------------------------------------------

    async def _follow(self, session: Session) -> None:
        while self._session is session:
            try:
                async with asyncio.timeout(session.timeout_ms / 6000):
                    await self._news.wait()
            except TimeoutError:
                self._lease.maybe_suspend(session)
                continue
            self._news.clear()
            self._settling = True
            try:
                await self._settle(session)
            except Disconnected:
                self._caught_up()  # the next connection brings us back here
            except ZooKeeperError as error:
                log.warning("%s", error)
                self._news.set()
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("following the metadata log failed")
                self._prepared = False
                self._news.set()
                await asyncio.sleep(RETRY_S)
            finally:
                self._settling = False

    async def _settle(self, session: Session) -> None:
        """Does everything that is due. Entries come first: a listener knows them before it learns of the lease."""
        if not self._prepared:
            await self._prepare(session)
        if self._catching_up:
            await session.sync(self._paths.log)
        waiting, self._catching_up = self._catching_up, []
        try:
            await self._read(session)
        finally:
            for done in waiting:
                done()
        await self._registry.settle(session)
        await self._lease.settle(session)

    async def _prepare(self, session: Session) -> None:
        await self._make_folders(session)
        await session.call(protocol.add_watch(self._paths.root))
        await session.sync(self._paths.log)
        self._lease.is_stale = self._registry.is_stale = True
        self._prepared = True

    async def _make_folders(self, session: Session) -> None:
        for path in self._paths.folders():
            try:
                await session.call(protocol.create(path, b"", self._acl))
            except ZooKeeperError as error:
                if error.code != Code.NODE_EXISTS:
                    raise

    async def _read(self, session: Session) -> None:
        if self._wants_snapshot:
            await self._load_snapshot(session)
            self._wants_snapshot = False
        count = FEW
        while True:
            first = self._position
            nodes = await session.get_many([self._paths.entry(first + i) for i in range(count)])
            for i, node in enumerate(nodes):
                if node is None:
                    break
                self._deliver(first + i, codec.decode(unpack_entry(node.data)[2]))
            else:
                count = MANY
                continue
            if nodes[0] is not None or not await self._load_snapshot(session):
                return

    async def _load_snapshot(self, session: Session) -> bool:
        """For a reader whose next entry was trimmed, or who begins; whether there was a newer one."""
        snapshot = await self._snapshots.read(session, newer_than=self._position)
        if snapshot is None:
            return False
        position, body = snapshot
        if position <= self._position or self._listener is None:
            return False
        self._position = position
        self._listener.on_snapshot(position, codec.decode(body))
        return True

    def _deliver(self, position: int, records: Sequence[Record]) -> None:
        """Delivers an entry once, although our own entries also come back through the reads that follow the log."""
        if position != self._position or self._listener is None:
            return
        self._position += 1
        try:
            self._listener.on_entry(position, records)
        except Exception:
            log.exception("entry %d was applied, but somebody could not cope with it", position)

    def _caught_up(self) -> None:
        waiting, self._catching_up = self._catching_up, []
        for done in waiting:
            done()

    # -- writing ---------------------------------------------------------------------------------

    def _begin(self, writing: Coroutine[None, None, AppendFailed | None], done: Done) -> None:
        async def run() -> None:
            outcome: AppendFailed | None
            try:
                outcome = await writing
            except ZooKeeperError as error:
                outcome = Unavailable(str(error))
            done(outcome)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _append(
        self, position: int, epoch: int, body: bytes, records: Sequence[Record]
    ) -> AppendFailed | None:
        session = self._session
        if session is None or not self._lease.holds(epoch):
            return Deposed(f"epoch {epoch} is not ours")
        if position != self._position:
            return Outrun(f"the log is at {self._position}, not {position}")
        entry = pack_entry(epoch, os.urandom(8), body)
        parts = [protocol.check(self._paths.epoch, epoch)]
        if position:
            parts.append(protocol.check(self._paths.entry(position - 1), 0))
        parts.append(protocol.create(self._paths.entry(position), entry, self._acl))
        deadline = asyncio.get_running_loop().time() + session.timeout_ms * 2 / 3000
        while True:
            try:
                await session.multi(*parts)
            except Disconnected:
                if self._session is not session or asyncio.get_running_loop().time() > deadline:
                    return Unavailable("ZooKeeper cannot be reached")
                await asyncio.sleep(0.02)  # the same entry again: should it be there, it is found out
                continue
            except ZooKeeperError as error:
                failed = await self._why_refused(session, error, position, entry)
                if failed is not None:
                    return failed
            self._deliver(position, records)
            return None

    async def _why_refused(
        self, session: Session, error: ZooKeeperError, position: int, entry: bytes
    ) -> AppendFailed | None:
        """None when the entry is there after all: an earlier try got through."""
        if error.codes[0] == Code.BAD_VERSION:
            self._lease.is_stale = True
            self._news.set()
            return Deposed("the controller epoch has moved on")
        try:
            await session.sync(self._paths.log)
            node = await session.get(self._paths.entry(position))
            if node is not None and node.data == entry:
                return None
            await self._read(session)
        except Disconnected:
            return Unavailable("ZooKeeper cannot be reached")
        return Outrun(f"entry {position} is taken or not due: {error}")

    async def _snapshot(self, position: int, epoch: int, body: bytes) -> AppendFailed | None:
        session = self._session
        if session is None or not self._lease.holds(epoch):
            return Deposed(f"epoch {epoch} is not ours")
        if position != self._position:
            return Outrun(f"the log is at {self._position}, not {position}")
        try:
            await self._snapshots.write(session, position, epoch, body)
        except Disconnected:
            return Unavailable("ZooKeeper cannot be reached")
        except ZooKeeperError as error:
            return Deposed(str(error)) if Code.BAD_VERSION in error.codes else Unavailable(str(error))
        return None
