"""A worker for itself: connectors from files and REST, configs in memory, as Kafka's standalone worker."""

import logging
from collections.abc import Mapping

from ottla.client import Admin, Producer
from ottla.connect.errors import ConnectError
from ottla.connect.rest.app import app
from ottla.connect.rest.server import RestServer
from ottla.connect.running.base import Runner
from ottla.connect.store.statuses import Statuses
from ottla.connect.store.table import TopicTable, ensure_compacted
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.refusals import Refusal
from ottla.connect.worker.settings import WorkerSettings

log = logging.getLogger(__name__)


class Standalone:
    """`start` returns when REST answers."""

    def __init__(self, settings: WorkerSettings, runner: Runner | None = None) -> None:
        self.settings = settings
        self._server = RestServer(*settings.listener())
        self._runner = runner or runner_of(settings)

    def start(self, connectors: Mapping[str, dict[str, str]]) -> None:
        settings = self.settings
        client = settings.client()
        ensure_topics(settings, ("offset", "status"))
        host, port = settings.advertised(self._server.port)
        topic = settings["status.storage.topic"]
        self._producer, self._table = Producer(client), TopicTable(client, topic)
        statuses = Statuses(self._producer, self._table, topic)
        self.herder = Herder(settings, self._runner, statuses, lambda records: None, f"{host}:{port}")
        for name, config in connectors.items():
            try:
                self.herder.create(name, {**config, "name": name})
            except Refusal as refusal:
                raise ConnectError(f"connector {name}: {refusal.message}") from refusal
        self._server.start(app(self.herder))

    @property
    def port(self) -> int:
        return self._server.port

    def close(self) -> None:
        self._server.close()
        if hasattr(self, "herder"):
            self.herder.close()
            self._table.close()
            self._producer.close()
        self._runner.close()


def ensure_topics(settings: WorkerSettings, kinds: tuple[str, ...]) -> None:
    with Admin(settings.client()) as admin:
        for kind in kinds:
            topic = settings[f"{kind}.storage.topic"]
            ensure_compacted(admin, topic, settings.partitions(kind), settings.replication(kind))


def runner_of(settings: WorkerSettings) -> Runner:
    """Spark is imported when its first connector starts."""
    if settings.runner == "process":
        from ottla.connect.running.threads import ThreadRunner

        return ThreadRunner()
    if settings.runner == "spark":
        from ottla.connect.running.spark import SparkRunner

        return SparkRunner(settings.plain)
    raise ConnectError(f"ottla.runner={settings.runner}: it is spark or process")
