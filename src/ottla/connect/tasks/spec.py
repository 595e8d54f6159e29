"""A connector that is to run, as a plain value: it travels to Spark's workers. Secrets are still placeholders in it."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.connect import plugins, secrets
from ottla.connect.definitions import SINK_SETTINGS, SOURCE_SETTINGS
from ottla.connect.errors import ConfigError
from ottla.connect.settings import Config, merged
from ottla.connect.spi import Json, Plugin, Sink, Source
from ottla.connect.store.formats import canonical

LANES = 16  # for ever: two workers that count differently could read one source partition at once


@dataclass(frozen=True)
class Spec:
    """`config` is the connector's, `worker` the settings of the worker that connectors inherit."""

    name: str
    config: Mapping[str, str | None]
    worker: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plugin(self) -> Plugin:
        return plugins.of(self.config)

    @property
    def kind(self) -> str:
        return self.plugin.kind

    def resolved(self) -> dict[str, str | None]:
        """With the secrets of this host. The worker's converters count where the connector has none."""
        inherited = {name: value for name, value in self.worker.items() if ".converter" in name}
        for side in ("key.converter", "value.converter", "header.converter"):
            if self.config.get(side):  # a converter of its own has settings of its own
                inherited = {name: value for name, value in inherited.items() if not name.startswith(side)}
        plain = secrets.resolve({**inherited, **self.config, "name": self.name})
        return dict(plain)

    def parsed(self) -> Config:
        common = SOURCE_SETTINGS if self.kind == "source" else SINK_SETTINGS
        return Config(self.resolved(), merged(common, self.plugin.load().settings))

    def source(self) -> Source:
        source = self.plugin.load()(self.parsed())
        assert isinstance(source, Source)
        return source

    def sink(self) -> Sink:
        sink = self.plugin.load()(self.parsed())
        assert isinstance(sink, Sink)
        return sink

    def check(self) -> None:
        wrong = self.plugin.load().check(self.parsed())
        if wrong:
            raise ConfigError("; ".join(f"{name}: {text}" for name, text in wrong.items()))

    # -- where things are --------------------------------------------------------------------------

    def client(self, kind: str = "") -> dict[str, Any]:
        """Settings of clients: the worker's, the worker's for this kind (`producer.`), the connector's own."""
        own = f"{kind}.override." if kind else "admin.override."
        plain = {
            name: value
            for name, value in self.worker.items()
            if name.startswith(("bootstrap.servers", "security.", "sasl.", "ssl."))
        }
        if kind:
            plain |= {
                name[len(kind) + 1 :]: v for name, v in self.worker.items() if name.startswith(f"{kind}.")
            }
        return plain | {
            name[len(own) :]: value for name, value in self.resolved().items() if name.startswith(own)
        }

    @property
    def group(self) -> str:
        """Of a sink, as in Java."""
        return self.config.get("consumer.override.group.id") or f"connect-{self.name}"

    @property
    def offsets_topic(self) -> str:
        return (
            self.config.get("offsets.storage.topic")
            or self.worker.get("offset.storage.topic")
            or "connect-offsets"
        )

    @property
    def status_topic(self) -> str | None:
        if str(self.worker.get("topic.tracking.enable", "true")).lower() != "true":
            return None
        return self.worker.get("status.storage.topic") or "connect-status"

    def transactional_id(self, lane: int) -> str:
        return f"{self.worker.get('group.id') or 'connect-standalone'}-{self.name}-{lane}"

    @property
    def tasks_max(self) -> int:
        return int(self.config.get("tasks.max") or 1)


def lane_of(partition: Json) -> int:
    return zlib.crc32(canonical(partition).encode()) % LANES
