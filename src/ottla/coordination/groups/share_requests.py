"""Requests of members of share groups: which group it is, then the protocol decides."""

from ottla import errors
from ottla.coordination.groups import records as r
from ottla.coordination.groups.consumer_group import JOIN_EPOCH
from ottla.coordination.groups.decision import Decision, GroupEffects
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.share import LEAVE_EPOCH, ShareProtocol
from ottla.coordination.groups.share_group import ShareGroup
from ottla.coordination.groups.state import GroupState
from ottla.effects import Effects, Token, answer_to, reply_to
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


class ShareRequests:
    def __init__(self, environment: Environment, state: GroupState, protocol: ShareProtocol) -> None:
        self._env, self._state, self._protocol = environment, state, protocol

    def on_share_group_heartbeat(
        self,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        token: Token[ShareGroupHeartbeatResponse],
        now_ms: int,
    ) -> GroupEffects:
        decision = Decision()
        try:
            self._share_heartbeat(request, client, token, now_ms, decision)
        except errors.ProtocolError as error:
            answer = ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return answer_to(token, answer)
        return decision.effects()

    def _share_heartbeat(
        self,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        token: Token[ShareGroupHeartbeatResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        if not request.group_id.strip():
            raise errors.InvalidRequest("GroupId can't be empty.")
        if not request.member_id.strip():
            raise errors.InvalidRequest("MemberId can't be empty.")
        group = self._state.share_groups.get(request.group_id)
        if group is None and (request.group_id in self._state.groups or request.member_epoch != JOIN_EPOCH):
            raise errors.GroupIdNotFound(f"Group {request.group_id} is not a share group.")
        if request.member_epoch == LEAVE_EPOCH and group is not None:
            group.member(request.member_id)
            self._protocol.remove(group, [request.member_id], "left", decision)
            answer = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
            decision.reply(token, answer)
            return
        self._protocol.on_heartbeat(
            group or ShareGroup(request.group_id), request, client, token, now_ms, decision
        )

    def on_share_states(
        self, group_id: str, added: set[str], removed: set[str], token: Token[None]
    ) -> GroupEffects:
        """Topics by name of which the group has states from now on, and has none any more."""
        group = self._state.share_groups.get(group_id)
        noted = {} if group is None else dict(group.initialized)
        for name in added:
            topic_id = self._env.topics.topic_id(name)
            if topic_id is not None:
                noted[topic_id] = (name, tuple(range(self._env.topics.partition_count(name))))
        noted = {topic_id: entry for topic_id, entry in noted.items() if entry[0] not in removed}
        rows = tuple((topic_id, *entry) for topic_id, entry in sorted(noted.items()))
        records: list[r.ShareGroupRecord] = []
        if group is None:
            records.append(r.ShareGroupMetadata(group_id, r.ConsumerGroupMetadataValue(0)))
        records.append(r.ShareStatePartitions(group_id, r.ShareStatePartitionsValue(rows)))
        return Effects(tuple(records), (reply_to(token, None),))
