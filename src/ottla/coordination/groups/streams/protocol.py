"""The streams group protocol: StreamsGroupHeartbeat 0, and commits of its members."""

from collections.abc import Container
from dataclasses import dataclass
from hashlib import blake2b

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups.consumer_group import FIRST_COMMIT_VERSION
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.offsets import PartitionCheck, anything
from ottla.coordination.groups.streams import records as r
from ottla.coordination.groups.streams.assignor import AssignmentMember, SubtopologyTasks, assign
from ottla.coordination.groups.streams.checks import check_tasks, described_by, owned_tasks, topology_of
from ottla.coordination.groups.streams.group import JOIN_EPOCH, MemberState, StreamsGroup, StreamsMember
from ottla.coordination.groups.streams.heartbeat import HeartbeatAnswer, endpoints, statuses, task_rows
from ottla.coordination.groups.streams.reconcile import Owners, reconcile
from ottla.coordination.groups.streams.topology import ConfiguredTopology, configured
from ottla.effects import Token
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

NOBODY = r.MemberValue()


class _Draft:
    """The group as it will be once the records of the decision are applied."""

    def __init__(self, group: StreamsGroup, decision: Decision) -> None:
        self.group, self._decision, self._copied = group, decision, False

    @property
    def changed(self) -> bool:
        return self._copied

    def emit(self, record: r.StreamsGroupRecord) -> None:
        if not self._copied:
            self.group, self._copied = self.group.copy(), True
        self.group.apply(record)
        self._decision.record(record)


@dataclass(slots=True)
class _Soft:
    """What a coordinator knows of a group beside its records."""

    topics_version: int = -1
    topology: r.TopologyValue | None = None
    metadata_hash: int = 0
    configured: ConfiguredTopology | None = None
    delayed_until_ms: int = 0  # the first assignment waits for more members
    shutdown_by: str | None = None
    endpoint_epoch: int = 0
    changed_ms: int | None = None


class StreamsProtocol:
    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._soft: dict[str, _Soft] = {}
        self._topics_version = 0

    def on_heartbeat(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        token: Token[HeartbeatAnswer],
        now_ms: int,
        decision: Decision,
        *,
        is_new: bool,
    ) -> None:
        owned = owned_tasks(request)
        before = self._admitted(group, request, owned)
        soft = self._soft_of(group.group_id)
        draft = _Draft(group, decision)
        metadata = described_by(before.metadata if before is not None else NOBODY, request, client)
        bump = before is None or metadata != before.metadata
        if bump:
            draft.emit(r.StreamsMemberMetadata(group.group_id, request.member_id, metadata))
        topology = self._topology(draft, request)
        ready = self._configure(soft, topology)
        if ready.is_ready:
            check_tasks(owned, ready)
        self._maybe_bump(draft, soft, ready, request.member_id, forced=bump)
        self._maybe_delay(group, soft, now_ms, decision)
        why_delayed = self._retarget(draft, soft, ready, now_ms)
        member = self._reconcile(draft, request.member_id, owned, delayed=now_ms < soft.delayed_until_ms)
        self._arm(group.group_id, member, before, decision)
        if request.shutdown_application and soft.shutdown_by is None:
            soft.shutdown_by = request.member_id
        if draft.changed:
            soft.changed_ms = now_ms
        has_news = before is None or request.member_epoch == JOIN_EPOCH or before.assigned != member.assigned
        answer = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._heartbeat_interval_ms(group.group_id, soft, now_ms),
            status=statuses(group, member, ready, why_delayed, soft.shutdown_by),
        )
        if has_news:
            answer.active_tasks = task_rows(member.assigned.active_tasks)
            answer.standby_tasks = task_rows(member.assigned.standby)
            answer.warmup_tasks = task_rows(member.assigned.warmup)
        self._tell_endpoints(answer, draft.group, member, request, soft, has_news=has_news, is_new=is_new)
        decision.reply(token, HeartbeatAnswer(answer, () if ready.is_ready else ready.missing))

    def _admitted(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: r.TasksByRole | None
    ) -> StreamsMember | None:
        """The member as it is known. One that joins may be new; others must know their epoch."""
        if request.member_epoch == JOIN_EPOCH:
            limit = self._env.settings.group_streams_max_size
            if len(group.members) >= limit:
                raise errors.GroupMaxSizeReached(
                    f"The streams group has reached its maximum capacity of {limit} members."
                )
            return group.members.get(request.member_id)
        member = group.member(request.member_id)
        if request.member_epoch == member.epoch:
            return member
        # The answer that carried the new epoch may have got lost.
        lost = request.member_epoch == member.previous_epoch and request.member_epoch < member.epoch
        if not lost or owned is None or not _is_held(owned, member.assigned):
            relation = "greater" if request.member_epoch > member.epoch else "smaller"
            raise errors.FencedMemberEpoch(
                f"The streams group member has a {relation} member epoch ({request.member_epoch}) than the one "
                f"known by the group coordinator ({member.epoch}). The member must abandon all its partitions and "
                "rejoin."
            )
        return member

    def _topology(self, draft: _Draft, request: StreamsGroupHeartbeatRequest) -> r.TopologyValue:
        """The first member brings it. An older one is told so; another one is refused, as in Kafka 4.3."""
        known = draft.group.topology
        if request.topology is None:
            if known is None:
                raise errors.InvalidRequest(f"Group {draft.group.group_id} has no topology.")
            return known
        brought = topology_of(request.topology)
        if known is None:
            draft.emit(r.StreamsTopology(draft.group.group_id, brought))
            return brought
        if brought.epoch >= known.epoch and not _is_same(brought, known):
            raise errors.InvalidRequest("Topology updates are not supported yet.")
        return known

    def _configure(self, soft: _Soft, topology: r.TopologyValue) -> ConfiguredTopology:
        """Looked at again when topics have changed."""
        stale = soft.topics_version != self._topics_version or soft.topology != topology
        if soft.configured is None or stale:
            soft.configured = configured(topology, self._env.topics.partition_count)
            soft.metadata_hash = self._hash(topology)
            soft.topology, soft.topics_version = topology, self._topics_version
        return soft.configured

    def _hash(self, topology: r.TopologyValue) -> int:
        """Changes whenever a topic of the topology comes, goes, grows or moves to other racks. 0 for none."""
        digest, is_empty = blake2b(digest_size=8), True
        for name in sorted(topology.required_topics):
            topic_id, count = self._env.topics.topic_id(name), self._env.topics.partition_count(name)
            if topic_id is not None:
                racks = [sorted(self._env.topics.racks(name, partition)) for partition in range(count)]
                digest.update(repr((name, topic_id, count, racks)).encode())
                is_empty = False
        return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)

    def _maybe_bump(
        self, draft: _Draft, soft: _Soft, ready: ConfiguredTopology, member_id: str, *, forced: bool
    ) -> None:
        group = draft.group
        validated = ready.epoch if ready.is_ready else -1
        configs = self._assignment_configs(group.group_id)
        value = r.GroupValue(group.epoch + 1, soft.metadata_hash, validated, configs)
        known = (group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)
        if forced or known != (soft.metadata_hash, validated, configs):
            draft.emit(r.StreamsGroupMetadata(group.group_id, value))
            self._report(draft.group, f"{len(draft.group.members)} members, heartbeat of {member_id}")

    def _assignment_configs(self, group_id: str) -> tuple[tuple[str, str], ...]:
        standbys = self._env.settings_of(group_id).group_streams_num_standby_replicas
        return (("num.standby.replicas", str(standbys)),)

    def _maybe_delay(self, group: StreamsGroup, soft: _Soft, now_ms: int, decision: Decision) -> None:
        delay_ms = self._env.settings_of(group.group_id).group_streams_initial_rebalance_delay_ms
        if group.is_empty and delay_ms > 0 and now_ms >= soft.delayed_until_ms:
            soft.delayed_until_ms = now_ms + delay_ms
            decision.arm(timers.first_assignment(group.group_id), delay_ms)

    def on_delay_over(self, group: StreamsGroup, now_ms: int, decision: Decision) -> None:
        soft = self._soft_of(group.group_id)
        soft.delayed_until_ms = 0
        if not group.is_empty and group.topology is not None:
            self._retarget(_Draft(group, decision), soft, self._configure(soft, group.topology), now_ms)

    def _retarget(self, draft: _Draft, soft: _Soft, ready: ConfiguredTopology, now_ms: int) -> str | None:
        """A new target for all, if the group has moved on since the last one; why not yet."""
        group = draft.group
        if now_ms < soft.delayed_until_ms:
            return "Assignment delayed due to the configured initial rebalance delay."
        if group.epoch <= group.assignment_epoch:
            return None
        settings = self._env.settings_of(group.group_id)
        interval_ms = settings.group_streams_assignment_interval_ms
        if group.assignment_timestamp_ms and now_ms < group.assignment_timestamp_ms + interval_ms:
            return "Assignment delayed due to the configured assignment interval."
        members = {
            member_id: AssignmentMember(member.metadata.process_id, group.target_of(member_id))
            for member_id, member in group.members.items()
        }
        parts = [
            SubtopologyTasks(part.subtopology_id, part.tasks, part.is_stateful)
            for part in (ready.subtopologies if ready.is_ready else ())
        ]
        for member_id, target in assign(members, parts, settings.group_streams_num_standby_replicas).items():
            if group.targets.get(member_id) != target:
                draft.emit(r.StreamsTargetMember(group.group_id, member_id, target))
        draft.emit(r.StreamsTargetMetadata(group.group_id, r.TargetValue(group.epoch, now_ms)))
        return None

    def _reconcile(
        self, draft: _Draft, member_id: str, owned: r.TasksByRole | None, *, delayed: bool
    ) -> StreamsMember:
        group = draft.group
        member = group.members[member_id]
        if member.is_reconciled_to(group.assignment_epoch):
            return member
        target = r.NOTHING_WANTED if delayed else group.target_of(member_id)
        owners = Owners(group.members.values())
        updated = reconcile(member, target, group.assignment_epoch, owned, owners)
        if updated != member:
            draft.emit(updated.current(group.group_id))
        return updated

    def _tell_endpoints(
        self,
        answer: StreamsGroupHeartbeatResponse,
        group: StreamsGroup,
        member: StreamsMember,
        request: StreamsGroupHeartbeatRequest,
        soft: _Soft,
        *,
        has_news: bool,
        is_new: bool,
    ) -> None:
        """Where the partitions of interactive queries are. Kafka counts from the group's second heartbeat on."""
        epoch = soft.endpoint_epoch
        if has_news and member.metadata.user_endpoint is not None:
            epoch += 1
        if epoch != request.endpoint_information_epoch:
            answer.partitions_by_user_endpoint = endpoints(
                group, member, soft.configured, self._env.topics.partition_count
            )
        if not is_new:
            soft.endpoint_epoch = epoch
        answer.endpoint_information_epoch = soft.endpoint_epoch

    def leave(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, decision: Decision) -> None:
        group.member(request.member_id)
        if request.shutdown_application:
            soft = self._soft_of(group.group_id)
            soft.shutdown_by = soft.shutdown_by or request.member_id
        self.remove(group, request.member_id, "left", decision)

    def remove(self, group: StreamsGroup, member_id: str, why: str, decision: Decision) -> None:
        """Out; its tasks are free. The next heartbeat of any member makes the new target."""
        draft = _Draft(group, decision)
        draft.emit(r.StreamsCurrentAssignment(group.group_id, member_id, None))
        draft.emit(r.StreamsTargetMember(group.group_id, member_id, None))
        draft.emit(r.StreamsMemberMetadata(group.group_id, member_id, None))
        value = r.GroupValue(
            group.epoch + 1, group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        )
        draft.emit(r.StreamsGroupMetadata(group.group_id, value))
        decision.disarm(
            timers.session(group.group_id, member_id), timers.revocation(group.group_id, member_id)
        )
        if draft.group.is_empty:
            self._soft_of(group.group_id).shutdown_by = None
        self._report(draft.group, f"{member_id} {why}")

    def check_commit(
        self,
        group: StreamsGroup,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int | None,
        *,
        transactional: bool,
    ) -> PartitionCheck:
        """Members commit under their epoch; under an older one for tasks that they have had since."""
        if epoch < 0 and group.is_empty:
            return anything
        if transactional and epoch == -1 and member_id == "" and instance_id is None:
            return anything
        member = group.member(member_id)
        if version is not None and version < FIRST_COMMIT_VERSION:
            raise errors.UnsupportedVersion("Members of a streams group commit with version 9 or above.")
        if epoch == member.epoch:
            return anything
        if epoch > member.epoch or group.topology is None:
            raise errors.StaleMemberEpoch
        readers = group.topology.readers()
        held = dict(member.revoking.active) | dict(member.assigned.active)

        def had_it_then(topic_id: bytes, partition: int) -> None:
            name = self._env.topics.topic_name(topic_id) or ""
            task = readers.get(name, ""), partition
            if held.get(task, epoch + 1) > epoch:
                raise errors.StaleMemberEpoch

        return had_it_then

    def configured_of(self, group: StreamsGroup) -> ConfiguredTopology | None:
        return (
            None if group.topology is None else self._configure(self._soft_of(group.group_id), group.topology)
        )

    def on_topics_changed(self) -> None:
        self._topics_version += 1

    def forget(self, group_id: str) -> None:
        self._soft.pop(group_id, None)

    def forget_all_but(self, group_ids: Container[str]) -> None:
        """Groups whose first heartbeat could not be written."""
        self._soft = {group_id: soft for group_id, soft in self._soft.items() if group_id in group_ids}

    def on_loaded(self, group: StreamsGroup, decision: Decision) -> None:
        for member in group.members.values():
            self._arm(group.group_id, member, None, decision)

    def _soft_of(self, group_id: str) -> _Soft:
        return self._soft.setdefault(group_id, _Soft())

    def _arm(
        self, group_id: str, member: StreamsMember, before: StreamsMember | None, decision: Decision
    ) -> None:
        """Its session, and the time it has to give up what it must."""
        session_ms = self._env.settings_of(group_id).group_streams_session_timeout_ms
        decision.arm(timers.session(group_id, member.member_id), session_ms)
        revokes = member.state is MemberState.UNREVOKED_TASKS
        if revokes and (before is None or (before.state, before.epoch) != (member.state, member.epoch)):
            decision.arm(timers.revocation(group_id, member.member_id), member.metadata.rebalance_timeout_ms)
        elif not revokes and before is not None and before.state is MemberState.UNREVOKED_TASKS:
            decision.disarm(timers.revocation(group_id, member.member_id))

    def _heartbeat_interval_ms(self, group_id: str, soft: _Soft, now_ms: int) -> int:
        """Short while the group changes, as for consumer groups."""
        settings = self._env.settings_of(group_id)
        usual = settings.group_streams_heartbeat_interval_ms
        if (
            soft.changed_ms is None
            or now_ms >= soft.changed_ms + settings.group_consumer_short_heartbeat_period_ms
        ):
            return usual
        return min(usual, settings.group_consumer_short_heartbeat_interval_ms)

    def _report(self, group: StreamsGroup, what: str) -> None:
        self._env.report(f"streams group {group.group_id} epoch {group.epoch}: {what}")


def _is_held(owned: r.TasksByRole, held: r.Held) -> bool:
    return owned.active <= held.active_tasks and owned.standby <= held.standby and owned.warmup <= held.warmup


def _is_same(one: r.TopologyValue, other: r.TopologyValue) -> bool:
    """The order of sub-topologies does not matter."""
    return one.epoch == other.epoch and frozenset(one.subtopologies) == frozenset(other.subtopologies)
