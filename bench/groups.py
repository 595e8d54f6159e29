"""Many groups that only send heartbeats: a connection for each member, as real clients have it."""

from __future__ import annotations

import asyncio
import resource
import struct
import time

from bench.measure import Measured, Metric, Peer, Scale, cpu_seconds, memory_mb
from tests.compat.raw import Raw

MEMBERS = 3
INTERVAL_S = 3.0
ROUNDS = 3
_SIZE = struct.Struct(">i")
Beat = tuple[str, str, int]  # group, member, generation


def many_groups(peer: Peer, scale: Scale) -> Measured:
    """Groups of three members, one heartbeat every three seconds each."""
    groups = scale(1000, 50)
    _allow_connections(groups * MEMBERS)
    with peer.running({"group.initial.rebalance.delay.ms": 0}) as server, Raw(server.bootstrap) as raw:
        members = [each for i in range(groups) for each in _form_group(server.bootstrap, raw, f"group-{i}")]
        frames = [_frame(raw, *each) for each in members]
        share, memory = asyncio.run(_beat(server.bootstrap, frames, server.pid()))
    return {
        Metric(f"{groups} groups of 3 heartbeating, broker CPU", "% of a core", "lower"): share * 100,
        Metric(f"{groups} groups of 3 heartbeating, memory", "MB", "lower"): memory,
    }


async def _beat(bootstrap: str, frames: list[bytes], pid: int) -> tuple[float, float]:
    """The broker's share of a core and its memory, while every member beats at its own time."""
    host, port = bootstrap.rsplit(":", 1)
    streams = []
    for _ in frames:
        streams.append(await asyncio.open_connection(host, int(port)))
    before, begun = cpu_seconds(pid), time.perf_counter()
    members = [
        _member(*stream, frame, i * INTERVAL_S / len(frames))
        for i, (stream, frame) in enumerate(zip(streams, frames, strict=True))
    ]
    await asyncio.gather(*members)
    share = (cpu_seconds(pid) - before) / (time.perf_counter() - begun)
    memory = memory_mb(pid)
    for _, writer in streams:
        writer.close()
    return share, memory


async def _member(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes, delay_s: float
) -> None:
    await asyncio.sleep(delay_s)
    for _ in range(ROUNDS):
        sent = time.perf_counter()
        writer.write(frame)
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        answer = await reader.readexactly(size)
        if answer[-2:] != b"\0\0":  # the error code
            raise RuntimeError(f"a heartbeat was refused: {answer!r}")
        await asyncio.sleep(max(0.0, sent + INTERVAL_S - time.perf_counter()))


def _form_group(bootstrap: str, raw: Raw, group: str) -> list[Beat]:
    """Three members through one generation; the old join needs no id first."""
    joining = {"group_id": group, "session_timeout": 300_000, "rebalance_timeout": 5000, "member_id": "",
               "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
    connections = [Raw(bootstrap) for _ in range(MEMBERS)]
    try:
        while raw.call("find_coordinator", 2, {"key": group, "key_type": 0})["error_code"] != "NONE":
            pass
        while (first := connections[0].call("join_group", 2, joining))["error_code"] != "NONE":
            pass
        for each in connections[1:]:
            each.send("join_group", 2, joining)
        while len(raw.call("describe_groups", 0, {"groups": [group]})["groups"][0]["members"]) < MEMBERS:
            pass  # else the first one may complete a generation without the last
        connections[0].send("join_group", 2, {**joining, "member_id": first["member_id"]})
        joined = [each.receive("join_group", 2) for each in connections]
        latest = max(each["generation_id"] for each in joined)
        for each, member in zip(connections, joined, strict=True):
            who = {"group_id": group, "generation_id": latest, "member_id": member["member_id"]}
            each.send("sync_group", 1, {**who, "assignments": []})
        for each in connections:
            each.receive("sync_group", 1)
        return [(group, member["member_id"], latest) for member in joined]
    finally:
        for each in connections:
            each.close()


def _frame(raw: Raw, group: str, member: str, generation: int) -> bytes:
    frame = raw.frame("heartbeat", 1, {"group_id": group, "generation_id": generation, "member_id": member})
    return _SIZE.pack(len(frame)) + frame


def _allow_connections(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1000), hard))
