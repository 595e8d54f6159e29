"""The phases of a classic rebalance: prepare, join, sync; and who is out when time is up."""

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups.classic_group import ClassicGroup, ClassicMember, State
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.environment import Environment
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

NULLABLE_PROTOCOL_FROM = 7  # JoinGroup version
STATIC_MEMBERS_WAIT_MS_MIN = 1_000  # a client may ask for a rebalance time-out of 0


class Rebalance:
    """Moves groups through their states. Changes soft state only; what must last goes into records."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment

    def prepare_or_complete(self, group: ClassicGroup, now_ms: int, decision: Decision, why: str) -> None:
        if group.state is State.PREPARING:
            self.maybe_complete_join(group, now_ms, decision)
        else:
            self.prepare(group, now_ms, decision, why)

    def prepare(self, group: ClassicGroup, now_ms: int, decision: Decision, why: str) -> None:
        if group.state is State.COMPLETING:
            for member in group.members.values():
                member.assignment = b""
        self.interrupt_sync(group, decision)
        decision.disarm(timers.sync(group.group_id), timers.hold(group.group_id))
        group.was_cut_short = group.was_cut_short or bool(group.giving_up)
        group.giving_up.clear()
        group.unsynced.clear()
        first = group.state is State.EMPTY
        group.move_to(State.PREPARING)
        self._report(group, f"prepares to rebalance from generation {group.generation}: {why}")
        if first and self._env.settings.group_initial_rebalance_delay_ms > 0:
            self._wait_for_more(group, decision)
        elif first or group.everybody_joined:
            self.complete_join(group, now_ms, decision)
        else:
            decision.arm(timers.join(group.group_id), group.rebalance_timeout_ms)

    def maybe_complete_join(self, group: ClassicGroup, now_ms: int, decision: Decision) -> None:
        """The first rebalance of an empty group ends by its timer alone, unless there is nobody left."""
        if group.state is not State.PREPARING or not group.everybody_joined:
            return
        if group.previous_state is not State.EMPTY or not group.members:
            self.complete_join(group, now_ms, decision)

    def on_join_timeout(self, group: ClassicGroup, now_ms: int, decision: Decision) -> None:
        if group.state is not State.PREPARING:
            return
        if group.previous_state is State.EMPTY and group.newcomer and group.initial_remaining_ms > 0:
            delay = min(group.initial_delay_ms, group.initial_remaining_ms)
            group.newcomer = False
            group.initial_remaining_ms -= delay
            decision.arm(timers.join(group.group_id), delay)
            return
        self.complete_join(group, now_ms, decision)

    def on_sync_timeout(self, group: ClassicGroup, now_ms: int, decision: Decision) -> None:
        """Members that joined this generation and never asked for their assignment are removed."""
        if group.state not in (State.COMPLETING, State.STABLE) or not group.unsynced:
            return
        late = sorted(group.unsynced)
        for member_id in late:
            self.drop(group, member_id, decision)
        self.prepare(group, now_ms, decision, f"no SyncGroup from {', '.join(late)}")

    def complete_join(self, group: ClassicGroup, now_ms: int, decision: Decision) -> None:
        """Starts the generation with the members that have joined; static members may still come back."""
        for member in [member for member in group.members.values() if member.joining is None]:
            if member.instance_id is None:
                self.drop(group, member.member_id, decision)
        if not self._elect_leader(group) and group.members:
            # Only static members, none of them here: their sessions decide.
            delay_ms = max(group.rebalance_timeout_ms, STATIC_MEMBERS_WAIT_MS_MIN)
            decision.arm(timers.join(group.group_id), delay_ms)
            return
        decision.disarm(timers.join(group.group_id))
        group.newcomer = False
        group.unsynced.clear()
        if group.members:
            self._start_generation(group, decision)
        else:
            self._end_last_generation(group, now_ms, decision)

    def remove(self, group: ClassicGroup, member_id: str, now_ms: int, decision: Decision, why: str) -> None:
        """Removes the member; the others rebalance."""
        self.drop(group, member_id, decision)
        self.after_removal(group, now_ms, decision, why)

    def drop(self, group: ClassicGroup, member_id: str, decision: Decision) -> None:
        """Removes the member and answers its waiting requests."""
        member = group.remove(member_id)
        if member is None:
            return
        decision.disarm(timers.session(group.group_id, member_id))
        self.refuse_waiting(member, errors.UnknownMemberId.code, decision)
        self._report(group, f"generation {group.generation}: {member_id} is out")

    def after_removal(self, group: ClassicGroup, now_ms: int, decision: Decision, why: str) -> None:
        if group.state in (State.STABLE, State.COMPLETING):
            self.prepare(group, now_ms, decision, why)
        else:
            self.maybe_complete_join(group, now_ms, decision)

    def refuse_waiting(self, member: ClassicMember, code: int, decision: Decision) -> None:
        if member.joining is not None:
            decision.reply(member.joining, join_error(code, member.join_version, member.member_id))
        if member.syncing is not None:
            decision.reply(member.syncing, SyncGroupResponse(error_code=code))
        member.joining = member.syncing = None

    def keep_alive(self, group: ClassicGroup, member: ClassicMember, decision: Decision) -> None:
        decision.arm(timers.session(group.group_id, member.member_id), member.session_timeout_ms)

    def interrupt_sync(self, group: ClassicGroup, decision: Decision) -> None:
        """Members that wait for their assignments join again."""
        code = errors.RebalanceInProgress.code
        for member in group.members.values():
            if member.syncing is not None:
                answer = SyncGroupResponse(error_code=code)
                decision.reply(member.syncing, answer)
                member.syncing = None
                self.keep_alive(group, member, decision)

    # Below: the steps

    def _wait_for_more(self, group: ClassicGroup, decision: Decision) -> None:
        delay = self._env.settings.group_initial_rebalance_delay_ms
        group.newcomer = False
        group.initial_delay_ms = delay
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay, 0)
        decision.arm(timers.join(group.group_id), delay)

    def _elect_leader(self, group: ClassicGroup) -> bool:
        """A leader that has joined; a static leader that is away gives way."""
        leader = group.members.get(group.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        present = next((member for member in group.members.values() if member.joining is not None), None)
        if present is None:
            return False
        group.leader = present.member_id
        return True

    def _start_generation(self, group: ClassicGroup, decision: Decision) -> None:
        group.generation += 1
        group.protocol = group.select_protocol()
        group.move_to(State.COMPLETING)
        self._report(
            group,
            f"generation {group.generation}: {len(group.members)} members, "
            f"leader {group.leader}, protocol {group.protocol}",
        )
        for member in group.members.values():
            if member.joining is not None:
                decision.reply(member.joining, joined(group, member))
            member.joining = None
            member.is_new = False
            group.unsynced.add(member.member_id)
            self.keep_alive(group, member, decision)
        decision.arm(timers.sync(group.group_id), group.rebalance_timeout_ms)

    def _end_last_generation(self, group: ClassicGroup, now_ms: int, decision: Decision) -> None:
        """Nobody is left. Applying the record makes the group empty; if it cannot be written, the group goes on
        preparing and this is decided again."""
        decision.disarm(timers.sync(group.group_id))
        decision.record(group.empty_record(now_ms))
        decision.retry(timers.join(group.group_id))
        self._report(group, f"generation {group.generation + 1}: empty")

    def _report(self, group: ClassicGroup, event: str) -> None:
        self._env.report(f"group {group.group_id} {event}")


def joined(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """The leader also learns who is in and what each wants."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=roster(group) if member.member_id == group.leader else [],
    )


def roster(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def join_error(code: int, version: int, member_id: str = "") -> JoinGroupResponse:
    name = None if version >= NULLABLE_PROTOCOL_FROM else ""
    return JoinGroupResponse(error_code=code, protocol_name=name, member_id=member_id)
