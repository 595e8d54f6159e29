"""Moving replicas: the old and the new ones live side by side until the new ones are in sync."""

from collections.abc import Iterable, Sequence

from ottla import errors
from ottla.config.settings import Config
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.metadata import leadership
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image, Partition, changed
from ottla.metadata.records import Record
from ottla.metadata.topics import check_assignment


@frozen
class Move:
    """`replicas` is where the partition shall be; None gives the running move up."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


def alter_reassignments(
    moves: Iterable[Move], image: Image, config: Config, *, allow_factor_change: bool = True
) -> Decision[list[tuple[Move, ProtocolError | None]]]:
    records: list[Record] = []
    results: list[tuple[Move, ProtocolError | None]] = []
    for move in moves:
        try:
            before = _find(move, image)
            if move.replicas is None:
                after = _given_up(before, image)
            else:
                check_assignment(move.replicas, image)
                _check_factor(before, move.replicas, allow_factor_change)
                after = _begun(before, move.replicas)
            after = settled(after, image, config)
        except ProtocolError as error:
            results.append((move, error))
        else:
            final = leadership.with_epochs(before, after)
            records += [changed(final)] if final is not None else []
            results.append((move, None))
    return Decision(tuple(records), results)


def reassignments(image: Image) -> list[Partition]:
    """Partitions on the move."""
    return [partition for partition in image.partitions() if partition.is_reassigning]


def settled(partition: Partition, image: Image, config: Config) -> Partition:
    """A move comes to its end when all that were added are in sync and somebody that stays is."""
    if not partition.is_reassigning or not set(partition.adding) <= set(partition.isr):
        return partition
    stay = tuple(replica for replica in partition.replicas if replica not in partition.removing)
    isr = tuple(replica for replica in partition.isr if replica in stay)
    if not isr:
        return partition
    elr = tuple(replica for replica in partition.elr if replica in stay)
    last = tuple(replica for replica in partition.last_known_elr if replica in stay)
    done = partition._replace(replicas=stay, isr=isr, elr=elr, last_known_elr=last, adding=(), removing=())
    done = leadership.with_isr(done, isr, leadership.min_isr(done, image, config))
    return leadership.elected(done, image.may_lead)


def _find(move: Move, image: Image) -> Partition:
    if move.topic not in image.topics:
        raise errors.UnknownTopicOrPartition(f"Unable to find a topic named {move.topic}.")
    current = image.partition(move.topic, move.partition)
    if current is None:
        raise errors.UnknownTopicOrPartition(f"Unable to find partition {move.topic}:{move.partition}.")
    return current


def _check_factor(before: Partition, target: Sequence[int], allowed: bool) -> None:
    now = len(before.replicas) - len(before.adding)
    if not allowed and len(target) != now:
        raise errors.InvalidReplicationFactor(
            f"The replication factor is changed from {now} to {len(target)}"
        )


def _begun(before: Partition, target: Sequence[int]) -> Partition:
    """A new goal replaces the one before; what was being added and is not wanted any more is removed."""
    adding = tuple(
        replica for replica in target if replica not in before.replicas or replica in before.adding
    )
    removing = tuple(replica for replica in before.replicas if replica not in target)
    return before._replace(replicas=(*target, *removing), adding=adding, removing=removing)


def _given_up(before: Partition, image: Image) -> Partition:
    if not before.is_reassigning:
        raise errors.NoReassignmentInProgress
    replicas = tuple(replica for replica in before.replicas if replica not in before.adding)
    isr = tuple(replica for replica in before.isr if replica in replicas)
    if not isr:
        raise errors.InvalidReplicaAssignment(
            f"Unable to revert partition {before.topic}-{before.index}: "
            "none of its former replicas is in sync."
        )
    # The former order, and with it the preferred leader: those that were to go came last.
    stayed = [replica for replica in replicas if replica not in before.removing]
    ordered = (*before.removing, *stayed) if before.removing else replicas
    reverted = before._replace(
        replicas=ordered,
        isr=tuple(replica for replica in ordered if replica in isr),
        elr=tuple(replica for replica in before.elr if replica in ordered),
        adding=(),
        removing=(),
    )
    return leadership.elected(reverted, image.may_lead)
