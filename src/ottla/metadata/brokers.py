"""Decisions on brokers: they register, catch up, stop cleanly, vanish; and what that does to partitions.

The record of the broker itself comes last: a decision too large for one entry may be written in parts, and a
controller that finds it half done does the rest.
"""

from collections.abc import Callable, Iterator

from ottla import errors
from ottla.config.settings import Config
from ottla.metadata import leadership
from ottla.metadata.decision import Decision
from ottla.metadata.image import Broker, Image, Partition, changed
from ottla.metadata.records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerStopping,
    BrokerUnfenced,
    BrokerUnregistered,
    Endpoint,
    ProducerIdsAllocated,
    Record,
    SoleReplicasRestarted,
)

PRODUCER_ID_BLOCK = 1000
PRODUCER_ID_MAX = 2**63 - 1


def register(
    broker_id: int,
    incarnation: bytes,
    endpoints: tuple[Endpoint, ...],
    rack: str | None,
    image: Image,
    config: Config,
    *,
    clean: bool,
    ready: bool = False,
    directories: tuple[bytes, ...] = (),
) -> Decision[int]:
    """A broker that starts; its epoch. Without its mark of a clean stop it may lack what was not synced.

    `ready` says that it has read the log already (a broker without a cluster has): it leads at once.
    """
    known = image.brokers.get(broker_id)
    if known is not None and known.incarnation == incarnation:
        return Decision((), known.epoch)
    epoch = image.position
    records: list[Record] = []
    if known is not None:
        gone = frozenset() if clean else frozenset({broker_id})
        if ready:
            records.append(SoleReplicasRestarted(broker_id))
        records += _without(broker_id, image, config, gone, comes_back=ready)
    records.append(BrokerRegistered(broker_id, epoch, incarnation, endpoints, rack, directories))
    if ready:
        records.append(BrokerUnfenced(broker_id))
    return Decision(tuple(records), epoch)


def unfence(broker_id: int, epoch: int, image: Image, config: Config) -> Decision[None]:
    """It has read the log up to its registration: it may lead, and partitions without a leader get one."""
    broker = _known(broker_id, epoch, image)
    if not broker.fenced and not broker.stopping:
        return Decision((), None)
    may_lead = _also(broker_id, image)
    records: list[Record] = []
    for before in image.partitions():
        if broker_id in before.replicas and not may_lead(before.leader):
            unclean = leadership.unclean_allowed(before, image, config)
            records += _changes(before, leadership.elected(before, may_lead, unclean=unclean))
    return Decision((*records, BrokerUnfenced(broker_id)), None)


def lost(broker_id: int, image: Image, config: Config) -> Decision[None]:
    """Its session is over or its port refuses: others lead from now on. Its log is believed to be there."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return Decision((), None)
    changes = _without(broker_id, image, config, frozenset())
    return Decision((*changes, BrokerFenced(broker_id)), None)


def hand_over(broker_id: int, epoch: int, image: Image, config: Config) -> Decision[None]:
    """The first entry of a clean stop: partitions that the broker leads get another leader. Their clients wait for
    it, so it does not wait for the ISRs of all the others (with three replicas twice as many)."""
    _known(broker_id, epoch, image)
    led = (partition for partition in image.partitions() if partition.leader == broker_id)
    may_lead = _except(broker_id, image)
    records = [
        record
        for before in led
        if any(may_lead(replica) for replica in before.isr)
        for record in _moved_away(broker_id, before, image, config)
    ]
    return Decision(tuple(records), None)


def stop(broker_id: int, epoch: int, image: Image, config: Config) -> Decision[bool]:
    """A clean stop: leaders move away while the broker still serves. True when nothing holds it any more."""
    broker = _known(broker_id, epoch, image)
    records: list[Record] = []
    may_lead = _except(broker_id, image)
    held = False
    for before in _led_or_in_sync(broker_id, image):
        if not any(may_lead(replica) for replica in before.isr):
            # The last in sync goes on serving until it stops; then its partitions wait for it.
            held = held or any(may_lead(replica) for replica in before.replicas)
            continue
        records += _moved_away(broker_id, before, image, config)
    if not broker.stopping:
        records.append(BrokerStopping(broker_id))
    return Decision(tuple(records), not held)


def unregister(broker_id: int, image: Image, config: Config) -> Decision[None]:
    """A broker that will not come back."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise errors.BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
    changes = _without(broker_id, image, config, frozenset({broker_id}))
    return Decision((*changes, BrokerUnregistered(broker_id)), None)


def allocate_producer_ids(broker_id: int, epoch: int, image: Image) -> Decision[range]:
    """A block of producer ids for a broker to give out."""
    _known(broker_id, epoch, image)
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK:
        raise errors.UnknownServerError("Producer ids are used up.")
    end = first + PRODUCER_ID_BLOCK
    return Decision((ProducerIdsAllocated(broker_id, end),), range(first, end))


def _known(broker_id: int, epoch: int, image: Image) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise errors.BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
    if broker.epoch != epoch:
        raise errors.StaleBrokerEpoch
    return broker


def _without(
    broker_id: int, image: Image, config: Config, lost: frozenset[int], *, comes_back: bool = False
) -> Iterator[Record]:
    """The broker out of every ISR and lead; out of the eligible ones too when its data may be lost.

    One that `comes_back` at once may be elected again, under a new leader epoch: should the end of its
    log be lost, clients notice by that.
    """
    may_lead = _also(broker_id, image) if comes_back else _except(broker_id, image)
    for before in image.partitions():
        if broker_id not in before.replicas or (comes_back and before.replicas == (broker_id,)):
            continue
        leaves = broker_id in (*before.isr, before.leader) or (lost and broker_id in before.elr)
        helps = comes_back and not may_lead(before.leader)
        if not leaves and not helps:
            continue
        isr = tuple(replica for replica in before.isr if replica != broker_id)
        least = leadership.min_isr(before, image, config)
        # An only replica stays eligible whatever it lost: there is nobody to ask for more.
        gone = lost if len(before.replicas) > 1 else ()
        after = leadership.with_isr(before, isr, least, lost=gone)
        unclean = leadership.unclean_allowed(before, image, config)
        after = leadership.elected(after, may_lead, unclean=unclean)
        yield from _changes(before, after, new_term=before.leader == broker_id)


def _moved_away(broker_id: int, before: Partition, image: Image, config: Config) -> Iterator[Record]:
    """The partition without this broker in its ISR, led by another one."""
    isr = tuple(replica for replica in before.isr if replica != broker_id)
    after = leadership.with_isr(before, isr, leadership.min_isr(before, image, config))
    return _changes(before, leadership.elected(after, _except(broker_id, image)))


def _led_or_in_sync(broker_id: int, image: Image) -> Iterator[Partition]:
    for partition in image.partitions():
        if partition.leader == broker_id or broker_id in partition.isr:
            yield partition


def _changes(before: Partition, after: Partition, *, new_term: bool = False) -> Iterator[Record]:
    final = leadership.with_epochs(before, after, new_term=new_term)
    if final is not None:
        yield changed(final)


def _also(broker_id: int, image: Image) -> Callable[[int], bool]:
    return lambda other: other == broker_id or image.may_lead(other)


def _except(broker_id: int, image: Image) -> Callable[[int], bool]:
    return lambda other: other != broker_id and image.may_lead(other)
