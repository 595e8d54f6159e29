"""Share groups note which topics they have states of; a topic that is deleted goes from their notes."""

from collections import deque

from ottla.coordination.groups import decision as timers
from ottla.coordination.groups import records as r
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.environment import Environment
from ottla.coordination.groups.share_group import ShareGroup
from ottla.coordination.groups.state import GroupState


class DeletedTopics:
    """Looks at all share groups when a topic was deleted, when the shard was loaded, and from time to time: so a crash
    or a log that refuses the record only puts it off. One group at a time, as each record may be large."""

    def __init__(self, environment: Environment, state: GroupState) -> None:
        self._env, self._state = environment, state
        self._concerned: deque[str] = deque()  # soft: groups with notes of deleted topics

    def look(self, decision: Decision) -> None:
        """Soon: the metadata may be in the middle of a change."""
        if self._state.share_groups:
            self._concerned.clear()
            decision.arm(timers.DELETED_TOPICS, 0)

    def on_due(self, decision: Decision) -> None:
        if not self._state.loaded:
            return  # the notes are not complete yet
        if not self._concerned:
            groups = self._state.share_groups.values()
            self._concerned.extend(group.group_id for group in groups if self._is_concerned(group))
        if self._concerned:
            self._forget(self._concerned.popleft(), decision)
        if self._concerned:
            decision.arm(timers.DELETED_TOPICS, 0)

    def _is_concerned(self, group: ShareGroup) -> bool:
        return any(self._env.topics.topic_name(topic_id) is None for topic_id in group.initialized)

    def _forget(self, group_id: str, decision: Decision) -> None:
        group = self._state.share_groups.get(group_id)
        if group is None or not self._is_concerned(group):
            return
        rows = tuple(
            (topic_id, *entry)
            for topic_id, entry in sorted(group.initialized.items())
            if self._env.topics.topic_name(topic_id) is not None
        )
        decision.record(r.ShareStatePartitions(group_id, r.ShareStatePartitionsValue(rows)))
        decision.retry(timers.DELETED_TOPICS)
