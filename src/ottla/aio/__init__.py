"""The same clients with `await`: `Producer`, `Consumer`, `ShareConsumer`, `Admin`. All on your loop; no threads."""

from ottla.aio.admin import Admin as Admin
from ottla.aio.consumer import Consumer as Consumer
from ottla.aio.producer import Producer as Producer
from ottla.aio.share_consumer import ShareConsumer as ShareConsumer
from ottla.client.values import OffsetAndTimestamp as OffsetAndTimestamp
from ottla.client.values import TopicPartition as TopicPartition

__all__ = ["Admin", "Consumer", "Producer", "ShareConsumer"]
