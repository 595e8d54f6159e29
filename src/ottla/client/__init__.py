"""The client: Producer, Consumer, Admin. Imported when first used, so that a command line starts quickly."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
