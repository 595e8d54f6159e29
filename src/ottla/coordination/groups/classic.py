"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of one group.

JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4, LeaveGroup 0-5. Assignments and subscriptions are opaque here;
cooperative.py alone looks into them.
"""

from collections import deque
from dataclasses import replace

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups.classic_group import ClassicGroup, ClassicMember, Protocols, State
from ottla.coordination.groups.cooperative import hold_ms, is_held, members_giving_up
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.rebalance import Rebalance, join_error, joined, roster
from ottla.effects import Token
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_FROM = 4  # JoinGroup version
SKIP_ASSIGNMENT_FROM = 9
ID_PREFIX_MAX = 255  # of a member id; a client's name may have 32,767 characters


class ClassicProtocol:
    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self.rebalance = Rebalance(environment)
        self._handed_out: deque[tuple[ClassicGroup, str]] = deque()  # the latest member ids, used or not

    # JoinGroup

    def on_join(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
        if not group.has_room_for(request.member_id, self._env.settings.group_max_size):
            if group.remove(request.member_id) is not None:
                decision.disarm(timers.session(group.group_id, request.member_id))
            raise errors.GroupMaxSizeReached
        if not group.supports(request.protocol_type, protocols):
            raise errors.InconsistentGroupProtocol
        if request.member_id == "":
            self._join_without_id(group, request, version, client, token, now_ms, decision, protocols)
        elif request.member_id in group.pending:
            member = _member(request, version, request.member_id, client, protocols)
            self._add(group, member, request.protocol_type, token, now_ms, decision)
        else:
            self._join_again(group, request, version, token, now_ms, decision, protocols)

    def _join_without_id(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
        protocols: Protocols,
    ) -> None:
        member_id = new_member_id(request, client, self._env)
        if request.group_instance_id in group.statics:
            self._replace_static(group, member_id, request, version, token, now_ms, decision, protocols)
        elif request.group_instance_id is None and version >= MEMBER_ID_REQUIRED_FROM:
            # So that a client whose answer gets lost does not leave a phantom member behind.
            self._hand_out(group, member_id, request.session_timeout_ms, now_ms, decision)
            decision.reply(token, join_error(errors.MemberIdRequired.code, version, member_id))
        else:
            member = _member(request, version, member_id, client, protocols)
            self._add(group, member, request.protocol_type, token, now_ms, decision)

    def _hand_out(
        self, group: ClassicGroup, member_id: str, session_timeout_ms: int, now_ms: int, decision: Decision
    ) -> None:
        """Ids that nobody joins with cost memory and hold up rebalances: only the latest are remembered.

        A member whose id was forgotten is told UNKNOWN_MEMBER_ID and asks for another one."""
        group.pending.add(member_id)
        decision.arm(timers.session(group.group_id, member_id), session_timeout_ms)
        self._handed_out.append((group, member_id))
        if len(self._handed_out) > self._env.settings.group_pending_members_max:
            oldest_group, oldest_id = self._handed_out.popleft()
            if oldest_id in oldest_group.pending:
                decision.disarm(timers.session(oldest_group.group_id, oldest_id))
                self._forget(oldest_group, oldest_id, now_ms, decision)

    def _forget(self, group: ClassicGroup, member_id: str, now_ms: int, decision: Decision) -> None:
        group.pending.discard(member_id)
        self.rebalance.maybe_complete_join(group, now_ms, decision)

    def _add(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        protocol_type: str,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        if not group.members:
            group.protocol_type = protocol_type
        if group.state is State.PREPARING and group.previous_state is State.EMPTY:
            group.newcomer = True
        member.joining, member.is_new = token, True
        group.add(member)
        # While it waits for its first generation it sends no heartbeats.
        timeout = self._env.settings.group_new_member_join_timeout_ms
        decision.arm(timers.session(group.group_id, member.member_id), timeout)
        self.rebalance.prepare_or_complete(group, now_ms, decision, f"{member.member_id} joins")

    def _join_again(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        version: int,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
        protocols: Protocols,
    ) -> None:
        member = group.validate(request.member_id, request.group_instance_id)
        same = member.protocols == protocols
        if group.state is State.EMPTY:
            raise errors.UnknownMemberId
        if group.state is State.COMPLETING and same:
            # Its answer was lost: it gets the same one. Members that wait in SyncGroup go on waiting.
            decision.reply(token, joined(group, member))
        elif group.state is State.STABLE and same and member.member_id != group.leader:
            decision.reply(token, joined(group, member))
        else:
            # A client that lost its connection joins again: nobody waits for the first answer, but it is given.
            self.rebalance.refuse_waiting(member, errors.RebalanceInProgress.code, decision)
            self._update(member, request, version, protocols)
            member.joining = token
            self.rebalance.prepare_or_complete(group, now_ms, decision, f"{member.member_id} joins again")

    def _update(
        self, member: ClassicMember, request: JoinGroupRequest, version: int, protocols: Protocols
    ) -> None:
        member.join_version = version
        member.protocols = protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = _rebalance_timeout_ms(request)

    def _replace_static(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        version: int,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
        protocols: Protocols,
    ) -> None:
        """A restarted static member: no rebalance if the group is stable and stays on its protocol."""
        assert request.group_instance_id is not None
        old = group.members[group.statics[request.group_instance_id]]
        successor = replace(old, member_id=member_id, joining=None, syncing=None)
        self._update(successor, request, version, protocols)
        draft = group.with_successor(successor)
        why = f"{member_id} replaces {old.member_id}"
        self._env.report(f"group {group.group_id} generation {group.generation}: {why}")
        self.rebalance.refuse_waiting(old, errors.FencedInstanceId.code, decision)
        decision.disarm(timers.session(group.group_id, old.member_id))
        self.rebalance.keep_alive(group, successor, decision)
        if group.state is State.STABLE and draft.select_protocol() == group.protocol:
            group.successors[request.group_instance_id] = successor  # applying the record puts it in
            decision.record(draft.to_record(now_ms))
            decision.reply(token, _taken_over(draft, successor, group.leader, version))
        else:
            group.replace_static(successor)
            successor.joining = token
            self.rebalance.prepare_or_complete(group, now_ms, decision, why)

    # SyncGroup

    def on_sync(
        self,
        group: ClassicGroup,
        request: SyncGroupRequest,
        token: Token[SyncGroupResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        member = group.validate(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise errors.IllegalGeneration
        if request.protocol_type not in (None, group.protocol_type):
            raise errors.InconsistentGroupProtocol
        if request.protocol_name not in (None, group.protocol):
            raise errors.InconsistentGroupProtocol
        if group.state is State.EMPTY:
            raise errors.UnknownMemberId
        if group.state is State.PREPARING:
            raise errors.RebalanceInProgress
        self._synced(group, member, decision)
        if member.syncing is not None:
            code = errors.RebalanceInProgress.code
            decision.reply(member.syncing, SyncGroupResponse(error_code=code))
            member.syncing = None
        if group.state is State.STABLE and not is_held(group, member):
            decision.reply(token, _synced_answer(group, member.assignment))
            return
        member.syncing = token
        if group.state is State.COMPLETING and member.member_id == group.leader:
            self._assign(group, request, now_ms, decision)

    def _synced(self, group: ClassicGroup, member: ClassicMember, decision: Decision) -> None:
        group.unsynced.discard(member.member_id)
        self.rebalance.keep_alive(group, member, decision)
        if not group.unsynced:
            decision.disarm(timers.sync(group.group_id))

    def _assign(
        self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int, decision: Decision
    ) -> None:
        """The leader's assignment is recorded first; then all waiting members are answered. Applying the record
        makes the group stable; if it cannot be written the leader tries again."""
        assignments = {member.member_id: bytes(member.assignment) for member in request.assignments}
        decision.record(group.to_record(now_ms, assignments))
        self._env.report(
            f"group {group.group_id} generation {group.generation}: stable, assigned by {group.leader}"
        )
        # Old assignors forget what a member owned whose last generation is older than another's: never twice in a row.
        group.giving_up = set() if group.was_cut_short else members_giving_up(group, assignments)
        group.was_cut_short = False
        if group.giving_up:
            decision.arm(timers.hold(group.group_id), hold_ms(group))
            decision.retry(timers.hold(group.group_id))
        for member in group.members.values():
            if not is_held(group, member):
                self._answer_sync(group, member, assignments.get(member.member_id, b""), decision)

    def _answer_sync(
        self, group: ClassicGroup, member: ClassicMember, assignment: bytes, decision: Decision
    ) -> None:
        if member.syncing is not None:
            decision.reply(member.syncing, _synced_answer(group, assignment))
            member.syncing = None
            self.rebalance.keep_alive(group, member, decision)

    def on_hold_over(self, group: ClassicGroup, decision: Decision) -> None:
        """Nobody has joined again: the others are not kept from their assignments any longer.

        If the assignment could not be written there is none: then they begin again."""
        group.giving_up.clear()
        if group.state is State.COMPLETING:
            self.rebalance.interrupt_sync(group, decision)
        for member in group.members.values():
            self._answer_sync(group, member, member.assignment, decision)

    # Heartbeat

    def on_heartbeat(
        self,
        group: ClassicGroup,
        request: HeartbeatRequest,
        token: Token[HeartbeatResponse],
        decision: Decision,
    ) -> None:
        member = group.validate(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise errors.IllegalGeneration
        if group.state is State.EMPTY:
            raise errors.UnknownMemberId
        self.rebalance.keep_alive(group, member, decision)
        preparing = group.state is State.PREPARING
        decision.reply(
            token, HeartbeatResponse(error_code=errors.RebalanceInProgress.code if preparing else errors.NONE)
        )

    # LeaveGroup

    def on_leave(
        self, group: ClassicGroup, members: list[MemberIdentity], now_ms: int, decision: Decision
    ) -> list[MemberResponse]:
        answers = []
        departed = []
        for member in members:
            try:
                departed.append(self._leave(group, member, decision))
                code = errors.NONE
            except errors.ProtocolError as error:
                code = error.code
            answers.append(
                MemberResponse(
                    member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code
                )
            )
        if departed:
            self.rebalance.after_removal(group, now_ms, decision, f"{', '.join(departed)} left")
        return answers

    def _leave(self, group: ClassicGroup, identity: MemberIdentity, decision: Decision) -> str:
        if identity.member_id == "":  # an administrator removes a static member
            if identity.group_instance_id not in group.statics:
                raise errors.UnknownMemberId
            member_id = group.statics[identity.group_instance_id]
        elif identity.member_id in group.pending:
            group.pending.discard(identity.member_id)
            decision.disarm(timers.session(group.group_id, identity.member_id))
            return identity.member_id
        else:
            member_id = group.validate(identity.member_id, identity.group_instance_id).member_id
        self.rebalance.drop(group, member_id, decision)
        return member_id

    # Time

    def on_session_timeout(
        self, group: ClassicGroup, member_id: str, now_ms: int, decision: Decision
    ) -> None:
        if member_id in group.pending:
            self._forget(group, member_id, now_ms, decision)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        waits = member.joining is not None or member.syncing is not None
        if waits and not member.is_new:
            return  # its session restarts with the answer that it waits for
        self.rebalance.remove(group, member_id, now_ms, decision, f"the session of {member_id} ended")

    def on_loaded(self, group: ClassicGroup, decision: Decision) -> None:
        for member in group.members.values():
            self.rebalance.keep_alive(group, member, decision)


def new_member_id(request: JoinGroupRequest, client: Client, environment: Environment) -> str:
    prefix = request.group_instance_id or client.client_id
    return f"{prefix[:ID_PREFIX_MAX]}-{environment.new_id()}"


def _member(
    request: JoinGroupRequest, version: int, member_id: str, client: Client, protocols: Protocols
) -> ClassicMember:
    return ClassicMember(
        member_id,
        request.group_instance_id,
        client.client_id,
        client.host,
        _rebalance_timeout_ms(request),
        request.session_timeout_ms,
        protocols,
        join_version=version,
    )


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 has none: the session time-out serves for both."""
    return request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms


def _taken_over(
    group: ClassicGroup, member: ClassicMember, old_leader: str | None, version: int
) -> JoinGroupResponse:
    """A leader that comes back must not assign again. From version 9 the answer says so (skip_assignment); older
    versions name its former member id as the leader."""
    answer = joined(group, member)
    leads = member.member_id == group.leader
    if version >= SKIP_ASSIGNMENT_FROM:
        answer.skip_assignment = leads
        answer.members = roster(group) if leads else []
    else:
        answer.leader = old_leader or ""
        answer.members = []
    return answer


def _synced_answer(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )
