"""Where replicas go: leaders in turn over the brokers, followers on other brokers and other racks."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from ottla import errors
from ottla.metadata.image import Broker
from ottla.metadata.records import Ints


def place(brokers: Iterable[Broker], partitions: int, replicas: int, *, start: int) -> list[Ints]:
    """Replicas of new partitions, the preferred leader first; `start` moves from topic to topic.

    Brokers that are fenced get replicas only when there are not enough others, and never lead.
    """
    known = list(brokers)
    alive = _in_turns(broker for broker in known if broker.may_lead)
    spare = _in_turns(broker for broker in known if not broker.may_lead)
    _check_enough(len(known), len(alive), replicas)
    placed = []
    for number in range(start, start + partitions):
        turn, first = divmod(number, len(alive))
        # With every round over the brokers, followers move on by one, so that the load of a lost
        # broker does not fall on its neighbour alone.
        step = 1 + turn % (len(alive) - 1) if len(alive) > 1 else 1
        others = [alive[(first + step + i) % len(alive)] for i in range(len(alive))]
        rest = [broker for broker in others if broker is not alive[first]]
        placed.append(_spread(alive[first], [*rest, *spare], replicas))
    return placed


def _check_enough(known: int, alive: int, replicas: int) -> None:
    if not alive:
        raise errors.InvalidReplicationFactor(
            f"Unable to replicate the partition {replicas} time(s): All brokers are currently fenced."
        )
    if replicas > known:
        raise errors.InvalidReplicationFactor(
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
            f"{replicas} cannot be reached because only {known} broker(s) are registered."
        )


def _in_turns(brokers: Iterable[Broker]) -> list[Broker]:
    """Brokers by number, one of each rack in turn."""
    racks: dict[str, list[Broker]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(broker.rack or "", []).append(broker)
    rounds = zip_longest(*(racks[name] for name in sorted(racks)))
    return [broker for one_round in rounds for broker in one_round if broker is not None]


def _spread(leader: Broker, others: Sequence[Broker], replicas: int) -> Ints:
    """The leader, then brokers of racks that have the fewest replicas so far, in the order given."""
    chosen = [leader]
    candidates = list(others)
    while len(chosen) < replicas:
        used = [broker.rack for broker in chosen]
        best = min(candidates, key=lambda broker: (broker.fenced or broker.stopping, used.count(broker.rack)))
        candidates.remove(best)
        chosen.append(best)
    return tuple(broker.broker_id for broker in chosen)
