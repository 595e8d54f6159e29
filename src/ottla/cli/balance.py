"""Where replicas should be: away from a broker that is to go, or evenly over all. Pure: no cluster is asked."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ottla.cli.options import UsageError

P = TypeVar("P")
Places = Mapping[P, Sequence[int]]  # replicas of each partition, the preferred leader first


def drained(now: "Places[P]", broker: int, brokers: Sequence[int]) -> dict[P, list[int]]:
    """Only what is on the broker moves, to whom has least."""
    others = [other for other in brokers if other != broker]
    load = {other: sum(other in replicas for replicas in now.values()) for other in others}
    targets: dict[P, list[int]] = {}
    for where, replicas in now.items():
        if broker not in replicas:
            continue
        able = [other for other in others if other not in replicas]
        if not able:
            raise UsageError(
                f"no other broker can take the replica of {where} on broker {broker}; add a broker first"
            )
        heir = min(able, key=lambda other: (load[other], other))
        load[heir] += 1
        targets[where] = [heir if replica == broker else replica for replica in replicas]
    return targets


def balanced(now: "Places[P]", brokers: Sequence[int]) -> dict[P, list[int]]:
    """As few moves as bring every broker within one replica, and one preferred leader, of the others."""
    places = {where: list(replicas) for where, replicas in now.items()}
    _even_out(places, brokers)
    _spread_leaders(places, brokers)
    return {where: replicas for where, replicas in places.items() if replicas != list(now[where])}


def _even_out(places: dict[P, list[int]], brokers: Sequence[int]) -> None:
    load = {broker: sum(broker in replicas for replicas in places.values()) for broker in brokers}
    while True:
        least, most = min(load, key=lambda b: (load[b], b)), max(load, key=lambda b: (load[b], -b))
        if load[most] - load[least] <= 1:
            return
        moved = _move_one(places, most, least)
        if not moved:
            return
        load[most] -= 1
        load[least] += 1


def _move_one(places: dict[P, list[int]], source: int, target: int) -> bool:
    """A follower rather than a leader: clients notice less."""
    able = [replicas for replicas in places.values() if source in replicas and target not in replicas]
    if not able:
        return False
    replicas = max(able, key=lambda candidate: candidate.index(source))
    replicas[replicas.index(source)] = target
    return True


def _spread_leaders(places: dict[P, list[int]], brokers: Sequence[int]) -> None:
    """By another order of the same replicas. Ends: each swap brings two brokers closer together."""
    leads = dict.fromkeys(brokers, 0)
    for replicas in places.values():
        leads[replicas[0]] += 1
    while True:
        swap = next(
            (
                (replicas, heir)
                for replicas in places.values()
                for heir in replicas[1:]
                if leads[replicas[0]] - leads[heir] > 1
            ),
            None,
        )
        if swap is None:
            return
        replicas, heir = swap
        leads[replicas[0]] -= 1
        leads[heir] += 1
        at = replicas.index(heir)
        replicas[0], replicas[at] = replicas[at], replicas[0]
