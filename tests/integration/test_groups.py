"""Groups over real sockets, request by request."""

import asyncio

from ottla.storage.memory import MemoryDisk
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.integration.nodes import broker, connected, run, until


def a_join(group, **more):
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        **more,
    )


def test_a_heartbeat_of_a_stable_group_is_answered_without_waiting_for_the_next_request():
    """Clients like sarama send one request at a time: what is behind an unanswered heartbeat is never sent."""

    async def scenario():
        async with broker([MemoryDisk()]) as (node, client), connected(node) as other:
            await client.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]))
            await until(lambda: len(node.broker.groups.shards) == 2)
            joined = await client.call(a_join("g"), 3)
            mine = {"group_id": "g", "member_id": joined.member_id, "generation_id": joined.generation_id}
            assigned = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
            assert (await client.call(SyncGroupRequest(assignments=assigned, **mine), 3)).error_code == 0
            heartbeat = asyncio.ensure_future(client.call(HeartbeatRequest(**mine), 3))
            for _ in range(20):  # milliseconds
                await other.call(MetadataRequest(topics=[]))
            assert heartbeat.done() and heartbeat.result().error_code == 0

    run(scenario())
