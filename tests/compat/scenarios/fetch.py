"""Fetch, offsets and epochs by raw requests."""

from __future__ import annotations

from typing import Any

from tests.compat.answers import Session
from tests.compat.batches import NOW_MS, Record, batch

_START = NOW_MS


def fetch_in_every_version(s: Session) -> None:
    name = s.topic("fetch")
    topic_id = s.topic_id(name)
    for values in ([b"a", b"b", b"c"], [b"d"], [b"e", b"f"]):
        s.produce(name, batch(values))
    for version in s.versions("fetch"):
        for offset in range(8):  # inside batches, at the end, beyond it
            s.call("fetch", version, _body(name, topic_id, offset), f"from {offset}")
        s.call("fetch", version, _body(name, topic_id, 0, isolation_level=1), "committed")
        s.call("fetch", version, _body(name, topic_id, 0, partition=4), "unknown partition")
        if version < 13:
            s.call("fetch", version, _body("no-such-topic", topic_id, 0), "unknown topic")
        else:
            unknown = "00000000-0000-0000-0000-0000000000ff"
            s.call("fetch", version, _body(name, unknown, 0), "unknown id")


def fetch_sizes(s: Session) -> None:
    name = s.topic("sizes", partitions=2)
    version, topic_id = s.latest("fetch"), s.topic_id(name)
    for partition in (0, 1):
        for value in (b"x" * 1000, b"y" * 10, b"z" * 10):
            s.produce(name, batch([value]), partition)
    for note, limits in {
        "first batch larger than the partition's limit": {"partition_max_bytes": 10},
        "first batch larger than all limits": {"max_bytes": 10, "partition_max_bytes": 10},
        "two batches": {"partition_max_bytes": 1170},
        "no limit to speak of": {"partition_max_bytes": 1 << 30},
        "zero": {"max_bytes": 0, "partition_max_bytes": 0},
    }.items():
        s.call("fetch", version, _body(name, topic_id, 0, **limits), note)  # type: ignore[arg-type]
        s.call(
            "fetch", version, _body(name, topic_id, 0, partitions=(0, 1), **limits), f"{note}, two partitions"
        )


def fetch_waits_for_min_bytes(s: Session) -> None:
    name = s.topic("waits")
    version, topic_id = s.latest("fetch"), s.topic_id(name)
    s.call("fetch", version, _body(name, topic_id, 0, max_wait=50, min_bytes=1), "nothing comes")
    s.raw.send("fetch", version, _body(name, topic_id, 0, max_wait=20_000, min_bytes=1))
    with s.connect() as writer:
        data = [{"name": name, "partition_data": [{"index": 0, "records": batch([b"now"])}]}]
        writer.call("produce", 9, {"acks": 1, "timeout": 1000, "topic_data": data})
    s.note("something came", s.raw.receive("fetch", version))


def fetch_answers_at_once_or_waits(s: Session) -> None:
    """What was waited for has the record that is written behind the request; what was answered at once has not."""
    for version in (min(s.versions("fetch")), 12, s.latest("fetch")):
        for number, (note, partitions, offset, at_once) in enumerate(
            (
                ("nothing", (), 0, True),
                ("does not exist", (9,), 0, True),
                ("does not exist, and one that does", (9, 0), 0, False),
                ("out of range, and one that is not", (0, 1), 1, True),
                ("the same twice", (0, 0), 0, False),
            )
        ):
            name = s.topic(f"at-once-{version}-{number}", partitions=2)
            topic_id = s.topic_id(name)
            if offset:
                s.produce(name, batch([b"before"]), 1)  # partition 0 has no such offset
            s.raw.send(
                "fetch",
                version,
                _body(name, topic_id, offset, partitions=partitions, max_wait=20_000, min_bytes=1),
            )
            if at_once:
                # A server with several threads may take the write first: let it answer before there is one.
                s.raw.wait_for_answer()
            with s.connect() as writer:
                data = [{"name": name, "partition_data": [{"index": 0, "records": batch([b"now"])}]}]
                writer.call("produce", 9, {"acks": 1, "timeout": 1000, "topic_data": data})
            s.note(f"v{version} {note}", s.raw.receive("fetch", version))


def fetch_a_partition_twice(s: Session) -> None:
    name = s.topic("twice")
    topic_id = s.topic_id(name)
    s.produce(name, batch([b"a"]))
    for version in (12, s.latest("fetch")):
        for offsets in ((0, 55), (55, 0), (0, 1)):
            body = _body(name, topic_id, 0, partitions=(0, 0))
            for row, offset in zip(body["topics"][0]["partitions"], offsets, strict=True):
                row["fetch_offset"] = offset
            s.call("fetch", version, body, f"{offsets}")
            s.call("fetch", version, {**body, "session_epoch": 0}, f"{offsets} in a session")


def fetch_sessions(s: Session) -> None:
    name = s.topic("session", partitions=3)
    version, topic_id = s.latest("fetch"), s.topic_id(name)
    s.produce(name, batch([b"a"]))

    def ask(note: str, session: int, epoch: int, offset: int = 0, **more: Any) -> Any:
        body = _body(name, topic_id, offset, session_id=session, session_epoch=epoch, **more)
        return s.call("fetch", version, body, note)

    opened = ask("opened", 0, 0, partitions=(0, 1))["session_id"]
    ask("nothing new", opened, 1, offset=1, partitions=(0,))
    s.produce(name, batch([b"b"]), 1)
    ask("only what changed", opened, 2, partitions=())
    ask("one more partition", opened, 3, partitions=(2,))
    forgotten = [{"topic": name, "topic_id": topic_id, "partitions": [1]}]
    ask("forgotten", opened, 4, partitions=(), forgotten_topics_data=forgotten)
    ask("wrong epoch", opened, 9, partitions=())
    ask("unknown session", 123_456, 1, partitions=())
    ask("closed", opened, -1, partitions=())
    ask("after it was closed", opened, 5, partitions=())
    ask("full without a session", 0, -1)
    ask("epoch without a session", 0, 5)


def fetch_epochs(s: Session) -> None:
    name = s.topic("epochs")
    version, topic_id = s.latest("fetch"), s.topic_id(name)
    s.produce(name, batch([b"a", b"b"]))
    for epoch in (-1, 0, 1, 7):
        s.call(
            "fetch", version, _body(name, topic_id, 0, current_leader_epoch=epoch), f"leader epoch {epoch}"
        )
        body: dict = {"topics": [{"name": name, "partitions": [_at(-1, current_leader_epoch=epoch)]}]}
        s.call("list_offsets", s.latest("list_offsets"), body, f"leader epoch {epoch}")
    for fetched in (0, 3):
        more: dict = {"current_leader_epoch": 0, "last_fetched_epoch": fetched}
        s.call("fetch", version, _body(name, topic_id, 2, **more), f"last fetched {fetched}")
    for api_version in s.versions("offset_for_leader_epoch"):
        for epoch in (-1, 0, 1):
            partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
            body = {"replica_id": -1, "topics": [{"topic": name, "partitions": [partition]}]}
            s.call("offset_for_leader_epoch", api_version, body, f"epoch {epoch}")
        fenced = {"partition": 0, "current_leader_epoch": 5, "leader_epoch": 0}
        unknown = {"partition": 8, "current_leader_epoch": -1, "leader_epoch": 0}
        body = {"replica_id": -1, "topics": [{"topic": name, "partitions": [fenced, unknown]}]}
        s.call("offset_for_leader_epoch", api_version, body, "refused")


def fetch_after_delete_records(s: Session) -> None:
    name = s.topic("start")
    s.produce(name, batch([b"a", b"b", b"c"]))
    partitions = [{"partition_index": 0, "offset": 2}]
    s.ask("delete_records", {"topics": [{"name": name, "partitions": partitions}], "timeout": 30_000})
    for offset in range(4):
        s.call("fetch", s.latest("fetch"), _body(name, s.topic_id(name), offset), f"from {offset}")
    for timestamp in (-1, -2, -3, 0):
        body = {"replica_id": -1, "topics": [{"name": name, "partitions": [_at(timestamp)]}]}
        s.call("list_offsets", s.latest("list_offsets"), body, f"at {timestamp}")


def list_offsets(s: Session) -> None:
    name = s.topic("offsets")
    # The latest time is in the middle, and inside a batch.
    times = ([0, 10, 20], [50, 90, 40], [60], [70, 70])
    for group in times:
        s.produce(name, batch([Record(b"v", timestamp=_START + each) for each in group]))
    asked = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 1, -99: 1}
    for version in s.versions("list_offsets"):
        for timestamp, since in asked.items():
            if version >= since:
                s.call("list_offsets", version, _ask(name, timestamp), f"special {timestamp}")
        for delta in (-1000, 0, 5, 10, 21, 45, 55, 65, 70, 90, 91):
            s.call("list_offsets", version, _ask(name, _START + delta), f"time {delta}")
        s.call("list_offsets", version, _ask(name, -1, partition=9), "unknown partition")
        s.call("list_offsets", version, _ask("no-such-topic", -1), "unknown topic")
        s.call("list_offsets", version, {**_ask(name, -1), "isolation_level": 1}, "committed")
    empty = s.topic("offsets-of-nothing")
    for timestamp in (-1, -2, -3, 5):
        s.call("list_offsets", s.latest("list_offsets"), _ask(empty, timestamp), f"empty {timestamp}")


def _body(
    name: str,
    topic_id: str,
    offset: int,
    *,
    partition: int = 0,
    partitions: tuple[int, ...] | None = None,
    **more: Any,
) -> dict[str, Any]:
    chosen = (partition,) if partitions is None else partitions
    per_partition = {
        key: more.pop(key)
        for key in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
        if key in more
    }
    rows = [
        {"partition": each, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **per_partition}
        for each in chosen
    ]
    topics = [{"topic": name, "topic_id": topic_id, "partitions": rows}] if rows else []
    base = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 25, "session_epoch": -1}
    return {**base, "topics": topics, **more}


def _at(timestamp: int, partition: int = 0, **more: Any) -> dict[str, Any]:
    return {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1, **more}


def _ask(name: str, timestamp: int, partition: int = 0) -> dict[str, Any]:
    topics = [{"name": name, "partitions": [_at(timestamp, partition)]}]
    return {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": 5000}
