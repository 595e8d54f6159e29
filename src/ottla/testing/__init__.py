"""A real broker inside a test: `with Broker() as broker:`, or several: `with Cluster(brokers=3) as cluster:`.

Imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.broker import Broker as Broker
    from ottla.testing.cluster import Cluster as Cluster
    from ottla.testing.inspect import Group as Group
    from ottla.testing.inspect import TopicRecord as TopicRecord
    from ottla.testing.waiting import NotInTime as NotInTime

_HOMES = {
    "Broker": "ottla.testing.broker",
    "Cluster": "ottla.testing.cluster",
    "Group": "ottla.testing.inspect",
    "TopicRecord": "ottla.testing.inspect",
    "NotInTime": "ottla.testing.waiting",
}

__all__ = ["Broker", "Cluster", "Group", "NotInTime", "TopicRecord"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
