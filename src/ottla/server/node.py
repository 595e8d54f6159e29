"""A broker as a whole: disks, metadata, partitions, listeners; started in order, stopped in reverse.

Alone, the metadata log is a local journal. In a cluster it is ZooKeeper's, or whatever a test hands in.
"""

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.assembly import METADATA_FOLDER, Assembly
from ottla.broker.broker import Broker
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.requests.dispatch import Dispatcher
from ottla.broker.requests.exchange import Observer
from ottla.broker.routes import FEATURES
from ottla.config.listeners import listener_settings
from ottla.config.protection import AUTHORIZERS
from ottla.config.security import principals_of
from ottla.config.settings import Config
from ottla.errors import KafkaStorageError
from ottla.metadata import membership
from ottla.metadata.controller import Controller
from ottla.metadata.image import Image
from ottla.metadata.journal import Journal
from ottla.metadata.log import MetadataLog
from ottla.ports import Disk
from ottla.server import addresses
from ottla.server.admission import Admission
from ottla.server.budget import Budget
from ottla.server.clock import LoopClock
from ottla.server.disk import ClosableJobs, ThreadJobs
from ottla.server.folders import Folders, check_ours, known_directories, report_missing, strand_leftovers
from ottla.server.garbage import Collections
from ottla.server.lag import LagProbe, Stretch
from ottla.server.listener import Listener
from ottla.server.membership import Membership
from ottla.server.memory import RequestMemory
from ottla.server.trim import Trimmer
from ottla.server.unsent import Unsent
from ottla.server.warming import Warming
from ottla.storage.checkpoints import read_meta
from ottla.storage.folder import LogFolder

if TYPE_CHECKING:
    import ssl

    from ottla.broker.contracts.checks import Schemas
    from ottla.broker.permits.access import Access
    from ottla.server.gate import Gate
    from ottla.server.http import HttpServer
    from ottla.server.links import Link
    from ottla.server.peers import BrokerPeers
    from ottla.server.watch import PeerWatch
    from ottla.storage.memory import MemoryDisk

    MakePeers = Callable[[int, Image, Link], BrokerPeers]

log = logging.getLogger("ottla.server")

T = TypeVar("T")


class Node:
    def __init__(
        self,
        config: Config,
        *,
        disks: list[Disk] | None = None,
        metadata_log: MetadataLog | None = None,
        make_clock: Callable[[asyncio.AbstractEventLoop], LoopClock] = LoopClock,
        make_jobs: Callable[[asyncio.AbstractEventLoop], ClosableJobs] = ThreadJobs,
        observe: Callable[[Observer], Observer] = lambda metrics: metrics,
        make_peers: "MakePeers | None" = None,
    ) -> None:
        """`disks` stand for the log folders: in memory, or those of a test. The others are for tests too: a
        clock that was moved, jobs without threads, an observer of requests that stands in for handlers, links
        between brokers that can be cut. `metadata_log` makes it one of a cluster."""
        self.config = config
        self.metadata_log = metadata_log
        self.is_clustered = metadata_log is not None or bool(config.zookeeper_connect)
        self.peers: BrokerPeers | None = None
        self._watch: PeerWatch | None = None
        self._is_joined = False  # until then other brokers are not watched
        self.is_stopping = False
        self._pages: HttpServer | None = None
        self._disks = disks
        self._make_clock, self._make_jobs, self._observe = make_clock, make_jobs, observe
        self._make_peers = make_peers
        self._folders = Folders()
        self._replicas: Replicas | None = None
        self.listeners: list[Listener] = []
        self.broker: Broker
        self.clock: LoopClock

    @property
    def is_bound(self) -> bool:
        """It has its ports: everything that pages tell of is there."""
        return hasattr(self, "endpoints")

    # -- start -----------------------------------------------------------------------------------

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.clock = self._make_clock(self._loop)
        self._jobs = self._make_jobs(self._loop)
        try:
            await self._start()
        except BaseException:
            for listener in self.listeners:
                await listener.stop()
            self._release()
            raise

    async def _start(self) -> None:
        config = self.config
        folders = self._open_folders()
        if not self.is_clustered and not folders[0].disk.exists(METADATA_FOLDER):
            self._check_ours(Image())  # opening the journal would leave a new one in the folder
        self.metadata_log = self.metadata_log or self._open_metadata_log()
        controller = Controller(
            config.node_id,
            self.metadata_log,
            config,
            on_session_over=lambda: self.membership.on_session_over(),
            on_news=self._on_news,
        )
        self.membership = Membership(controller, self.metadata_log, config)
        controller.open()
        await self.membership.caught_up()
        self._check_ours(controller.image)
        meta = read_meta(folders[0].disk)
        cluster_id = await self.membership.cluster_id(meta.cluster_id if meta else "", FEATURES)
        if not controller.image.security.scram:
            await self._add_first_users()
        known = known_directories(controller.image, config.node_id)
        directories = tuple(
            self._directory(folder, cluster_id, known) for folder in folders if not folder.is_offline
        )
        assembly = Assembly(config, self.clock, self._jobs, random.SystemRandom())
        self._replicas = assembly.replicas(controller.image, folders)
        missing = tuple(directory for directory in known if directory not in directories)
        await self._open_logs(self._replicas, missing)
        if self.is_clustered:
            self._find_peers(controller)
        self.broker = assembly.broker(
            controller, self._replicas, self.peers, self._access(controller.image), _make_schemas
        )
        self.lag = LagProbe(self.clock)
        self._bind()
        self.endpoints = addresses.advertised(config, [listener.port for listener in self.listeners])
        if self.is_clustered:
            # Other brokers connect as soon as this one is registered.
            await self._serve()
        await self._join(directories + self._still_awaited(missing))
        self.broker.housekeeping.start()
        self.lag.start()
        if not self.is_clustered:
            await self._serve()

    def _open_folders(self) -> list[LogFolder]:
        self._folders = Folders.open(self.config, self._disks, self._on_folder_offline)
        return self._folders.all

    def _check_ours(self, image: Image) -> None:
        config = self.config
        home = f"{self._folders.all[0].path}/{METADATA_FOLDER}"
        if self.is_clustered:
            home = f"ZooKeeper ({config.zookeeper_connect}: is the path after the last host right?)"
        check_ours(self._folders.all, image, home, config.ottla_start_without_metadata)
        if not image.cluster_id:
            strand_leftovers(self._folders.all)

    def _directory(self, folder: LogFolder, cluster_id: str, known: tuple[bytes, ...]) -> bytes:
        directory_id = folder.meta(cluster_id, self.config.node_id, os.urandom(16)).directory_id
        folder.is_returned = bool(known) and directory_id not in known
        return directory_id

    def _find_peers(self, controller: Controller) -> None:
        from ottla.server.links import link_of
        from ottla.server.peers import BrokerPeers  # brings the client, which one alone does not need
        from ottla.server.watch import PeerWatch

        link = link_of(self.config)
        self.peers = (self._make_peers or BrokerPeers)(self.config.node_id, controller.image, link)
        self._watch = PeerWatch(controller, self.peers.endpoint)

    async def _join(self, directories: tuple[bytes, ...]) -> None:
        registration = membership.Registration(
            self.config.node_id,
            os.urandom(16),
            self.endpoints,
            self.config.broker_rack,
            clean=self._has_all(),
            ready=not self.is_clustered,
            directories=directories,
        )
        await self.membership.join(registration, self.broker.on_joined)
        self._is_joined = True
        self._on_news()

    def _has_all(self) -> bool:
        """Whether every replica here has what it had when the broker ran last."""
        assert self._replicas is not None
        return not self._replicas.is_incomplete and all(folder.was_clean for folder in self._folders.all)

    def _still_awaited(self, missing: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Folders that the next start has to miss as well, lest their partitions start from nothing then."""
        assert self._replicas is not None
        some_offline = any(folder.is_offline for folder in self._folders.all)
        return missing if some_offline or self._replicas.awaited else ()

    def _on_news(self) -> None:
        """The lease or the members changed."""
        if self._watch is not None and self._is_joined:
            self._watch.on_news()

    def _open_metadata_log(self) -> MetadataLog:
        if self.config.zookeeper_connect:
            from ottla.server.zookeeper.log import ZooKeeperLog

            return ZooKeeperLog.of(self.config)
        return Journal(self._folders.all[0].disk, METADATA_FOLDER, run_aside=self._aside, report=log.warning)

    async def _add_first_users(self) -> None:
        if not any(name.endswith("sasl.mechanism.inter.broker.protocol") for name in self.config.static):
            return
        from ottla.server.first_users import first_users

        users = await self._run(lambda: first_users(self.config))
        if users:
            await self.membership.add_first_users(users)

    async def _serve(self) -> None:
        for listener in self.listeners:
            await listener.serve()

    async def _open_logs(self, replicas: Replicas, missing: tuple[bytes, ...]) -> None:
        openings = replicas.openings()
        self._folders.check_usable()
        await asyncio.gather(*(self._run(opening.run) for opening in openings))
        for opening in openings:
            replicas.adopt(opening)
        replicas.start(is_folder_missing=bool(missing))
        if replicas.awaited or replicas.is_incomplete:
            report_missing(missing, replicas.awaited)

    def _bind(self) -> None:
        """The listeners, and the dispatcher behind them, with the memory that all of them share."""
        limit = self.config.queued_max_request_bytes
        budget = Budget(limit if limit > 0 else self.config.ottla_requests_max_bytes, self.clock)
        unsent = Unsent(budget.limit_bytes, self.config.ottla_connection_responses_max_bytes, self.clock)
        memory = RequestMemory(budget.parked, unsent)
        self.dispatcher = Dispatcher(self.broker, self._observe(self.broker.metrics), memory)
        admission = Admission(lambda: self.broker.config, self.clock, lambda: self.broker.quotas)
        stretch = Stretch(self.clock)
        for address in addresses.listeners(self.config):
            listener = Listener(
                address.name,
                self.dispatcher,
                self.config,
                self.clock,
                budget,
                unsent,
                admission,
                self.broker.metrics.counts,
                stretch.is_long,
                self._gate(address.name),
            )
            listener.bind(address.host, address.port)
            self.listeners.append(listener)

    def _access(self, image: Image) -> "Access | None":
        """What clients may do is decided by the rules of the metadata log, or by a class named in the settings."""
        config = self.config
        if not config.authorizer_class_name:
            return None
        from ottla.broker.permits.access import standard_access
        from ottla.broker.permits.guards import check_table

        check_table()
        standard = standard_access(
            image, principals_of(config.super_users), config.allow_everyone_if_no_acl_found
        )
        if config.authorizer_class_name in AUTHORIZERS:
            return standard
        from ottla.broker.permits.access import Access
        from ottla.server.plugins import OwnAuthorizer

        return Access(OwnAuthorizer(config.authorizer_class_name, config.static, standard.authorizer))

    def _gate(self, name: str) -> "Gate | None":
        settings = listener_settings(self.config, name)
        if settings.protocol == "PLAINTEXT":
            return None
        from ottla.server.gate import Gate

        return Gate(settings, self.broker.image, self.broker.tokens)

    async def serve_pages(
        self,
        host: str,
        port: int,
        *,
        tls: "ssl.SSLContext | None" = None,
        users: Mapping[str, str] | None = None,
    ) -> int:
        """Metrics and health over HTTP, until the broker stops; may be called before `start`. The port."""
        from ottla.server.http import HttpServer
        from ottla.server.logins import Logins
        from ottla.server.metrics.pages import Pages

        if self._pages is None:
            self._pages = HttpServer(Pages(self), None if users is None else Logins(users))
            await self._pages.start(host, port, tls)
        return self._pages.port

    def collect_garbage(self) -> None:
        """For a process that is a broker and nothing else. Collections were postponed for a quick start."""
        Collections(self.clock).start()

    def give_memory_back(self) -> None:
        """For a process that is a broker and nothing else: it changes how the whole process keeps memory."""
        Trimmer(self.clock, self._jobs, self._drop_buffers).start()

    def warm_up(self) -> None:
        """For a process that is a broker and nothing else: those in tests end before it would help."""
        Warming(self.clock, self._jobs).start()

    def _drop_buffers(self) -> None:
        for folder in self._folders.all:
            folder.files.buffers.drop_free()
        self.broker.scratch.drop()

    # -- stop ------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Clean: leaders move away, everything is flushed, and the next start need not check it."""
        self.is_stopping = True
        if self.is_clustered and self.config.controlled_shutdown_enable:
            await self.membership.leave()
        await self._stop_serving()
        for folder in self._folders.all:
            if not folder.is_offline:
                try:
                    await self._run(folder.close)
                except KafkaStorageError as error:
                    log.error("%s is not marked as cleanly stopped: %s", folder.path, error)
        self._release()

    async def crash(self) -> None:
        """As after kill -9: nothing is flushed or marked, but nothing leaks into this process either."""
        await self._stop_serving()
        self._release()

    async def _stop_serving(self) -> None:
        self.is_stopping = True
        self.membership.close()
        if self._watch is not None:
            self._watch.close()
        for listener in self.listeners:
            await listener.stop()
        self.broker.close()
        if self.peers is not None:
            await self.peers.close()
        if self._pages is not None:
            await self._pages.stop()

    def _release(self) -> None:
        self._jobs.close()
        if self.metadata_log is not None:
            self.metadata_log.close()
        self.clock.close()
        self._folders.release()

    # -- threads ---------------------------------------------------------------------------------

    async def aside(self, job: Callable[[], T]) -> T:
        """In a thread."""
        return await self._run(job)

    async def _run(self, job: Callable[[], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def finished(result: object) -> None:
            if isinstance(result, Exception):
                done.set_exception(result)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        self._jobs.submit(job, finished)
        return await done

    def _aside(self, work: Callable[[], None], then: Callable[[OSError | None], None]) -> None:
        def finished(result: object) -> None:
            if isinstance(result, Exception) and not isinstance(result, OSError):
                raise result
            then(result)  # type: ignore[arg-type]

        self._jobs.submit(work, finished)

    def _on_folder_offline(self, folder: LogFolder, error: OSError) -> None:
        """Not at once: the disk failed in the middle of something, which has to end first."""

        def tell() -> None:
            if self._replicas is not None:
                self._replicas.on_folder_offline(folder)

        with suppress(RuntimeError):  # the loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(tell)


def _make_schemas() -> "Schemas":
    """The registry's part is above the server: it is loaded by its name, and only by brokers that need it."""
    from ottla.server.plugins import load

    schemas: Schemas = load("ottla.schemas.topic", "ottla.registry.contracts.Schemas")
    return schemas


def memory_disk() -> "MemoryDisk":
    from ottla.storage.memory import MemoryDisk

    return MemoryDisk(track_sync=False, now_ms=lambda: time.time_ns() // 1_000_000)
