"""What a transaction coordinator is told at its start, and what it asks of others."""

from typing import Protocol

from ottla.config.settings import Config
from ottla.frozen import frozen


class ProducerIds(Protocol):
    """Hands out producer ids that nobody has had before."""

    def next_producer_id(self) -> int:
        """Raises a retriable ProtocolError while the next block of ids is on its way."""
        ...


@frozen
class Settings:
    """Apache Kafka's settings and defaults, and the bounds of our own."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    expiry_interval_ms: int = 3_600_000
    sweep_interval_ms: int = 10_000
    transaction_version: int = 2
    """The finalized feature `transaction.version`: it tells how the coordinator itself aborts."""
    ids_max: int = 1_000_000
    tombstones_max: int = 1000
    retry_ms: int = 20
    retry_max_ms: int = 1000

    @classmethod
    def of(cls, config: Config, transaction_version: int = 2) -> "Settings":
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            sweep_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            transaction_version=transaction_version,
        )
