"""Requests of administrators: list, describe and delete groups. Each answers for the groups of this shard."""

from ottla import errors
from ottla.coordination.groups import describe
from ottla.coordination.groups.classic_group import ClassicGroup, State
from ottla.coordination.groups.decision import Decision, GroupEffects
from ottla.coordination.groups.environment import Environment
from ottla.coordination.groups.state import GroupState
from ottla.effects import Token, answer_to
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup


class Administration:
    def __init__(self, environment: Environment, state: GroupState) -> None:
        self._env, self._state = environment, state

    def on_delete_groups(
        self, group_ids: list[str], token: Token[list[DeletableGroupResult]], now_ms: int
    ) -> GroupEffects:
        """Replies with one DeletableGroupResult for each of these groups, which live on this shard."""
        decision = Decision()
        results = []
        for group_id in group_ids:
            code = errors.NONE
            try:
                self._delete(group_id, decision)
            except errors.ProtocolError as error:
                code = error.code
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        decision.reply(token, results)
        return decision.effects()

    def _delete(self, group_id: str, decision: Decision) -> None:
        shared = self._state.share_groups.get(group_id)
        if shared is not None:
            if shared.members:
                raise errors.NonEmptyGroup
            decision.record(*shared.tombstones())
            return
        group = self._state.existing(group_id)
        if group.members or (isinstance(group, ClassicGroup) and group.state is not State.EMPTY):
            raise errors.NonEmptyGroup
        decision.record(*self._state.offsets.tombstones(group_id), *group.tombstones())
        self._env.report(f"group {group_id} dead: deleted")

    def on_list_groups(
        self, request: ListGroupsRequest, token: Token[ListGroupsResponse], now_ms: int
    ) -> GroupEffects:
        groups = [*self._state.groups.values(), *self._state.share_groups.values()]
        listed = describe.listed(groups, request.states_filter, request.types_filter)
        return answer_to(token, ListGroupsResponse(groups=listed))

    def on_describe_groups(
        self, group_ids: list[str], version: int, token: Token[list[DescribedGroup]], now_ms: int
    ) -> GroupEffects:
        """Replies with a list of describe_groups.DescribedGroup."""
        described = [
            describe.described_classic(group_id, self._state.groups.get(group_id), version)
            for group_id in group_ids
        ]
        return answer_to(token, described)

    def on_consumer_group_describe(
        self, group_ids: list[str], token: Token[list[DescribedConsumerGroup]], now_ms: int
    ) -> GroupEffects:
        """Replies with a list of consumer_group_describe.DescribedGroup."""
        described = [
            describe.described_consumer(group_id, self._state.groups.get(group_id), self._env)
            for group_id in group_ids
        ]
        return answer_to(token, described)

    def on_share_group_describe(
        self, group_ids: list[str], token: Token[list[DescribedShareGroup]]
    ) -> GroupEffects:
        """Replies with a list of share_group_describe.DescribedGroup."""
        groups = self._state.share_groups
        described = [
            describe.described_share(group_id, groups.get(group_id), self._env) for group_id in group_ids
        ]
        return answer_to(token, described)
