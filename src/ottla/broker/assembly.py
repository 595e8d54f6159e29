"""The parts of a broker put together: the same for a process and for the simulated world."""

import base64
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.broker import Broker
from ottla.broker.cluster.peers import Peers
from ottla.broker.fetching.sessions import FetchSessions
from ottla.broker.metrics import Metrics
from ottla.broker.partitions.flushing import Flushing
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.stepping import HeavyWork
from ottla.config.settings import Config
from ottla.metadata.controller import Controller
from ottla.metadata.image import Image
from ottla.ports import Clock, Jobs
from ottla.storage.folder import LogFolder

if TYPE_CHECKING:
    from ottla.broker.contracts.checks import Schemas
    from ottla.broker.permits.access import Access

METADATA_FOLDER = "metadata"
_SESSION_EVICTION_MS = 120_000


class Assembly:
    """What they have in common: settings, time, threads and chance."""

    def __init__(self, config: Config, clock: Clock, jobs: Jobs, random: Random) -> None:
        self._config, self._clock, self._jobs, self._random = config, clock, jobs, random
        self._flushing = Flushing(clock, jobs)

    def replicas(self, image: Image, folders: list[LogFolder]) -> Replicas:
        return Replicas(
            self._config.node_id,
            image,
            self._config,
            folders,
            self._clock,
            self._jobs,
            self._name,
            self._flushing.flush,
        )

    def broker(
        self,
        controller: Controller,
        replicas: Replicas,
        peers: Peers | None = None,
        access: "Access | None" = None,
        make_schemas: "Callable[[], Schemas] | None" = None,
    ) -> Broker:
        sessions = FetchSessions(
            self._config.max_incremental_fetch_session_cache_slots,
            self._config.ottla_fetch_sessions_partitions_max,
            _SESSION_EVICTION_MS,
            lambda: self._random.getrandbits(31),
        )
        housekeeping = Housekeeping(
            replicas, self._flushing, self._config, self._clock, self._jobs, self._name
        )
        return Broker(
            self._config,
            self._clock,
            controller,
            replicas,
            sessions,
            housekeeping,
            Metrics(),
            self._uuid,
            HeavyWork(self._jobs),
            peers,
            access,
            make_schemas,
        )

    def _name(self) -> str:
        return self._random.randbytes(16).hex()

    def _uuid(self) -> bytes:
        """Never one that begins with a dash in its text form: command lines would take it for an option."""
        while True:
            uuid = uuid_4(self._random.randbytes(16))
            if not base64.urlsafe_b64encode(uuid).startswith(b"-"):
                return uuid


def uuid_4(chance: bytes) -> bytes:
    """A random UUID as bytes. The standard library's module would ask what platform this is, at every start."""
    uuid = bytearray(chance)
    uuid[6] = uuid[6] & 0x0F | 0x40  # the version
    uuid[8] = uuid[8] & 0x3F | 0x80  # the variant
    return bytes(uuid)
