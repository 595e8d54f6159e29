"""Server-side assignors: from subscriptions and the last target to the next target. Pure functions."""

from collections.abc import Callable, Mapping

from ottla.coordination.groups.records import NO_PARTITIONS, Partitions
from ottla.frozen import frozen


@frozen
class Subscriber:
    topics: frozenset[bytes]  # ids of topics that exist
    target: Partitions = NO_PARTITIONS  # of the last assignment
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], dict[str, Partitions]]


def by_name(name: str) -> Assignor:
    from ottla.coordination.groups.assignors import range as range_assignor
    from ottla.coordination.groups.assignors import uniform

    return {"uniform": uniform.assign, "range": range_assignor.assign}[name]
