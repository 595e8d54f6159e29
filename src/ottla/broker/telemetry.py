"""Metrics that clients push (KIP-714): who was told what, when they may push again, and the last push of each.

Soft state: a client that another broker knew is told its subscriptions again. Limits and errors are Kafka's.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from zlib import crc32

from ottla import errors
from ottla.config.client_metrics import INTERVAL_MS_DEFAULT, matchers
from ottla.metadata.image import CLIENT_METRICS_RESOURCE, Image
from ottla.metadata.records import ConfigSet, Record
from ottla.patterns import Pattern, compile_pattern

# The one that was silent longest makes room. Anybody can bring new ones, at 1.5 KB each; a client that is forgotten
# loses nothing but its limit of pushes.
INSTANCES_MAX = 4_096
TEXT_MAX = 256  # characters of a client id, a software name or version that are kept, and matched
KEPT_BYTES_MAX = 4 << 20  # of last pushes, all together
SILENT_MS = 60_000  # or three intervals; then it is forgotten
ALL_METRICS = "*"
ZERO_UUID = bytes(16)
COMPRESSION_TYPES = (4, 3, 1, 2)  # as Kafka prefers them: zstd, lz4, gzip, snappy
NO_COMPRESSION = 0


@dataclass(slots=True)
class Push:
    at_ms: int  # wall clock
    compression_type: int
    metrics: bytes


@dataclass(slots=True)
class Instance:
    """One client. `version` is that of the subscriptions it was told."""

    instance_id: bytes
    about: Mapping[str, str]  # by selector
    principal: str
    version: int
    interval_ms: int
    metrics: tuple[str, ...]
    subscription_id: int
    got_ms: int = -1
    pushed_ms: int = -1
    seen_ms: int = 0
    is_terminating: bool = False
    pushes: int = 0
    last: Push | None = field(default=None, repr=False)

    def may_get(self, now_ms: int) -> bool:
        latest = max(self.got_ms, self.pushed_ms)
        if latest >= 0 and now_ms - latest < self.interval_ms:
            return False
        self.got_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """At once after its subscriptions: clients spread their first push themselves."""
        if self.got_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Telemetry:
    def __init__(self, image: Image, new_uuid: Callable[[], bytes], bytes_max: int) -> None:
        self._image, self._new_uuid, self.bytes_max = image, new_uuid, bytes_max
        self.instances: OrderedDict[bytes, Instance] = OrderedDict()
        self.pushes = self.pushed_bytes = 0
        self._with_push: OrderedDict[bytes, None] = OrderedDict()  # those whose last push is kept
        self._kept_bytes = 0
        self._version = 0
        image.watch(self._on_record)

    def _on_record(self, record: Record) -> None:
        if isinstance(record, ConfigSet) and record.resource_type == CLIENT_METRICS_RESOURCE:
            self._version += 1

    def on_get(self, instance_id: bytes, about: Mapping[str, str], principal: str, now_ms: int) -> Instance:
        """What the client should push; ThrottlingQuotaExceeded if it asks too often."""
        instance = self._instance(instance_id or ZERO_UUID, about, principal, now_ms)
        if not instance.may_get(now_ms):
            raise errors.ThrottlingQuotaExceeded()
        return instance

    def on_push(
        self,
        instance_id: bytes,
        about: Mapping[str, str],
        principal: str,
        push: Push,
        subscription_id: int,
        now_ms: int,
        *,
        terminating: bool,
    ) -> Instance:
        if instance_id == ZERO_UUID:
            raise errors.InvalidRequest("Invalid request, client instance id is invalid")
        instance = self._instance(instance_id, about, principal, now_ms)
        was_terminating, instance.is_terminating = instance.is_terminating, terminating
        if was_terminating:
            raise errors.InvalidRequest("Client should not send any push telemetry after its last one")
        if not instance.may_push(now_ms) and not terminating:
            raise errors.ThrottlingQuotaExceeded()
        if subscription_id != instance.subscription_id:
            raise errors.UnknownSubscriptionId()
        if push.compression_type not in (NO_COMPRESSION, *COMPRESSION_TYPES):
            raise errors.UnsupportedCompressionType()
        if len(push.metrics) > self.bytes_max:
            raise errors.TelemetryTooLarge()
        if push.metrics:
            self._keep(instance, push)
        return instance

    def _instance(
        self, instance_id: bytes, about: Mapping[str, str], principal: str, now_ms: int
    ) -> Instance:
        if instance_id == ZERO_UUID:
            instance_id = self._new_uuid()
        known = self.instances.get(instance_id)
        if known is not None and known.version == self._version:
            known.seen_ms = now_ms
            self.instances.move_to_end(instance_id)
            return known
        named = {name: text[:TEXT_MAX] for name, text in about.items()}
        named["client_instance_id"] = _uuid_text(instance_id)
        interval_ms, metrics = self._subscribed(named)
        checksum = crc32(f"{metrics}{interval_ms}".encode() + instance_id)
        instance = Instance(
            instance_id,
            named,
            principal[:TEXT_MAX],
            self._version,
            interval_ms,
            metrics,
            checksum - (1 << 31),
        )
        if known is not None:
            instance.last, instance.pushes = known.last, known.pushes
        instance.seen_ms = now_ms
        self.instances[instance_id] = instance
        self.instances.move_to_end(instance_id)
        self._forget_silent(now_ms)
        return instance

    def _subscribed(self, about: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
        """The shortest interval, and all metrics, of the subscriptions that match the client.

        A subscription cannot make it push less often than by default: Kafka takes the least of both, too."""
        intervals = [INTERVAL_MS_DEFAULT]
        wanted: dict[str, None] = {}
        for name in subscriptions(self._image):
            settings = self._image.settings(CLIENT_METRICS_RESOURCE, name)
            if not matches(settings.get("match", ""), about):
                continue
            intervals.append(int(settings.get("interval.ms", INTERVAL_MS_DEFAULT)))
            for prefix in settings.get("metrics", "").split(","):
                if prefix.strip():
                    wanted[prefix.strip()] = None
        metrics = (ALL_METRICS,) if ALL_METRICS in wanted else tuple(wanted)
        return min(intervals), metrics

    def _keep(self, instance: Instance, push: Push) -> None:
        self._drop(instance)
        instance.last = push
        instance.pushes += 1
        self.pushes += 1
        self.pushed_bytes += len(push.metrics)
        self._kept_bytes += len(push.metrics)
        self._with_push[instance.instance_id] = None
        self._with_push.move_to_end(instance.instance_id)
        while self._kept_bytes > KEPT_BYTES_MAX and len(self._with_push) > 1:
            self._drop(self.instances[next(iter(self._with_push))])  # it pushed longest ago

    def _drop(self, instance: Instance) -> None:
        if instance.last is not None:
            self._kept_bytes -= len(instance.last.metrics)
            instance.last = None
            self._with_push.pop(instance.instance_id, None)

    def _forget_silent(self, now_ms: int) -> None:
        while self.instances:
            oldest = next(iter(self.instances.values()))
            patience_ms = max(SILENT_MS, 3 * oldest.interval_ms)
            if len(self.instances) <= INSTANCES_MAX and now_ms - oldest.seen_ms < patience_ms:
                return
            self._drop(oldest)
            del self.instances[oldest.instance_id]


def subscriptions(image: Image) -> list[str]:
    return sorted(image.client_metrics)


def matches(text: str, about: Mapping[str, str]) -> bool:
    return all(
        _pattern(pattern).fullmatch(about.get(selector, "")) is not None
        for selector, pattern in matchers(text).items()
    )


@lru_cache(256)
def _pattern(pattern: str) -> Pattern:
    return compile_pattern(pattern)


def _uuid_text(instance_id: bytes) -> str:
    """As Kafka writes UUIDs."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(instance_id).decode().rstrip("=")
