"""Client quotas: what a client may use in a second, and how long it waits if it used more.

A client that was quiet may use ten seconds' worth at once, as Kafka's window of samples allows. A client over its
quota is told how long it is throttled, and is not heard meanwhile. Unlike a window of samples, which forgets what is
older, a debt of bytes is paid in full: one request of a minute's worth costs nearly a minute.
"""

from collections import OrderedDict
from collections.abc import Mapping
from math import isfinite

from ottla.errors import ThrottlingQuotaExceeded
from ottla.frozen import frozen
from ottla.metadata.records import QuotaEntity

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATIONS = "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"
USER, CLIENT_ID, IP = "user", "client-id", "ip"
OF_CLIENTS = (PRODUCE, FETCH, REQUEST, MUTATIONS)
OF_ADDRESSES = (CONNECTIONS,)
METERS_MAX = 10_000  # of the least recently heard the count is forgotten

Entity = tuple[QuotaEntity, ...]
Whose = tuple[str, str, str]  # which quota, and whose use is counted together


@frozen
class Windows:
    """How much may be used at once: quota.window.num and .size.seconds, and the controller's."""

    samples: int = 11
    seconds: int = 1
    mutation_samples: int = 11
    mutation_seconds: int = 1

    @property
    def burst_s(self) -> int:
        """The sample that is under way does not count."""
        return (self.samples - 1) * self.seconds

    @property
    def mutation_burst_s(self) -> int:
        """Kafka's token bucket: all samples."""
        return self.mutation_samples * self.mutation_seconds


class Meter:
    """What may still be used; below zero it is a debt."""

    __slots__ = ("_at_ms", "_left")

    def __init__(self) -> None:
        self._left: float | None = None  # all of it, until something was used
        self._at_ms = 0

    def left(self, per_s: float, burst_s: float, now_ms: int) -> float:
        most = per_s * burst_s
        left = most if self._left is None else self._left + per_s * (now_ms - self._at_ms) / 1000
        self._left, self._at_ms = min(left, most), now_ms
        return self._left

    def throttle_ms(self, count: float, per_s: float, burst_s: float, now_ms: int) -> int:
        """Takes `count`; how long until the debt is paid."""
        left = self._left = self.left(per_s, burst_s, now_ms) - count
        return max(0, round(-left / per_s * 1000))

    def forgive(self, debt_max: float) -> None:
        """No more than this is owed."""
        if self._left is not None:
            self._left = max(self._left, -debt_max)

    def give_back(self, count: float) -> None:
        if self._left is not None:
            self._left += count


class Quotas:
    """`rules` are those of the metadata log; `on_changed` tells that they are others now."""

    def __init__(self, rules: Mapping[Entity, Mapping[str, str]], windows: Windows | None = None) -> None:
        self._rules = rules
        self.windows = windows or Windows()
        self._found: dict[Whose, tuple[Whose, float] | None] = {}
        self._meters: OrderedDict[Whose, Meter] = OrderedDict()
        self.on_changed()

    def on_changed(self) -> None:
        self._found.clear()
        self.keys = frozenset(key for values in self._rules.values() for key in values)
        self._addresses = _address_rates(self._rules)

    def throttle_ms(self, key: str, principal: str, client_id: str, count: int, now_ms: int) -> int:
        """Counts the bytes; how long the client is to be throttled for them."""
        quota = self._quota(key, principal, client_id)
        if quota is None:
            return 0
        whose, bytes_per_s = quota
        return self._meter(whose).throttle_ms(count, bytes_per_s, self.windows.burst_s, now_ms)

    def burst(self, key: str, principal: str, client_id: str) -> float | None:
        """How much may be used at once; None without a quota."""
        quota = self._quota(key, principal, client_id)
        return None if quota is None else quota[1] * self.windows.burst_s

    def request_throttle_ms(self, principal: str, client_id: str, spent_ms: float, now_ms: int) -> int:
        """For the time that a request has taken, of which the quota is a percentage. A throttle lasts one window at
        most, as in Kafka; so does not more than a burst stay owed."""
        quota = self._quota(REQUEST, principal, client_id)
        if quota is None:
            return 0
        whose, percentage = quota
        burst_s, meter = self.windows.burst_s, self._meter(whose)
        throttle_ms = meter.throttle_ms(spent_ms / 10, percentage, burst_s, now_ms)
        meter.forgive(percentage * burst_s)
        return min(throttle_ms, self.windows.seconds * 1000)

    def mutations(
        self, principal: str, client_id: str, now_ms: int, *, is_strict: bool
    ) -> "Mutations | None":
        """What a request's changes of partitions are charged to; None without a quota."""
        quota = self._quota(MUTATIONS, principal, client_id)
        if quota is None:
            return None
        whose, per_s = quota
        return Mutations(self._meter(whose), per_s, self.windows.mutation_burst_s, now_ms, is_strict)

    def connection_throttle_ms(self, address: str, now_ms: int) -> int:
        """Counts a connection of the address. One that is throttled will be closed, and is not counted."""
        per_s = self._addresses.get(_canonical(address), self._addresses.get(None))
        if per_s is None:
            return 0
        meter = self._meter((CONNECTIONS, _canonical(address), ""))
        throttle_ms = meter.throttle_ms(1, per_s, self.windows.burst_s, now_ms)
        if throttle_ms:
            meter.give_back(1)
        return min(throttle_ms, self.windows.seconds * 1000)

    def _meter(self, whose: Whose) -> Meter:
        meter = self._meters.get(whose)
        if meter is None:
            meter = self._meters[whose] = Meter()
            if len(self._meters) > METERS_MAX:
                self._meters.popitem(last=False)
        self._meters.move_to_end(whose)
        return meter

    def _quota(self, key: str, principal: str, client_id: str) -> tuple[Whose, float] | None:
        if key not in self.keys:
            return None
        asked = key, principal.removeprefix("User:"), client_id
        if asked not in self._found:
            if len(self._found) >= METERS_MAX:
                self._found.clear()
            self._found[asked] = self._look_up(*asked)
        return self._found[asked]

    def _look_up(self, key: str, user: str, client_id: str) -> tuple[Whose, float] | None:
        """The most specific of Kafka's eight levels. Who shares a quota is counted together."""
        for user_name, client_name, whose in (
            (user, client_id, (key, user, client_id)),
            (user, DEFAULT, (key, user, client_id)),
            (user, ABSENT, (key, user, "")),
            (DEFAULT, client_id, (key, user, client_id)),
            (DEFAULT, DEFAULT, (key, user, client_id)),
            (DEFAULT, ABSENT, (key, user, "")),
            (ABSENT, client_id, (key, "", client_id)),
            (ABSENT, DEFAULT, (key, "", client_id)),
        ):
            text = self._rules.get(_entity(user_name, client_name), {}).get(key)
            if text is not None:
                return (whose, float(text)) if isfinite(float(text)) else None
        return None


class Mutations:
    """The changes of partitions of one request, charged to its client. A strict one refuses what is beyond the
    quota; the others are for clients that do not know the error, and are throttled afterwards."""

    def __init__(self, meter: Meter, per_s: float, burst_s: float, now_ms: int, is_strict: bool) -> None:
        self._meter, self._per_s, self._burst_s = meter, per_s, burst_s
        self._now_ms, self._is_strict = now_ms, is_strict
        self.throttle_ms = 0

    def charge(self, partitions: int) -> None:
        """A request that begins within the quota may end beyond it, or large topics could never be created."""
        if not self._is_strict:
            self.throttle_ms = self._meter.throttle_ms(partitions, self._per_s, self._burst_s, self._now_ms)
            return
        left = self._meter.left(self._per_s, self._burst_s, self._now_ms)
        if left < 0:
            self.throttle_ms = max(1, round(-left / self._per_s * 1000))
            raise ThrottlingQuotaExceeded()
        self._meter.throttle_ms(partitions, self._per_s, self._burst_s, self._now_ms)


class _Mark:
    pass


DEFAULT, ABSENT = _Mark(), _Mark()


def _entity(user: str | _Mark, client_id: str | _Mark) -> Entity:
    """As it is stored: sorted by kind, the default without a name."""
    parts = []
    for kind, name in ((CLIENT_ID, client_id), (USER, user)):
        if name is not ABSENT:
            parts.append(QuotaEntity(kind, None if name is DEFAULT else str(name)))
    return tuple(parts)


def _address_rates(rules: Mapping[Entity, Mapping[str, str]]) -> dict[str | None, float]:
    """Connections a second, by address; None is every other address."""
    rates: dict[str | None, float] = {}
    for entity, values in rules.items():
        if len(entity) == 1 and entity[0].kind == IP and CONNECTIONS in values:
            name = entity[0].name
            rates[None if name is None else _canonical(name)] = float(values[CONNECTIONS])
    return rates


def _canonical(address: str) -> str:
    """One way of writing for each address; an IPv4 client of an IPv6 socket keeps its own."""
    from ipaddress import ip_address  # takes 2 ms, and a start needs none

    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
