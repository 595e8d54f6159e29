"""Settings of a worker: Kafka's names, from a properties file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.connect import secrets
from ottla.connect.errors import ConfigError

_JSON = "org.apache.kafka.connect.json.JsonConverter"
PORT = 8083


@dataclass(frozen=True)
class WorkerSettings:
    """`plain` are all of them, as connectors inherit them."""

    plain: Mapping[str, Any]
    distributed: bool

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, distributed: bool) -> "WorkerSettings":
        plain: dict[str, Any] = {
            "bootstrap.servers": "localhost:9092",
            "key.converter": _JSON,
            "value.converter": _JSON,
            "offset.storage.topic": "connect-offsets",
            "config.storage.topic": "connect-configs",
            "status.storage.topic": "connect-status",
            "group.id": "connect-cluster" if distributed else "connect-standalone",
            **_resolved(texts),
        }
        settings = cls(plain, distributed)
        settings.listener()
        return settings

    def __getitem__(self, name: str) -> Any:
        return self.plain[name]

    def listener(self) -> tuple[str, int]:
        """The first of `listeners` (http://host:port), or `rest.host.name` and `rest.port`."""
        text = str(self.plain.get("listeners") or "").split(",")[0].strip()
        if not text:
            return str(self.plain.get("rest.host.name") or ""), int(self.plain.get("rest.port") or PORT)
        scheme, _, rest = text.partition("://")
        host, _, port = rest.rpartition(":")
        if scheme.lower() != "http" or not port.isdecimal() or len(port) > 5:
            raise ConfigError(f"listeners={text}: write http://host:port; others are not served")
        return host, int(port)

    def advertised(self, port: int) -> tuple[str, int]:
        import socket

        host = self.plain.get("rest.advertised.host.name") or self.listener()[0] or socket.getfqdn()
        return str(host), int(self.plain.get("rest.advertised.port") or port)

    @property
    def runner(self) -> str:
        """Ours: spark (the default) or process."""
        return str(self.plain.get("ottla.runner") or "spark")

    def replication(self, kind: str) -> int:
        return int(self.plain.get(f"{kind}.storage.replication.factor") or 3)

    def partitions(self, kind: str) -> int:
        return int(self.plain.get(f"{kind}.storage.partitions") or {"offset": 25, "status": 5}.get(kind, 1))

    def client(self) -> dict[str, Any]:
        wanted = ("bootstrap.servers", "security.", "sasl.", "ssl.")
        return {name: value for name, value in self.plain.items() if name.startswith(wanted)}


def _resolved(texts: Mapping[str, str]) -> dict[str, str | None]:
    """With the secrets of this host. Those of converters, which connectors inherit, are resolved where a task runs."""
    own = {name: text for name, text in texts.items() if ".converter" not in name}
    return {**texts, **secrets.resolve(own)}
