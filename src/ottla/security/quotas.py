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
THROTTLE_MS_MAX = 2**31 - 1  # what an answer can say: 24 days
CLIENT_ID_KEPT_MAX = 256  # characters; of a longer one its digest is kept
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

    __slots__ = ("_at_ms", "_balance")

    def __init__(self) -> None:
        self._balance: float | None = None  # all of it, until something was used
        self._at_ms = 0

    def balance(self, per_s: float, burst_s: float, now_ms: int) -> float:
        most = per_s * burst_s
        balance = most if self._balance is None else self._balance + per_s * (now_ms - self._at_ms) / 1000
        self._balance, self._at_ms = min(balance, most), now_ms
        return self._balance

    def throttle_ms(self, count: float, per_s: float, burst_s: float, now_ms: int) -> int:
        """Takes `count`; how long until the debt is paid."""
        balance = self._balance = self.balance(per_s, burst_s, now_ms) - count
        return _paid_after_ms(balance, per_s)

    def forgive(self, debt_max: float) -> None:
        """No more than this is owed."""
        if self._balance is not None:
            self._balance = max(self._balance, -debt_max)

    def give_back(self, count: float) -> None:
        if self._balance is not None:
            self._balance += count


class Quotas:
    """`rules` are those of the metadata log; `on_changed` tells that they are others now."""

    def __init__(self, rules: Mapping[Entity, Mapping[str, str]], windows: Windows | None = None) -> None:
        self._rules = rules
        self.windows = windows or Windows()
        self._limits_known: dict[Whose, tuple[Whose, float] | None] = {}
        self._meters: OrderedDict[Whose, Meter] = OrderedDict()
        self.on_changed()

    def on_changed(self) -> None:
        self._limits_known.clear()
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
        user = principal.removeprefix("User:")
        asked = key, user, _short(client_id)
        if asked not in self._limits_known:
            if len(self._limits_known) >= METERS_MAX:
                self._limits_known.clear()
            self._limits_known[asked] = self._look_up(key, user, client_id)
        return self._limits_known[asked]

    def _look_up(self, key: str, user: str, client_id: str) -> tuple[Whose, float] | None:
        """The most specific of Kafka's eight levels. Who shares a quota is counted together."""
        short_id = _short(client_id)
        for user_name, client_name, whose in (
            (user, client_id, (key, user, short_id)),
            (user, DEFAULT, (key, user, short_id)),
            (user, ABSENT, (key, user, "")),
            (DEFAULT, client_id, (key, user, short_id)),
            (DEFAULT, DEFAULT, (key, user, short_id)),
            (DEFAULT, ABSENT, (key, user, "")),
            (ABSENT, client_id, (key, "", short_id)),
            (ABSENT, DEFAULT, (key, "", short_id)),
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
        balance = self._meter.balance(self._per_s, self._burst_s, self._now_ms)
        if balance < 0:
            self.throttle_ms = max(1, _paid_after_ms(balance, self._per_s))
            raise ThrottlingQuotaExceeded()
        self._meter.throttle_ms(partitions, self._per_s, self._burst_s, self._now_ms)


def _paid_after_ms(balance: float, per_s: float) -> int:
    """How long until the debt is paid. That may be for ever: a quota of next to nothing shuts its client out."""
    return round(min(max(-balance / per_s * 1000, 0), THROTTLE_MS_MAX))


class _Mark:
    pass


DEFAULT, ABSENT = _Mark(), _Mark()


def _short(client_id: str) -> str:
    """Under which a client is counted: clients choose their ids, of up to 32 KB, and may have a new one each time."""
    if len(client_id) <= CLIENT_ID_KEPT_MAX:
        return client_id
    from hashlib import sha256  # most clients need none

    return sha256(client_id.encode()).hexdigest()


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
