"""Client quotas: how many bytes a second a client may send and be sent, and how long it waits if it was more.

A client that was quiet may use ten seconds' worth at once, as Kafka's window of ten samples allows. A client over its
quota is told how long it is throttled, and is not heard meanwhile. Unlike a window of samples, which forgets what is
older, a debt is paid in full: one request of a minute's worth costs nearly a minute.
"""

from collections import OrderedDict
from collections.abc import Mapping

from ottla.metadata.records import QuotaEntity

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
ENFORCED = (PRODUCE, FETCH)
USER, CLIENT_ID = "user", "client-id"
BURST_S = 10
METERS_MAX = 10_000  # of the least recently heard the count is forgotten

Entity = tuple[QuotaEntity, ...]
Whose = tuple[str, str, str]  # which quota, and whose bytes are counted together


class Meter:
    """What may still be used; below zero it is a debt."""

    __slots__ = ("_at_ms", "_left")

    def __init__(self) -> None:
        self._left: float | None = None  # all of it, until something was used
        self._at_ms = 0

    def throttle_ms(self, count: int, bytes_per_s: float, now_ms: int) -> int:
        """Takes `count`; how long until the debt is paid."""
        most = bytes_per_s * BURST_S
        left = most if self._left is None else self._left + bytes_per_s * (now_ms - self._at_ms) / 1000
        self._left, self._at_ms = min(left, most) - count, now_ms
        return max(0, round(-self._left / bytes_per_s * 1000))


class Quotas:
    """`rules` are those of the metadata log; `on_changed` tells that they are others now."""

    def __init__(self, rules: Mapping[Entity, Mapping[str, str]]) -> None:
        self._rules = rules
        self._found: dict[Whose, tuple[Whose, float] | None] = {}
        self._meters: OrderedDict[Whose, Meter] = OrderedDict()

    def on_changed(self) -> None:
        self._found.clear()

    def throttle_ms(self, key: str, principal: str, client_id: str, count: int, now_ms: int) -> int:
        """Counts the bytes; how long the client is to be throttled for them."""
        quota = self._quota(key, principal.removeprefix("User:"), client_id)
        if quota is None:
            return 0
        whose, bytes_per_s = quota
        meter = self._meters.get(whose)
        if meter is None:
            meter = self._meters[whose] = Meter()
            if len(self._meters) > METERS_MAX:
                self._meters.popitem(last=False)
        self._meters.move_to_end(whose)
        return meter.throttle_ms(count, bytes_per_s, now_ms)

    def _quota(self, key: str, user: str, client_id: str) -> tuple[Whose, float] | None:
        asked = key, user, client_id
        if asked not in self._found:
            if len(self._found) >= METERS_MAX:
                self._found.clear()
            self._found[asked] = self._look_up(key, user, client_id)
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
                return whose, float(text)
        return None


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
