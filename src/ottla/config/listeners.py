"""Listeners: their names, protocols, and the settings that each has for itself (`listener.name.NAME.setting`)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.config.protection import protocols_of
from ottla.errors import InvalidConfig
from ottla.frozen import frozen

if TYPE_CHECKING:
    from ottla.config.jaas import Jaas
    from ottla.config.settings import Config

_PREFIX = "listener.name."
_JAAS = "sasl.jaas.config"


@frozen
class ListenerSettings:
    """The settings of one listener: its own where it has them, else the broker's."""

    HIDDEN = ("static",)

    name: str
    protocol: str
    static: Mapping[str, str]

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    def get(self, setting: str, default: str = "") -> str:
        own = self.static.get(f"{_PREFIX}{self.name.lower()}.{setting}")
        return self.static.get(setting, default) if own is None else own

    def own(self, setting: str, default: str = "") -> str:
        """Without the broker's: on SASL_SSL only the listener's own ssl.client.auth counts, as in Kafka."""
        return self.static.get(f"{_PREFIX}{self.name.lower()}.{setting}", default)

    def effective(self) -> dict[str, str]:
        """All of them, without the prefix of the listener."""
        own = f"{_PREFIX}{self.name.lower()}."
        general = {name: text for name, text in self.static.items() if not name.startswith(_PREFIX)}
        special = {name.removeprefix(own): text for name, text in self.static.items() if name.startswith(own)}
        return general | special

    def tls(self) -> dict[str, str]:
        """The ssl.* settings by their names without that prefix."""
        names = {name.removeprefix("ssl.") for name in self.static if name.startswith("ssl.")}
        own = f"{_PREFIX}{self.name.lower()}.ssl."
        names |= {name.removeprefix(own) for name in self.static if name.startswith(own)}
        texts = {name: self.get(f"ssl.{name}") for name in names}
        if self.has_sasl:
            texts["client.auth"] = self.own("ssl.client.auth", "none")
        return texts

    def mechanisms(self) -> list[str]:
        """sasl.enabled.mechanisms; Kafka's default is GSSAPI."""
        text = self.get("sasl.enabled.mechanisms", "GSSAPI")
        return [name.strip().upper() for name in text.split(",") if name.strip()]

    def jaas(self, mechanism: str) -> "Jaas | None":
        """Of one mechanism, or of all mechanisms of the listener."""
        from ottla.config.jaas import parse_jaas  # only a broker with logins has any

        for setting in (f"{mechanism.lower()}.{_JAAS}", _JAAS):
            text = self.get(setting)
            if text:
                return parse_jaas(text, f"{_PREFIX}{self.name.lower()}.{setting}")
        return None

    def number(self, setting: str, default: int) -> int:
        text = self.get(setting, str(default))
        try:
            return int(text)
        except ValueError:
            raise InvalidConfig(f"{setting}={text} is not a number") from None


def listener_settings(config: "Config", name: str) -> ListenerSettings:
    protocols = protocols_of(config.listener_security_protocol_map)
    return ListenerSettings(name, protocols.get(name.upper(), "PLAINTEXT"), config.static)


def inter_broker_listener(config: "Config") -> str:
    """The name of the listener that brokers use: as set, by its protocol, or the first."""
    if config.inter_broker_listener_name:
        return config.inter_broker_listener_name
    names = [listener.partition("://")[0] for listener in config.listeners]
    wanted = config.security_inter_broker_protocol
    if wanted:
        for name in names:
            if listener_settings(config, name).protocol == wanted.upper():
                return name
        raise InvalidConfig(
            f"security.inter.broker.protocol={wanted}: no listener speaks it ({', '.join(names)})"
        )
    return names[0]


_LOOPBACK = ("localhost", "127.", "[::1]", "::1")


def open_doors(config: "Config") -> list[str]:
    """Listeners that let other machines in without asking who they are."""
    warnings = []
    for text in config.listeners:
        name, _, address = text.partition("://")
        listener = listener_settings(config, name)
        asks = listener.has_sasl or listener.tls().get("client.auth", "none").lower() == "required"
        if not asks and not address.startswith(_LOOPBACK):
            warnings.append(
                f"{text}: every machine that reaches this address may read, write and delete everything. "
                "`ottla secure init` makes what a secured listener needs; --insecure silences this"
            )
    return warnings
