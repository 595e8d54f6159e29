"""Naming one thing ten thousand times in a request: no answer grows out of proportion to what was sent."""

import asyncio
import contextlib
import struct
from copy import deepcopy

import pytest

from ottla.broker.routes import ROUTES
from ottla.server.node import memory_disk
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.schema import covers
from tests.integration.nodes import broker, connected, run

TIMES = 10_000
GROWTH_MAX = 24  # bytes of answer for a byte that was sent: an index of four bytes comes back with a message
PARTITIONS = 100
METADATA = "m" * 4_000

# What a field of this name is set to, so that it names something that is there.
NAMES = {
    **dict.fromkeys(("name", "topic", "topic_name", "resource_name", "resource_name_filter"), "t"),
    **dict.fromkeys(("group", "group_id", "groups", "groups_names", "group_ids", "coordinator_keys"), "g"),
    **dict.fromkeys(("transactional_id", "transactional_ids", "v3_and_below_transactional_id"), "x"),
    **dict.fromkeys(("resource_type", "resource_types"), 2),
    **dict.fromkeys(("committed_leader_epoch", "current_leader_epoch", "member_epoch"), -1),
    **dict.fromkeys(("generation_id_or_member_epoch", "replica_id", "timestamp"), -1),
    **dict.fromkeys(("timeout_ms", "session_timeout_ms", "rebalance_timeout_ms"), 10_000),
    **dict.fromkeys(("pattern_type_filter", "operation", "permission_type", "resource_type_filter"), 1),
    "response_partition_limit": 2_000,
    "topic_names": "t",
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "acks": 1,
    "session_epoch": -1,
    "endpoint_type": 1,
    "replicas": 1,
    "broker_ids": 1,
    "member_id": "",
}
# These stop the broker's other work, are answered later, or change who may speak.
LEFT_OUT = {"SaslHandshake", "SaslAuthenticate", "UnregisterBroker"}


def requests_of(route):
    """(where, request once, request ten thousand times) for each array in the request's newest version; once
    with one element in each of the others, once with null, which means all, where that is allowed."""
    for path in paths_to_arrays(route.request, route.version_max):
        for rest_is_null in (False, True):
            once = filled(route.request, route.version_max, path, rest_is_null)
            repeated = deepcopy(once)
            holder = repeated
            for name in path[:-1]:
                holder = getattr(holder, name)[0]
            setattr(holder, path[-1], getattr(holder, path[-1]) * TIMES)
            yield f"{'.'.join(path)}{' rest null' * rest_is_null}", once, repeated


def paths_to_arrays(kind, version, before=()):
    for field in kind.FIELDS:
        if field.array and covers(field.versions, version):
            yield (*before, field.name)
            if isinstance(field.kind, type):
                yield from paths_to_arrays(field.kind, version, (*before, field.name))


def filled(kind, version, path, rest_is_null):
    """One element in each array, known names in it."""
    message = kind()
    for field in kind.FIELDS:
        if not covers(field.versions, version):
            continue
        on_path = path[:1] == (field.name,)
        if isinstance(field.kind, type):
            inner = path[1:] if on_path else ()
            one = getattr(message, field.name)
            if field.array:
                one = filled(field.kind, version, inner, rest_is_null)
        else:
            one = NAMES.get(
                field.name, EMPTY.get(field.kind) if field.array else getattr(message, field.name)
            )
        if field.array:
            one = None if rest_is_null and not on_path and covers(field.nullable, version) else [one]
        setattr(message, field.name, one)
    return message


EMPTY = {"string": "a", "int8": 0, "int16": 0, "int32": 0, "int64": 0, "uuid": bytes(16), "bytes": b""}


async def answer_bytes(client, request, version):
    """The size of the answer; 0 when the connection is closed instead."""
    _, version, frame = client.frame(request, version)
    client.writer.write(frame)
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        (size,) = struct.unpack(">i", await client.reader.readexactly(4))
        await client.reader.readexactly(size)
        return size, len(frame)
    return 0, len(frame)


WITH_LISTS = [
    route
    for route in ROUTES.values()
    if any(field.array and covers(field.versions, route.version_max) for field in route.request.FIELDS)
    and route.api.name not in LEFT_OUT
]


@pytest.mark.parametrize("route", WITH_LISTS, ids=lambda route: route.api.name)
def test_a_thing_named_very_often_does_not_multiply_the_answer(route):
    async def scenario():
        async with broker([memory_disk()], ottla_request_elements_max=100_000) as (node, client):
            await prepare(client)
            for where, once, repeated in requests_of(route):
                async with connected(node) as other:
                    single, _ = await answer_bytes(other, once, route.version_max)
                async with connected(node) as other:
                    size, sent = await answer_bytes(other, repeated, route.version_max)
                assert sent > TIMES
                assert size <= 2 * single + GROWTH_MAX * sent, f"{where}: {sent} bytes sent, {size} came back"

    run(scenario(), 100)


async def prepare(client):
    """A topic with many partitions, and a group with long metadata in its commits."""
    await client.create("t", partitions=PARTITIONS)
    await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=METADATA)
        for index in range(PARTITIONS)
    ]
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)],
    )
    while (await client.call(commit, 9)).topics[0].partitions[0].error_code:
        await asyncio.sleep(0.01)
    await client.produce("t", b"v")
