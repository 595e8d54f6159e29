import asyncio

from ottla.client.core.cluster import Cluster
from ottla.client.core.group.classic import ClassicMember
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.errors import IllegalGeneration
from ottla.wire.messages.heartbeat import HeartbeatResponse


def test_a_rebalance_told_between_two_looks_waits_until_everything_was_let_go() -> None:
    """Joining first and committing afterwards made the next owner read the same records again."""

    async def scenario() -> None:
        member = ClassicMember(Cluster(ConsumerSettings(group_id="g"), LOOP), notify=lambda: None)
        member.owned = frozenset({TopicPartition("t", 0)})
        assert not member.must_revoke_all
        member._needs_join = True  # what a heartbeat's REBALANCE_IN_PROGRESS does
        assert await member.target(0) is None
        assert member._joining is None and member.must_revoke_all

    asyncio.run(scenario())


def test_a_late_answer_about_an_old_generation_does_not_cost_the_new_one() -> None:
    member: ClassicMember

    class Late(Cluster):
        async def ask_coordinator(self, kind, key, request, **options):
            member.generation = 8  # a join ended while the heartbeat was on its way
            return HeartbeatResponse(error_code=IllegalGeneration.code)

    async def scenario() -> None:
        nonlocal member
        member = ClassicMember(Late(ConsumerSettings(group_id="g"), LOOP), notify=lambda: None)
        member.generation, member.member_id = 7, "m"
        await member._heartbeat()
        assert not member.lost and member.member_id == "m"

    asyncio.run(scenario())
