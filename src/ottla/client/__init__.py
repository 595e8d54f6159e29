"""The client: Producer, Consumer, Admin. Imported when first used, so that a command line starts quickly."""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla.client.admin import Admin as Admin
    from ottla.client.consumer import Consumer as Consumer
    from ottla.client.producer import Producer as Producer

_HOMES = {
    "Admin": "ottla.client.admin",
    "Consumer": "ottla.client.consumer",
    "Producer": "ottla.client.producer",
}

__all__ = ["Admin", "Consumer", "Producer"]

__getattr__ = names_of(__name__, _HOMES)
