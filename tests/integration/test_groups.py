"""Groups over real sockets, request by request."""

import asyncio

import pytest

from ottla.broker.handlers.groups import GOODBYE_MS
from ottla.storage.memory import MemoryDisk
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
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


def test_the_longest_wait_of_a_fetch_is_none_of_a_join():
    """A join waits for the other members, however short a fetch may wait."""

    async def scenario():
        settings = {"ottla_fetch_max_wait_ms": 0, "group_initial_rebalance_delay_ms": 0}
        async with (
            broker([MemoryDisk()], **settings) as (node, client),
            connected(node) as second,
            connected(node) as reader,
        ):
            await client.create("t")
            await client.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]))
            await until(lambda: len(node.broker.groups.shards) == 2)
            joined = await client.call(a_join("g"), 3)
            waiting = asyncio.ensure_future(second.call(a_join("g"), 3))
            await until(lambda: len(node.broker.groups.shard_of("g").machine.state.groups["g"].members) == 2)
            for _ in range(20):
                assert not (await reader.fetch("t", max_wait_ms=2**31 - 1)).records
            assert not waiting.done()
            again = await client.call(a_join("g", member_id=joined.member_id), 3)
            assert (await waiting).error_code == again.error_code == 0

    run(scenario())


async def _joined(client, protocol):
    """Joins alone; what the member sends when it leaves."""
    if protocol == "classic":
        joined = await client.call(a_join("g"), 3)
        member = MemberIdentity(member_id=joined.member_id)
        return LeaveGroupRequest(group_id="g", members=[member]), 3
    beat: dict = {"group_id": "g", "member_id": "m", "topic_partitions": [], "subscribed_topic_names": ["t"]}
    first = ConsumerGroupHeartbeatRequest(member_epoch=0, rebalance_timeout_ms=1000, **beat)
    assert (await client.call(first, 1)).error_code == 0
    return ConsumerGroupHeartbeatRequest(member_epoch=-1, **beat), 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_leaves_is_out_at_once_and_answered_a_little_later(protocol):
    """librdkafka hangs in close() if the answer overtakes the application's note of its last assignment."""

    async def scenario():
        async with broker([MemoryDisk()]) as (node, client), connected(node) as other:
            await client.call(FindCoordinatorRequest(key="g", coordinator_keys=["g"]))
            await until(lambda: len(node.broker.groups.shards) == 2)
            goodbye, version = await _joined(client, protocol)
            held = []
            call_later = node.clock.call_later

            def hold(delay_ms, callback):
                if delay_ms != GOODBYE_MS:
                    return call_later(delay_ms, callback)
                held.append(callback)
                return call_later(3_600_000, lambda: None)

            node.clock.call_later = hold
            left = asyncio.ensure_future(client.call(goodbye, version))
            await until(lambda: held)
            group = node.broker.groups.shard_of("g").machine.state.groups["g"]
            assert not group.members
            for _ in range(20):
                await other.call(MetadataRequest(topics=[]))
            assert not left.done()
            held[0]()
            assert (await left).error_code == 0

    run(scenario())
