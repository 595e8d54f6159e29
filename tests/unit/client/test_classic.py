import asyncio

from ottla.client.cluster import Cluster
from ottla.client.group.classic import ClassicMember
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition


def test_a_rebalance_told_between_two_looks_waits_until_everything_was_let_go() -> None:
    """Joining first and committing afterwards made the next owner read the same records again."""

    async def scenario() -> None:
        member = ClassicMember(Cluster(ConsumerSettings(group_id="g")), notify=lambda: None)
        member.owned = frozenset({TopicPartition("t", 0)})
        assert not member.must_revoke_all
        member._needs_join = True  # what a heartbeat's REBALANCE_IN_PROGRESS does
        assert await member.target(0) is None
        assert member._joining is None and member.must_revoke_all

    asyncio.run(scenario())
