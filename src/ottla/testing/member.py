"""One broker of a test cluster: a Broker that shares an ensemble, and whose thread can stand still."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.broker.requests.exchange import Observer
from ottla.config.settings import Config
from ottla.server.node import Node
from ottla.testing.background import Background
from ottla.testing.broker import Broker
from ottla.testing.ensemble import Ensemble, Session
from ottla.testing.links import CuttablePeers, Links
from ottla.testing.waiting import News


class Member(Broker):
    """`crash`, `restart`, faults and all else as of a Broker; time moves for the whole cluster at once."""

    def __init__(
        self,
        broker_id: int,
        ensemble: Ensemble,
        links: Links,
        news: News,
        settings: dict[str, Any],
        **security: Any,
    ) -> None:
        super().__init__({**settings, "node.id": broker_id}, **security)
        self._knows_users = True  # the cluster tells its controller
        self.broker_id = broker_id
        self._ensemble, self._links, self._news = ensemble, links, news
        self._session: Session | None = None
        self._gate: threading.Event | None = None  # the thread waits for it while the broker is paused
        self._missed_ms = 0  # by which the clock was advanced while the broker was paused

    def __repr__(self) -> str:
        return super().__repr__().replace("Broker", f"Broker {self.broker_id}:", 1)

    def crash(self, *, lose_unsynced: bool = False) -> None:
        """As `kill -9`: its session lives on until it times out or another broker finds its port refused."""
        self._running()
        if self._session is not None:
            self._session.abandon()
        super().crash(lose_unsynced=lose_unsynced)

    def shut_down(self) -> None:
        """Cleanly: its leaders move away first. `restart` brings it back."""
        node, self._node = self._running(), None
        self._run(node.stop())

    # -- standing still ----------------------------------------------------------------------------------

    def pause(self) -> None:
        """As SIGSTOP: connections stay open and nothing is answered, until `resume`."""
        if self._gate is not None:
            return
        background, gate, entered = self._alive(), threading.Event(), threading.Event()

        def stand_still() -> None:
            entered.set()
            gate.wait()

        background.loop.call_soon_threadsafe(stand_still)
        entered.wait()
        self._gate = gate
        if self._session is not None:
            self._session.cut()

    def resume(self) -> None:
        gate, self._gate = self._gate, None
        if gate is None:
            return
        gate.set()
        missed_ms, self._missed_ms = self._missed_ms, 0
        self._run(self._advance(missed_ms))
        if self._session is not None:
            self._session.reconnect()

    @property
    def is_paused(self) -> bool:
        return self._gate is not None

    # -- the ensemble and the others -----------------------------------------------------------------------

    def leave_ensemble(self) -> None:
        """It cannot reach the metadata log; its session runs out."""
        if self._session is not None:
            self._session.cut()

    def find_ensemble(self) -> None:
        if self._session is not None and not self.is_paused:
            self._session.reconnect()

    def drop_cut_links(self) -> None:
        node = self._node
        if node is not None and not self.is_paused and isinstance(node.peers, CuttablePeers):
            self._call(node.peers.drop_cut_links)

    # -- inside --------------------------------------------------------------------------------------------

    def _new_node(self, config: Config, observe: Callable[[Observer], Observer]) -> Node:
        self._session = self._ensemble.session(asyncio.get_running_loop())
        return Node(
            config,
            disks=self._disks(),
            metadata_log=self._session,
            make_clock=self._new_clock,
            make_jobs=self._new_jobs,
            observe=observe,
            make_peers=partial(CuttablePeers, self._links),
        )

    def _jump(self, jump_ms: int) -> None:
        if self.is_paused:
            self._skew_ms += jump_ms
            self._missed_ms += jump_ms
        else:
            super()._jump(jump_ms)

    def _alive(self) -> Background:
        if self._gate is not None:
            raise RuntimeError(f"broker {self.broker_id} is paused")
        return super()._alive()
