"""Request times under the names that Strimzi's exporter gives to Kafka's: `kafka_network_requestmetrics_*`.

Kafka's quantiles forget old requests. Ours are of the last one to two minutes before a scrape.
"""

import math
import time
from collections.abc import Callable, Iterator

from ottla.broker.metrics import Metrics
from ottla.broker.requests.times import ApiTimes
from ottla.broker.routes import ROUTES
from ottla.errors import error_for
from ottla.exposition import Family, Histogram, Sample
from ottla.server.metrics.catalogue import family

PREFIX = "kafka_network_requestmetrics_"
WINDOW_S = 60.0
QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
PARTS = {
    "totaltimems": "total",
    "requestqueuetimems": "queue",
    "localtimems": "local",
    "remotetimems": "remote",
    "responsequeuetimems": "response_queue",
    "responsesendtimems": "send",
}
Counts = tuple[int, list[int]]  # of all requests, and those by bucket that took a while


class RequestTimes:
    """Remembers the counts of one and of two windows ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._taken_at = -math.inf
        self._before: dict[tuple[int, str], Counts] = {}
        self._latest: dict[tuple[int, str], Counts] = {}

    def families(self, metrics: Metrics) -> Iterator[Family]:
        times = sorted(metrics.times.items())
        names = {key: f'request="{route.api.name}"' for key, route in ROUTES.items()}
        self._maybe_turn(metrics.times)
        for name, part in PARTS.items():
            yield family(
                f"{PREFIX}{name}",
                (sample for key, api in times for sample in self._samples(key, api, part, names[key])),
            )
        yield family(
            f"{PREFIX}requests_total",
            [(f'{{{names[key]},version="{v}"}}', n) for (key, v), n in sorted(metrics.requests.items())],
        )
        errors = sorted(metrics.errors.items())
        yield family(
            f"{PREFIX}errors_total",
            [(f'{{{names[key]},error="{error_for(code).name()}"}}', n) for (key, code), n in errors],
        )

    def _maybe_turn(self, times: dict[int, ApiTimes]) -> None:
        """However many look, and however often: a window is a minute long at least."""
        if self._clock() - self._taken_at < WINDOW_S:
            return
        self._taken_at = self._clock()
        self._before = self._latest
        self._latest = {
            (key, part): _counts(api, getattr(api, part))
            for key, api in times.items()
            for part in PARTS.values()
        }

    def _samples(self, key: int, api: ApiTimes, part: str, labels: str) -> Iterator[Sample]:
        histogram: Histogram = getattr(api, part)
        total, counts = _counts(api, histogram)
        old_total, old_counts = self._before.get((key, part), (0, [0] * len(counts)))
        window = [now - then for now, then in zip(counts, old_counts, strict=True)]
        for text in QUANTILES:
            yield f'{{{labels},quantile="{text}"}}', quantile_ms(float(text), total - old_total, window)
        yield f"_sum{{{labels}}}", histogram.sum_us / 1000
        yield f"_count{{{labels}}}", total


def _counts(api: ApiTimes, histogram: Histogram) -> Counts:
    return sum(api.total.counts), list(histogram.counts)


def quantile_ms(share: float, total: int, counts: list[int]) -> float:
    """Bucket b has what took less than 2**b microseconds; between its bounds a straight line is assumed.

    What is in no bucket took next to nothing. The last bucket has no upper bound: its lower one is told."""
    if total <= 0:
        return math.nan
    rank = share * total
    below = total - sum(counts)
    if rank <= below:
        return 0.0
    for bucket, count in enumerate(counts):
        if count and below + count >= rank:
            low = 1 << (bucket - 1) if bucket else 0
            high = low if bucket == len(counts) - 1 else 1 << bucket
            return (low + (high - low) * (rank - below) / count) / 1000
        below += count
    return math.nan
