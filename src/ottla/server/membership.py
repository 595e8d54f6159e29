"""A broker's place in its cluster: it catches up with the metadata, registers, and leaves in good order."""

import asyncio
import base64
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from ottla.broker.assembly import uuid_4
from ottla.config.settings import Config
from ottla.errors import InvalidConfig, ProtocolError
from ottla.metadata import membership
from ottla.metadata.controller import Controller
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image
from ottla.metadata.log import MetadataLog
from ottla.metadata.membership import Registration
from ottla.metadata.records import ClusterCreated, FeatureSet, Record

log = logging.getLogger("ottla.server")

LOOK_S = 0.005
PATIENCE_S = 5.0  # then it is said what is being waited for
LEAVE_S = 10.0
HINT_S = 0.1
"""A broker that has handed its partitions over goes on serving for a moment: a client that writes to it is told who
leads now, and goes there at once. After a closed connection clients wait for their `retry.backoff.ms` first."""


class Membership:
    def __init__(self, controller: Controller, metadata_log: MetadataLog, config: Config) -> None:
        self._controller, self._log = controller, metadata_log
        self._node_id = config.node_id
        self._registration: Registration | None = None
        self._closed = False

    @property
    def _image(self) -> Image:
        return self._controller.image

    async def caught_up(self) -> None:
        await self._until(lambda: self._controller.is_caught_up, "the metadata log")

    async def cluster_id(self, known: str, features: Mapping[str, tuple[int, int]]) -> str:
        """The cluster's name, given by its first controller. `known` is what this broker's folders say."""
        while not self._image.cluster_id:
            if self._controller.epoch is not None:
                await self._submitted(
                    lambda image: (
                        ()
                        if image.cluster_id
                        else (
                            ClusterCreated(known or new_cluster_id()),
                            *(FeatureSet(name, high) for name, (_, high) in features.items()),
                        )
                    )
                )
            else:
                await asyncio.sleep(LOOK_S)
        cluster_id = self._image.cluster_id
        if known and known != cluster_id:
            raise InvalidConfig(f"the log folders belong to cluster {known}, not to {cluster_id}")
        return cluster_id

    async def add_first_users(self, users: tuple[Record, ...]) -> None:
        """By the controller, while there is no user at all: without one nobody could log in to add another."""
        if self._controller.epoch is not None:
            await self._submitted(lambda image: () if image.security.scram else users)

    async def join(self, registration: Registration, on_registered: Callable[[], None]) -> None:
        """Registers, and waits until the metadata says that this broker may lead."""
        self._register(registration)
        if not registration.ready:
            await self._until(self._is_registered, "the controller to register this broker")
            on_registered()
            self._register(replace(registration, ready=True, clean=True))
            await self._until(lambda: self._image.may_lead(self._node_id), "the controller to let us lead")
            return
        await self._submitted(lambda image: ())  # comes after what the registration set off
        if not self._image.may_lead(self._node_id):
            raise InvalidConfig("the metadata log refused this broker")
        on_registered()

    async def leave(self) -> None:
        """Asks the controller to move leaders away, and waits until they have moved, or for a while."""
        if self._registration is None or self._closed:
            return
        led = self._count_led()
        self._register(replace(self._registration, stopping=True))
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._until(self._is_free, "leaders to move away")
        except TimeoutError:
            log.warning("leaders did not move away in %d s: stopping all the same", LEAVE_S)
        if self._count_led() < led:
            await asyncio.sleep(HINT_S)

    def close(self) -> None:
        self._closed = True

    def _register(self, registration: Registration) -> None:
        self._registration = registration
        self._log.register(self._node_id, membership.encode(registration))

    def on_session_over(self) -> None:
        """Begins a new session under the same incarnation: this process is still running, and has lost no records."""
        if self._closed or self._registration is None:
            return
        log.warning("the session with the metadata log is over: a new one begins")
        asyncio.get_running_loop().call_soon(self._begin_session)

    def _begin_session(self) -> None:
        if not self._closed and self._registration is not None:
            self._controller.open()
            self._register(self._registration)

    def _is_registered(self) -> bool:
        known = self._image.brokers.get(self._node_id)
        return known is not None and known.incarnation == self._incarnation

    @property
    def _incarnation(self) -> bytes:
        assert self._registration is not None
        return self._registration.incarnation

    def _is_free(self) -> bool:
        known = self._image.brokers.get(self._node_id)
        return (known is None or known.stopping) and not any(
            partition.leader == self._node_id and self._has_heir(partition.isr)
            for partition in self._image.partitions()
        )

    def _count_led(self) -> int:
        return sum(partition.leader == self._node_id for partition in self._image.partitions())

    def _has_heir(self, isr: tuple[int, ...]) -> bool:
        return any(self._image.may_lead(replica) for replica in isr if replica != self._node_id)

    async def _submitted(self, records: Callable[[Image], tuple[Record, ...]]) -> None:
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._controller.submit(lambda image, config: Decision(records(image), None), done.set_result)
        result = await done
        if isinstance(result, ProtocolError):
            if self._controller.epoch is not None or self._controller.holder is None:
                raise result
            log.info("the controller changed: %s", result.name())

    async def _until(self, condition: Callable[[], bool], goal: str) -> None:
        loop = asyncio.get_running_loop()
        told_at = loop.time() + PATIENCE_S
        while not condition():
            await asyncio.sleep(LOOK_S)
            if loop.time() > told_at:
                log.warning("waiting for %s", goal)
                told_at = loop.time() + PATIENCE_S


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid_4(os.urandom(16))).decode().rstrip("=")
