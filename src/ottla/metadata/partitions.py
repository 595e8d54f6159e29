"""Decisions on partitions that exist: proposals of a new ISR (AlterPartition) and asked-for elections."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from ottla import errors
from ottla.config.settings import Config
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.metadata import leadership
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image, Partition, changed
from ottla.metadata.reassignment import settled
from ottla.metadata.records import NO_LEADER, RECOVERED, Record


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@frozen
class IsrProposal:
    """A leader proposes who is in sync: pairs of broker id and broker epoch (-1: not known)."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]
    recovery_state: int = RECOVERED


@frozen
class ProposalResult:
    proposal: IsrProposal
    partition: Partition | None
    """As it is now, when the proposal was taken."""
    error: ProtocolError | None = None


@frozen
class ElectionResult:
    topic: str
    partition: int
    error: ProtocolError | None = None


def alter_partitions(
    broker_id: int, broker_epoch: int, proposals: Iterable[IsrProposal], image: Image, config: Config
) -> Decision[list[ProposalResult]]:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise errors.StaleBrokerEpoch
    records: list[Record] = []
    results: list[ProposalResult] = []
    for proposal in proposals:
        try:
            before = _check_proposal(broker_id, proposal, image)
        except ProtocolError as error:
            results.append(ProposalResult(proposal, None, error))
            continue
        after = _with_proposed(before, proposal, image, config)
        final = leadership.with_epochs(before, after)
        if final is not None:
            records.append(changed(final))
        moved = final is not None and final.leader_epoch != before.leader_epoch
        news = errors.NewLeaderElected() if moved else None
        results.append(ProposalResult(proposal, final or before, news))
    return Decision(tuple(records), results)


def elect_leaders(
    kind: int, wanted: Iterable[tuple[str, int]] | None, image: Image
) -> Decision[list[ElectionResult]]:
    """`wanted` None is every partition, of which only those that changed are answered."""
    if kind not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        raise errors.InvalidRequest(f"Unknown election type {kind}")
    records: list[Record] = []
    results: list[ElectionResult] = []
    every = ((partition.topic, partition.index) for partition in image.partitions())
    for topic, index in every if wanted is None else wanted:
        try:
            after = _elect(topic, index, ElectionType(kind), image)
        except errors.ElectionNotNeeded as error:
            if wanted is not None:
                results.append(ElectionResult(topic, index, error))
        except ProtocolError as error:
            results.append(ElectionResult(topic, index, error))
        else:
            records.append(changed(after))
            results.append(ElectionResult(topic, index))
    return Decision(tuple(records), results)


def rebalance_leaders(image: Image, *, at_most: int) -> Decision[int]:
    """Give preferred leaders their partitions back; how many moved."""
    records: list[Record] = []
    for before in image.partitions():
        final = leadership.with_epochs(before, leadership.preferred(before, image.may_lead))
        if final is not None:
            records.append(changed(final))
        if len(records) >= at_most:
            break
    return Decision(tuple(records), len(records))


def _check_proposal(broker_id: int, proposal: IsrProposal, image: Image) -> Partition:
    topic = image.topics_by_id.get(proposal.topic_id)
    if topic is None:
        raise errors.UnknownTopicId
    if not 0 <= proposal.partition < len(topic.partitions):
        raise errors.UnknownTopicOrPartition
    current = topic.partitions[proposal.partition]
    # A leader that knows a later epoch than we do: this controller has been deposed.
    if proposal.leader_epoch > current.leader_epoch or proposal.partition_epoch > current.partition_epoch:
        raise errors.NotController
    if proposal.leader_epoch < current.leader_epoch:
        raise errors.FencedLeaderEpoch
    if broker_id != current.leader:
        raise errors.InvalidRequest("Only the leader proposes an ISR.")
    if proposal.partition_epoch < current.partition_epoch:
        raise errors.InvalidUpdateVersion
    members = [broker for broker, _ in proposal.isr]
    if len(set(members)) < len(members) or not set(members) <= set(current.replicas):
        raise errors.InvalidRequest("The ISR is no set of replicas of the partition.")
    if current.leader not in members:
        raise errors.InvalidRequest("The leader is in its own ISR.")
    _check_recovery(proposal, current, members)
    _check_eligible(proposal, current, image)
    return current


def _check_recovery(proposal: IsrProposal, current: Partition, members: Sequence[int]) -> None:
    if proposal.recovery_state != RECOVERED and len(members) > 1:
        raise errors.InvalidRequest("A leader that recovers is alone in its ISR.")
    if proposal.recovery_state != RECOVERED and current.recovery_state == RECOVERED:
        raise errors.InvalidRequest("A leader that has recovered does not recover again.")


def _check_eligible(proposal: IsrProposal, current: Partition, image: Image) -> None:
    for broker_id, epoch in proposal.isr:
        broker = image.brokers.get(broker_id)
        stale = broker is not None and epoch not in (-1, broker.epoch)
        # A broker on its way out may stay, not come in.
        unfit = broker is None or broker.fenced or (broker.stopping and broker_id not in current.isr)
        if stale or unfit:
            raise errors.IneligibleReplica(f"Broker {broker_id} cannot be in sync now.")


def _with_proposed(before: Partition, proposal: IsrProposal, image: Image, config: Config) -> Partition:
    least = leadership.min_isr(before, image, config)
    isr = [broker for broker, _ in proposal.isr]
    after = leadership.with_isr(before, isr, least)
    after = after._replace(recovery_state=proposal.recovery_state)
    return settled(after, image, config)


def _elect(topic: str, index: int, kind: ElectionType, image: Image) -> Partition:
    if topic not in image.topics:
        raise errors.UnknownTopicOrPartition(f"No such topic as {topic}")
    before = image.partition(topic, index)
    if before is None:
        raise errors.UnknownTopicOrPartition(f"No such partition as {topic}-{index}")
    if kind is ElectionType.PREFERRED:
        if before.leader == before.replicas[0]:
            raise errors.ElectionNotNeeded("Leader election not needed for topic partition.")
        after = leadership.preferred(before, image.may_lead)
        final = leadership.with_epochs(before, after)
        if final is None:
            raise errors.PreferredLeaderNotAvailable
        return final
    if before.leader != NO_LEADER:
        raise errors.ElectionNotNeeded("Leader election not needed for topic partition.")
    final = leadership.with_epochs(before, leadership.elected(before, image.may_lead, unclean=True))
    if final is None:
        raise errors.EligibleLeadersNotAvailable
    return final
