"""Ottla: a streaming platform that speaks the Kafka protocol. `Producer`, `Consumer` and `Admin` live here.

They are imported when first used, so that `import ottla` costs nothing.
"""

from typing import TYPE_CHECKING, Any

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla import aio as aio
    from ottla import errors as errors
    from ottla import testing as testing
    from ottla.client.admin import Admin as Admin
    from ottla.client.admin.topics import NewTopic as NewTopic
    from ottla.client.consumer import Consumer as Consumer
    from ottla.client.producer import Producer as Producer
    from ottla.client.share_consumer import Acknowledge as Acknowledge
    from ottla.client.share_consumer import ShareConsumer as ShareConsumer
    from ottla.client.values import ConsumerRecord as ConsumerRecord
    from ottla.client.values import GroupMetadata as GroupMetadata
    from ottla.client.values import OffsetAndMetadata as OffsetAndMetadata
    from ottla.client.values import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.client.values import RecordMetadata as RecordMetadata
    from ottla.client.values import TopicPartition as TopicPartition
    from ottla.errors import OttlaError as OttlaError

    __version__: str

_HOMES = {
    "Acknowledge": "ottla.client.share_consumer",
    "Admin": "ottla.client.admin",
    "Consumer": "ottla.client.consumer",
    "ConsumerRecord": "ottla.client.values",
    "GroupMetadata": "ottla.client.values",
    "NewTopic": "ottla.client.admin.topics",
    "OffsetAndMetadata": "ottla.client.values",
    "OffsetAndTimestamp": "ottla.client.values",
    "OttlaError": "ottla.errors",
    "Producer": "ottla.client.producer",
    "RecordMetadata": "ottla.client.values",
    "ShareConsumer": "ottla.client.share_consumer",
    "TopicPartition": "ottla.client.values",
    "aio": "ottla.aio",
    "errors": "ottla.errors",
    "testing": "ottla.testing",
}

__all__ = [
    "Acknowledge",
    "Admin",
    "Consumer",
    "ConsumerRecord",
    "GroupMetadata",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OttlaError",
    "Producer",
    "RecordMetadata",
    "ShareConsumer",
    "TopicPartition",
    "__version__",
    "aio",
    "errors",
    "testing",
]
_lookup = names_of(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ottla")
    return _lookup(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
