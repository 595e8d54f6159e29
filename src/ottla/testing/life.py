"""A broker's life in a test: a thread, a port that stays, start, stop, crash, and the way in from outside."""

import asyncio
import os
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.broker.requests.exchange import Observer
from ottla.config.settings import Config
from ottla.ports import Disk
from ottla.server.clock import LoopClock
from ottla.server.disk import ClosableJobs, ThreadJobs
from ottla.server.node import Node
from ottla.storage.memory import MemoryDisk
from ottla.testing.asking import on_loop
from ottla.testing.background import Background
from ottla.testing.faults import Faults
from ottla.testing.jobs import LoopJobs
from ottla.testing.ports import Forks, Reservation
from ottla.testing.seen import Seen
from ottla.testing.settings import config_of
from ottla.testing.waiting import News
from ottla.testing.watch import Watch

T = TypeVar("T")

STARTED: "weakref.WeakSet[Host]" = weakref.WeakSet()  # for reports of failing tests
_FORKS = Forks()


class Host:
    """What `Broker` stands on."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        data: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        authorizer: bool = False,
        registry: bool = False,
        **more: Any,
    ) -> None:
        self._host, self._wanted_port = host, port
        self._security, self._users, self._has_authorizer = security, dict(users or {}), authorizer
        self._settings = {**(settings or {}), **more}
        self._wants_registry = registry
        self._folder = None if data is None else os.fspath(data)
        self._disk = None if data is not None else MemoryDisk(now_ms=self._now_ms)
        self._faults, self._seen, self._news = Faults(), Seen(), News()
        self._background: Background | None = None
        self._reservation: Reservation | None = None
        self._node: Node | None = None
        self._knows_users = False
        self._made_settings: dict[str, Any] | None = None
        self._skew_ms = 0
        self._slow_s = 0.0
        self._pid = os.getpid()

    # -- life --------------------------------------------------------------------------------------------

    def start(self) -> Self:
        if self._background is not None:
            raise RuntimeError("the broker runs already")
        self._pid = os.getpid()
        self._reservation = Reservation(self._host, self._wanted_port)
        self._background = Background(f"ottla-broker-{self._reservation.port}")
        _FORKS.add(self, self._descriptors)
        STARTED.add(self)
        try:
            self._background.run(self._start())
        except BaseException:
            self._release()
            raise
        return self

    def stop(self) -> None:
        """Nothing is left of it: no thread, no socket, no task. A folder on disk is closed cleanly."""
        if self._background is None or os.getpid() != self._pid:
            return  # never started, stopped already, or of the process that this one was forked from
        try:
            if self._node is not None:
                node, self._node = self._node, None
                self._background.run(node.stop() if self._disk is None else node.crash())
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def crash(self, *, lose_unsynced: bool = False) -> None:
        """As `kill -9`; with `lose_unsynced` as a power cut. `restart` brings back what was on disk."""
        if lose_unsynced and self._disk is None:
            raise ValueError(
                "a broker on disk cannot lose what was not synced: the operating system keeps its page cache. "
                "Use a broker in memory (without `data`)"
            )
        node, self._node = self._running(), None
        self._run(node.crash())
        if self._disk is not None:
            self._disk.crash(lose_unsynced=lose_unsynced)

    def restart(self) -> None:
        """On the same port with what is on disk: after a crash, or stopped cleanly first."""
        if self._node is not None:
            node, self._node = self._node, None
            self._run(node.stop())
        self._run(self._start())

    @property
    def is_started(self) -> bool:
        """Between `start` and `stop`; a crashed broker is."""
        return self._background is not None

    @property
    def is_running(self) -> bool:
        return self._node is not None

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self.port}"

    @property
    def http(self) -> str:
        """HOST:PORT of `/metrics`, `/metrics/partitions` and `/health`, served from the first question on."""
        return f"127.0.0.1:{self._run(self._running().serve_pages('127.0.0.1', 0))}"

    @property
    def port(self) -> int:
        if self._reservation is None:
            raise RuntimeError("the broker is not started")
        return self._reservation.port

    def __repr__(self) -> str:
        where = self.bootstrap if self._reservation is not None else "not started"
        return f"<ottla.testing.Broker {where}>"

    # -- inside ------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        config = config_of(
            self._security_settings() | self._settings, self._host, self.port, self._folder, self._security
        )
        node: Node

        def observe(metrics: Observer) -> Observer:
            return Watch(metrics, node.broker, self._faults, self._seen, self._news)

        node = self._new_node(config, observe)
        await node.start()
        self._node = node
        if self._users and not self._knows_users:
            from ottla.testing.rights import set_users

            await on_loop(set_users(node.broker, self._users))
            self._knows_users = True

    def _security_settings(self) -> dict[str, Any]:
        """The same after a restart: certificates and all."""
        if self._made_settings is None:
            self._made_settings = {}
            if self._security != "PLAINTEXT" or self._has_authorizer:
                from ottla.testing.security import broker_settings

                self._made_settings = dict(
                    broker_settings(self._security, self._users, self._has_authorizer, self._host)
                )
        return self._made_settings

    def _new_node(self, config: Config, observe: Callable[[Observer], Observer]) -> Node:
        return Node(
            config,
            disks=self._disks(),
            make_clock=self._new_clock,
            make_jobs=self._new_jobs,
            observe=observe,
        )

    def _disks(self) -> list[Disk] | None:
        return None if self._disk is None else [self._disk]

    def _new_clock(self, loop: asyncio.AbstractEventLoop) -> LoopClock:
        clock = LoopClock(loop)
        clock.advance(self._skew_ms)
        return clock

    def _new_jobs(self, loop: asyncio.AbstractEventLoop) -> ClosableJobs:
        if self._disk is None:
            return ThreadJobs(loop)
        return LoopJobs(loop, lambda: self._slow_s)

    async def _advance(self, milliseconds: int) -> None:
        node = self._node
        if node is None:
            return  # it is down: time passes all the same
        node.clock.advance(milliseconds)
        await asyncio.sleep(0)  # what waited on a timer goes on
        housekeeping = node.broker.housekeeping
        housekeeping.expire()  # rolls what is old enough, so that compaction gets at it too
        housekeeping.clean()
        while housekeeping.is_cleaning:
            await asyncio.sleep(0)
        self._news.tell()

    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._skew_ms

    def _running(self) -> Node:
        if self._node is None:
            raise RuntimeError("the broker is not running")
        return self._node

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            background = self._alive()
        except RuntimeError:
            work.close()  # or Python warns that it was never awaited
            raise
        return background.run(work)

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Work in the manner of handlers."""
        return self._run(on_loop(work))

    def _call(self, function: Callable[[], T]) -> T:
        return self._alive().call(function)

    def _alive(self) -> Background:
        if self._background is None:
            raise RuntimeError("the broker is not started")
        return self._background

    def _release(self) -> None:
        background, self._background = self._background, None
        reservation, self._reservation = self._reservation, None
        if background is not None:
            background.close()
        if reservation is not None:
            reservation.close()

    def _descriptors(self) -> Iterable[int]:
        """In a forked child: everything that would keep the port, or somebody's connection."""
        if self._background is None:
            return
        if self._reservation is not None:
            yield self._reservation.fileno()
        if self._node is not None:
            for listener in self._node.listeners:
                yield from listener.descriptors()
