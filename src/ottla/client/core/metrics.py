"""What a client has done so far, under the names of Kafka's own metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class ProducerCounts:
    """Counted by the sender, batch by batch."""

    records: int = 0
    errors: int = 0
    retries: int = 0
    batches: int = 0
    batch_bytes: int = 0
    requests: int = 0
    latency_ms: float = 0.0  # of all answered requests together
    latency_max_ms: float = 0.0
    throttle_ms: int = 0  # as brokers told it: this producer is over its quota
    throttle_max_ms: int = 0

    def named(self) -> dict[str, float]:
        answered = max(self.requests, 1)
        return {
            "record-send-total": self.records,
            "record-error-total": self.errors,
            "record-retry-total": self.retries,
            "batch-total": self.batches,
            "byte-total": self.batch_bytes,
            "batch-size-avg": self.batch_bytes / max(self.batches, 1),
            "records-per-request-avg": self.records / answered,
            "request-total": self.requests,
            "request-latency-avg": self.latency_ms / answered,
            "request-latency-max": self.latency_max_ms,
            "produce-throttle-time-avg": self.throttle_ms / answered,
            "produce-throttle-time-max": self.throttle_max_ms,
            "produce-throttle-time-total": self.throttle_ms,
        }


@dataclass(slots=True)
class ConsumerCounts:
    """Counted where records are handed out, offsets committed and assignments changed."""

    records: int = 0
    bytes: int = 0
    fetches: int = 0
    fetch_ms: float = 0.0
    throttle_ms: int = 0  # as brokers told it: this consumer is over its quota
    throttle_max_ms: int = 0
    commits: int = 0
    failed_commits: int = 0
    rebalances: int = 0
    polls: int = 0

    def named(self) -> dict[str, float]:
        return {
            "records-consumed-total": self.records,
            "bytes-consumed-total": self.bytes,
            "fetch-total": self.fetches,
            "fetch-latency-avg": self.fetch_ms / max(self.fetches, 1),
            "fetch-throttle-time-avg": self.throttle_ms / max(self.fetches, 1),
            "fetch-throttle-time-max": self.throttle_max_ms,
            "fetch-throttle-time-total": self.throttle_ms,
            "commit-total": self.commits,
            "failed-commit-total": self.failed_commits,
            "rebalance-total": self.rebalances,
            "poll-total": self.polls,
        }
