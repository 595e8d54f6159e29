"""A real broker inside a test: `with Broker() as broker:`, or several: `with Cluster(brokers=3) as cluster:`.

Imported when first used.
"""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

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

__getattr__ = names_of(__name__, _HOMES)
