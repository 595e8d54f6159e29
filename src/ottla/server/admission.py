"""Who may connect, over all listeners: how many at a time, from one address, in a second."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.config.definitions import INT_MAX
from ottla.config.listeners import inter_broker_listener
from ottla.config.security import limit_of
from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.ports import Clock
from ottla.security.quotas import Meter, Windows

if TYPE_CHECKING:
    from ottla.security.quotas import Quotas

RATE, COUNT = "max.connection.creation.rate", "max.connections"
THROTTLED_MAX = (
    1000  # connections that are kept for a moment before they are closed; others are closed at once
)


@dataclass(slots=True)
class Verdict:
    """`refused` says why the connection is closed, after `close_ms`; one that comes in waits for `wait_ms` first."""

    refused: str | None = None
    close_ms: int = 0
    wait_ms: int = 0


class Admission:
    """`config` gives the settings in force: some of the limits change while running."""

    def __init__(
        self, config: Callable[[], Config], clock: Clock, quotas: Callable[[], "Quotas | None"]
    ) -> None:
        self._config, self._clock, self._quotas = config, clock, quotas
        static = config()
        self._windows = Windows(static.quota_window_num, static.quota_window_size_seconds)
        names = [listener.partition("://")[0] for listener in static.listeners]
        self._limits_of = static, _own_limits(static)
        # Brokers must find each other however many clients come.
        self._protected = inter_broker_listener(static) if len(names) > 1 else None
        self._meters: dict[str, Meter] = {name: Meter() for name in ("", *names)}
        self._by_host: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._throttled = self._waiting = 0

    def on_connected(self, listener: str, host: str) -> None:
        self._by_host[host] += 1
        self._by_listener[listener] += 1

    def on_disconnected(self, listener: str, host: str) -> None:
        self._by_listener[listener] -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def admit(self, listener: str, host: str) -> Verdict:
        """For a connection that is not counted yet."""
        refused = self._too_many(listener, host)
        return Verdict(refused) if refused is not None else self._too_fast(listener, host)

    def _too_many(self, listener: str, host: str) -> str | None:
        config = self._config()
        if self._by_listener.total() >= config.max_connections:
            return f"{host}: more than max.connections={config.max_connections} connections"
        own = self._own(config)[COUNT].get(listener, INT_MAX)
        if self._by_listener[listener] >= own:
            return f"{host}: more than max.connections={own} connections of listener {listener}"
        most = _per_address(config, host)
        if self._by_host[host] >= most:
            return f"{host}: more than max.connections.per.ip={most} connections"
        return None

    def _too_fast(self, listener: str, host: str) -> Verdict:
        now_ms = self._clock.monotonic_ms()
        quotas = self._quotas()
        close_ms = 0 if quotas is None else quotas.connection_throttle_ms(host, now_ms)
        if close_ms:
            reason = f"{host}: more connections a second than the quota of its address"
            return Verdict(reason, self._keep(close_ms))
        limited = self._limits(listener)
        burst_s = self._windows.burst_s
        wait_ms = max((meter.throttle_ms(1, rate, burst_s, now_ms) for meter, rate in limited), default=0)
        if wait_ms and self._waiting >= self._config().socket_listen_backlog_size:
            for meter, _ in limited:
                meter.give_back(1)  # or those that are turned away would make the others wait longer
            return Verdict(f"{host}: more connections a second than {RATE}, and many wait already")
        return Verdict(wait_ms=self._wait(wait_ms))

    def _limits(self, listener: str) -> list[tuple[Meter, int]]:
        """The rates of the listener and of the broker, where there are any."""
        config = self._config()
        rates = {listener: self._own(config)[RATE].get(listener, INT_MAX)}
        if listener != self._protected:
            rates[""] = config.max_connection_creation_rate
        return [(self._meters[name], max(rate, 1)) for name, rate in rates.items() if rate < INT_MAX]

    def _own(self, config: Config) -> dict[str, dict[str, int]]:
        """The limits that listeners have for themselves, by setting and listener."""
        if self._limits_of[0] is not config:
            self._limits_of = config, _own_limits(config)
        return self._limits_of[1]

    def _keep(self, close_ms: int) -> int:
        """A moment, so that a client which tries again at once has to wait; not for very many."""
        if self._throttled >= THROTTLED_MAX:
            return 0
        self._throttled += 1
        self._clock.call_later(close_ms, self._on_closed)
        return close_ms

    def _on_closed(self) -> None:
        self._throttled -= 1

    def _wait(self, wait_ms: int) -> int:
        if wait_ms:
            self._waiting += 1
            self._clock.call_later(wait_ms, self._on_waited)
        return wait_ms

    def _on_waited(self) -> None:
        self._waiting -= 1


def _own_limits(config: Config) -> dict[str, dict[str, int]]:
    names = [listener.partition("://")[0] for listener in config.listeners]
    return {setting: {name: _own_limit(config, name, setting) for name in names} for setting in (RATE, COUNT)}


def _own_limit(config: Config, listener: str, setting: str) -> int:
    name = f"listener.name.{listener.lower()}.{setting}"
    text = str(INT_MAX)
    for layer in (config.static, config.dynamic_default, config.dynamic_broker):
        text = layer.get(name, text)
    limit = limit_of(text)
    if limit is None:
        raise InvalidConfig(f"{name}={text[:20]} is not a number from 0 to {INT_MAX}")
    return limit


def _per_address(config: Config, host: str) -> int:
    for override in config.max_connections_per_ip_overrides.split(","):
        address, colon, text = override.strip().rpartition(":")
        limit = limit_of(text)
        if colon and address == host and limit is not None:
            return limit
    return config.max_connections_per_ip
