"""For connectors that need more than `Producer`, `Consumer` and `Admin`: a cluster's connections, and what to ask."""

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from ottla.client.blocking.engine import Engine as Engine
from ottla.client.blocking.engine import quick_loop as quick_loop
from ottla.client.core.cluster import ZERO_ID as ZERO_ID
from ottla.client.core.cluster import Broker as Broker
from ottla.client.core.cluster import Cluster as Cluster
from ottla.client.core.cluster import Partition as Partition
from ottla.client.core.cluster import Topic as Topic
from ottla.client.core.names import missing_topic as missing_topic
from ottla.client.core.offsets import EARLIEST as EARLIEST
from ottla.client.core.offsets import LATEST as LATEST
from ottla.client.core.offsets import by_topic as by_topic
from ottla.client.core.offsets import commit as commit
from ottla.client.core.offsets import committed as committed
from ottla.client.core.offsets import end_offsets_of_epochs as end_offsets_of_epochs
from ottla.client.core.offsets import list_offsets as list_offsets
from ottla.client.core.runtime import Task
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import Settings
from ottla.errors import OttlaError

T = TypeVar("T")


class Session:
    """Clusters on a loop in a thread of its own. `run` waits for a coroutine on that loop."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._settings = settings
        self._engine = Engine(name)
        self._clusters: list[Cluster] = []
        self._spawned: set[Task[None]] = set()

    def cluster(self) -> Cluster:
        """A cluster with connections of its own: long polls hold up theirs."""
        cluster = Cluster(self._settings, LOOP)
        self._clusters.append(cluster)
        return cluster

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._engine.run(work)

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Runs a coroutine on that loop without waiting for it; an OttlaError that it raises is dropped."""
        self._engine.soon(self._spawn, work)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = LOOP.spawn(_quietly(work))
        self._spawned.add(task)  # the loop itself would let the collector take it
        task.add_done_callback(self._spawned.discard)

    def close(self) -> None:
        """Ends every task that runs on the loop, and the connections."""
        if not (self._engine.is_closed or self._engine.is_forked):
            for cluster in self._clusters:
                self._engine.run(cluster.close())
            self._engine.close()


async def _quietly(work: Coroutine[Any, Any, object]) -> None:
    with suppress(OttlaError):
        await work
