"""A live group between the two protocols: up with the first consumer-protocol member, down with the last."""

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups import records as r
from ottla.coordination.groups.classic_group import ClassicGroup, ClassicMember
from ottla.coordination.groups.consumer_group import ConsumerGroup, ConsumerMember
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.draft import Draft
from ottla.coordination.groups.environment import Environment
from ottla.coordination.groups.rebalance import Rebalance
from ottla.coordination.groups.subscription import (
    CONSUMER,
    parse_assignment,
    parse_subscription,
    version_of,
    write_assignment,
)


class Migration:
    def __init__(self, environment: Environment, rebalance: Rebalance) -> None:
        self._env = environment
        self._rebalance = rebalance

    def upgrade(self, classic: ClassicGroup, decision: Decision) -> ConsumerGroup:
        """The consumer group that takes over; `release` follows once its first heartbeat was accepted."""
        fresh = ConsumerGroup(classic.group_id)
        decision.record(r.GroupMetadata(classic.group_id, None))
        if not classic.members:
            return fresh
        settings = self._env.settings
        if not settings.can_upgrade:
            raise _cannot_upgrade(classic, "online upgrade is disabled")
        if not classic.is_consumer:
            raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol")
        if len(classic.members) > settings.group_consumer_max_size:
            raise _cannot_upgrade(classic, "the group exceeds the consumer group maximum size")
        try:
            return self._converted(classic, fresh, decision)
        except errors.InvalidRequest as error:
            raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed") from error

    def release(self, classic: ClassicGroup, decision: Decision) -> None:
        """Members that wait in the classic protocol are asked to join again, into the consumer group."""
        for member in classic.members.values():
            self._rebalance.refuse_waiting(member, errors.RebalanceInProgress.code, decision)
            self._rebalance.keep_alive(classic, member, decision)
        decision.disarm_all(timers.session(classic.group_id, member_id) for member_id in classic.pending)
        classic.pending.clear()  # or their end would still be decided for the old group
        decision.disarm(timers.join(classic.group_id), timers.sync(classic.group_id))
        self._env.report(
            f"group {classic.group_id} generation {classic.generation}: now of the consumer protocol"
        )

    def should_downgrade(self, group: ConsumerGroup, leaving: list[str]) -> bool:
        """All that would be left speak the classic protocol."""
        staying = [member for member in group.members.values() if member.member_id not in leaving]
        return (
            self._env.settings.can_downgrade
            and bool(staying)
            and all(member.is_classic for member in staying)
            and len(staying) <= self._env.settings.group_max_size
        )

    def downgrade(self, group: ConsumerGroup, leaving: list[str], now_ms: int, decision: Decision) -> None:
        classic = self._classic(group, leaving)
        decision.record(*group.tombstones())
        decision.record(classic.to_record(now_ms))
        for member in classic.members.values():
            self._rebalance.keep_alive(classic, member, decision)
        # The classic group is there once this is applied; then its members rebalance among themselves.
        decision.arm(timers.rebalance(group.group_id), 0)
        self._env.report(f"group {group.group_id} epoch {group.epoch}: back to the classic protocol")

    def _converted(self, classic: ClassicGroup, fresh: ConsumerGroup, decision: Decision) -> ConsumerGroup:
        """Generation becomes epoch, and everybody has what it had."""
        draft = Draft(fresh, decision)
        group_id, epoch = classic.group_id, classic.generation
        draft.emit(r.ConsumerGroupMetadata(group_id, r.ConsumerGroupMetadataValue(epoch)))
        for member in classic.members.values():
            draft.emit(r.MemberMetadata(group_id, member.member_id, _metadata(classic, member)))
        for member in classic.members.values():
            assigned = self._assigned(member)
            draft.emit(r.TargetAssignmentMember(group_id, member.member_id, assigned))
        draft.emit(r.TargetAssignmentMetadata(group_id, r.TargetAssignmentMetadataValue(epoch)))
        for member in classic.members.values():
            known = draft.group.members[member.member_id]
            assigned = self._assigned(member)
            current = tuple((partition, epoch) for partition in sorted(assigned))
            draft.emit(
                ConsumerMember(known.member_id, known.metadata, epoch, epoch, assigned=current).current(
                    group_id
                )
            )
        return draft.group

    def _assigned(self, member: ClassicMember) -> r.Partitions:
        topics = self._env.topics
        return frozenset(
            (topic_id, number)
            for name, numbers in parse_assignment(member.assignment).items()
            if (topic_id := topics.topic_id(name)) is not None
            for number in numbers
        )

    def _classic(self, group: ConsumerGroup, leaving: list[str]) -> ClassicGroup:
        classic = ClassicGroup(group.group_id, generation=group.epoch, protocol_type=CONSUMER)
        for member in group.members.values():
            old = member.metadata.classic
            if member.member_id in leaving or old is None:
                continue
            partitions: dict[str, list[int]] = {}
            for topic_id, number in member.assigned_partitions:
                if (name := self._env.topics.topic_name(topic_id)) is not None:
                    partitions.setdefault(name, []).append(number)
            classic.add(
                ClassicMember(
                    member.member_id,
                    member.metadata.instance_id,
                    member.metadata.client_id,
                    member.metadata.client_host,
                    member.metadata.rebalance_timeout_ms,
                    old.session_timeout_ms,
                    old.supported_protocols,
                    write_assignment(partitions, version_of(old.supported_protocols[0][1])),
                )
            )
        classic.protocol = classic.select_protocol()
        return classic


def _cannot_upgrade(classic: ClassicGroup, why: str) -> errors.GroupIdNotFound:
    return errors.GroupIdNotFound(
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}."
    )


def _metadata(classic: ClassicGroup, member: ClassicMember) -> r.MemberMetadataValue:
    protocol = classic.protocol if member.metadata(classic.protocol) else member.protocols[0][0]
    subscription = parse_subscription(member.metadata(protocol))
    return r.MemberMetadataValue(
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        "",
        member.rebalance_timeout_ms,
        None,
        r.ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )
