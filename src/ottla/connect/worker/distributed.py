"""One of several workers. The one that owns partition 0 of the config topic is active; the others forward to it.

Configs are written under one transactional id for the group: a worker that was active and does not know that it is
no longer is fenced by its successor.
"""

import logging
import threading
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client import Admin, Consumer, Producer
from ottla.client.exactly_once.owner import TransactionOwner
from ottla.client.values import TopicPartition
from ottla.connect.rest.app import app
from ottla.connect.rest.forwarding import Switch
from ottla.connect.rest.server import RestServer
from ottla.connect.running.base import Runner
from ottla.connect.store.configs import Record
from ottla.connect.store.statuses import Statuses
from ottla.connect.store.table import TopicTable
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.settings import WorkerSettings
from ottla.connect.worker.standalone import ensure_topics, runner_of
from ottla.errors import OttlaError

log = logging.getLogger(__name__)
_CLIENT_ID = "connect-"
_POLL_S = 0.5


class Distributed:
    """`start`, then `run` until it is told to stop."""

    def __init__(self, settings: WorkerSettings, runner: Runner | None = None) -> None:
        self.settings = settings
        self._runner = runner or runner_of(settings)
        self._server = RestServer(*settings.listener())
        host, port = settings.advertised(self._server.port)
        self.url = f"http://{host}:{port}"
        self._worker_id = f"{host}:{port}"
        self._switch = Switch(self._active_url)
        self._active: _Active | None = None
        self._place = TopicPartition(settings["config.storage.topic"], 0)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def is_active(self) -> bool:
        return self._active is not None

    def start(self) -> None:
        ensure_topics(self.settings, ("config", "offset", "status"))
        self._server.start(self._switch)
        client = {**self.settings.client(), "client.id": f"{_CLIENT_ID}{self.url}"}
        timeouts = {
            name: self.settings.plain[name]
            for name in ("session.timeout.ms", "heartbeat.interval.ms")
            if name in self.settings.plain
        }
        self._consumer = Consumer(
            {**client, **timeouts, "group.id": self.settings["group.id"], "group.protocol": "classic",
             "enable.auto.commit": False, "auto.offset.reset": "latest"}
        )  # fmt: skip
        self._consumer.subscribe([self._place.topic])
        self._admin = Admin(self.settings.client())

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self.step()

    def step(self) -> None:
        """A poll keeps the membership; its records are of no interest: the active worker writes them itself."""
        try:
            self._consumer.poll(_POLL_S)
            owns = self._place in self._consumer.assignment()
        except OttlaError as error:
            log.warning("the group %s cannot be reached: %s", self.settings["group.id"], error)
            return
        if owns and self._active is None:
            self._become_active()
        elif not owns and self._active is not None:
            log.warning("another worker is active now")
            self._stand_by()

    def close(self) -> None:
        self._stand_by()
        if hasattr(self, "_consumer"):
            self._consumer.close()
            self._admin.close()
        self._server.close()
        self._runner.close()

    def _become_active(self) -> None:
        try:
            self._active = _Active(self.settings, self._runner, self._worker_id)
        except OttlaError as error:
            log.warning("this worker is to be active and cannot yet: %s", error)
            return
        log.info("this worker is active now: %s", self.url)
        self._switch.serve(app(self._active.herder))

    def _stand_by(self) -> None:
        active, self._active = self._active, None
        self._switch.serve(None)
        if active is not None:
            active.close()

    def _active_url(self) -> str | None:
        """The address is in the client id of the member that owns the partition."""
        group = self._admin.describe_group(self.settings["group.id"])
        owner = group.owner_of(self._place)
        if owner is None or not owner.client_id.startswith(_CLIENT_ID):
            return None
        url = owner.client_id.removeprefix(_CLIENT_ID)
        return None if url == self.url else url


class _Active:
    """What only the active worker has."""

    def __init__(self, settings: WorkerSettings, runner: Runner, worker_id: str) -> None:
        client = settings.client()
        self._topic = settings["config.storage.topic"]
        self._owner = TransactionOwner(
            {**client, "transactional.id": f"connect-cluster-{settings['group.id']}"}
        )
        self._owner.take_over()  # fences the worker that was active before
        self._configs = TopicTable(client, self._topic)
        status = settings["status.storage.topic"]
        self._producer, self._statuses = Producer(client), TopicTable(client, status)
        self.herder = Herder(
            settings, runner, Statuses(self._producer, self._statuses, status), self._write, worker_id
        )
        self.herder.load(self._configs.catch_up())

    def close(self) -> None:
        self.herder.close()
        self._configs.close()
        self._statuses.close()
        for producer in (self._owner, self._producer):
            producer.close(5)

    def _write(self, records: list[Record]) -> None:
        """All of a change or nothing."""
        keys, values = ([record[side] for record in records] for side in (0, 1))
        arrays: list[Any] = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
        self._owner.write(pa.RecordBatch.from_arrays(arrays, names=["key", "value"]), self._topic)
        self._owner.flush()
        self._owner.commit_transaction()
        self._owner.begin_transaction()
