"""Groups and offsets by raw requests: both protocols, every version, rightly and wrongly."""

from __future__ import annotations

from typing import Any

from tests.compat.answers import Session
from tests.compat.batches import batch
from tests.compat.raw import ask_until

_PROTOCOLS = [{"name": "range", "metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"}]
_UNKNOWN_ID = "00000000-0000-0000-0000-0000000000ff"


def find_coordinator(s: Session) -> None:
    group = s.name("found")
    for version in s.versions("find_coordinator"):
        for kind in (0, 1, 9) if version else (0,):
            body = {"key": group, "key_type": kind, "coordinator_keys": [group, "another"]}
            _ready(s, body, version)
            s.call("find_coordinator", version, body, f"type {kind}")
        s.call("find_coordinator", version, {"key": "", "key_type": 0, "coordinator_keys": [""]}, "empty")


def the_life_of_a_classic_member(s: Session) -> None:
    for version in s.versions("join_group"):
        group = s.name(f"life-{version}")
        _coordinator(s, group)
        member = _join(s, version, group, note="joined")
        sync = min(version, s.latest("sync_group"))
        s.call("sync_group", sync, _sync(group, member), f"by join {version}")
        s.call("heartbeat", min(version, 4), _beat(group, member), f"by join {version}")
        wrong: dict[str, dict] = {
            "unknown member": {"member_id": "nobody"},
            "old generation": {"generation_id": 0},
        }
        for note, fields in wrong.items():
            s.call(
                "heartbeat", min(version, 4), {**_beat(group, member), **fields}, f"{note}, join {version}"
            )
        s.call(
            "describe_groups",
            min(version, s.latest("describe_groups")),
            {"groups": [group]},
            f"stable, join {version}",
        )
        s.call(
            "leave_group", min(version, s.latest("leave_group")), _leave(group, member), f"by join {version}"
        )
        s.call("describe_groups", s.latest("describe_groups"), {"groups": [group]}, f"left, join {version}")


def joining_wrongly(s: Session) -> None:
    version, group = s.latest("join_group"), s.name("wrong-join")
    _coordinator(s, group)
    # The last one joins, and the group waits for those whom it has given an id: not for longer than a session.
    right = {**_joining(group), "session_timeout": 6000, "rebalance_timeout": 6000}
    first = s.ask("join_group", right, version)
    s.note("an id is required first", {"error": first["error_code"], "has id": bool(first["member_id"])})
    for note, fields in {
        "empty group": {"group_id": ""},
        "session too short": {"session_timeout": 10},
        "session too long": {"session_timeout": 100_000_000},
        "no protocols": {"protocols": []},
        "empty protocol type": {"protocol_type": ""},
        "unknown member": {"member_id": "nobody"},
        "empty instance": {"group_instance_id": ""},
        "instance with a space": {"group_instance_id": "a b"},
    }.items():
        s.call("join_group", version, {**right, **fields}, note)  # type: ignore[dict-item]


def a_second_member_with_other_protocols_is_refused(s: Session) -> None:
    group = s.name("protocols")
    _coordinator(s, group)
    member = _join(s, 3, group, note="first")
    s.call("sync_group", 3, _sync(group, member))
    with s.connect() as other:
        other_protocols = {**_joining(group), "protocols": [{"name": "sticky", "metadata": b""}]}
        s.note("other protocol", other.call("join_group", 3, other_protocols))
        other_type = {**_joining(group), "protocol_type": "connect"}
        s.note("other type", other.call("join_group", 3, other_type))


def static_members(s: Session) -> None:
    version, group = s.latest("join_group"), s.name("static")
    _coordinator(s, group)
    joining = {**_joining(group), "group_instance_id": "one"}
    member = s.ask("join_group", joining, version)
    s.note("joined", member)
    synced = {**_sync(group, member), "group_instance_id": "one"}
    s.call("sync_group", s.latest("sync_group"), synced)
    again = s.ask("join_group", joining, version)
    s.note(
        "back", {"same id": again["member_id"] == member["member_id"], "generation": again["generation_id"]}
    )
    s.call("heartbeat", 4, {**_beat(group, member), "group_instance_id": "one"}, "by the old id")
    s.call("heartbeat", 4, {**_beat(group, again), "group_instance_id": "one"}, "by the new id")
    leaving = {
        "group_id": group,
        "members": [{"member_id": "", "group_instance_id": each} for each in ("one", "two")],
    }
    s.call("leave_group", s.latest("leave_group"), leaving)


def commits_in_every_version(s: Session) -> None:
    name, group = s.topic("commits", partitions=2), s.name("committer")
    _coordinator(s, group)
    topic_id = s.topic_id(name)
    for version in s.versions("offset_commit"):
        s.call("offset_commit", version, _commit(group, name, topic_id, 5 + version), "simple")
        s.call("offset_commit", version, _commit(group, name, topic_id, 5, partition=7), "unknown partition")
        s.call("offset_commit", version, _commit(group, "no-such-topic", _UNKNOWN_ID, 5), "unknown topic")
        for note, fields in {
            "unknown member": {"member_id": "nobody", "generation_id_or_member_epoch": 1},
            "generation without a member": {"generation_id_or_member_epoch": 3},
        }.items():
            s.call("offset_commit", version, {**_commit(group, name, topic_id, 1), **fields}, note)  # type: ignore[dict-item]
        s.call(
            "offset_commit", version, _commit(group, name, topic_id, 5, metadata="m" * 5000), "long metadata"
        )
        s.call("offset_commit", version, _commit(group, name, topic_id, 5, metadata="note"), "metadata")
        s.call("offset_commit", version, _commit("", name, topic_id, 5), "empty group")


def fetched_offsets_in_every_version(s: Session) -> None:
    name, group = s.topic("fetched", partitions=2), s.name("fetcher")
    _coordinator(s, group)
    topic_id = s.topic_id(name)
    s.ask("offset_commit", _commit(group, name, topic_id, 42, metadata="note"))
    for version in s.versions("offset_fetch"):
        one = {"name": name, "topic_id": topic_id, "partition_indexes": [0, 1, 9]}
        other = {"name": "no-such-topic", "topic_id": _UNKNOWN_ID, "partition_indexes": [0]}
        for note, topics in {"named": [one], "unknown": [other], "all": None}.items():
            if topics is None and version < 2:
                continue
            groups = [{"group_id": group, "topics": topics}, {"group_id": s.name("nobody"), "topics": topics}]
            s.call("offset_fetch", version, {"group_id": group, "topics": topics, "groups": groups}, note)


def offsets_of_a_live_group(s: Session) -> None:
    name, group = s.topic("live"), s.name("live")
    _coordinator(s, group)
    topic_id, version = s.topic_id(name), s.latest("offset_commit")
    member = _join(s, s.latest("join_group"), group, note="joined")
    s.call("sync_group", s.latest("sync_group"), _sync(group, member))
    mine = {"member_id": member["member_id"], "generation_id_or_member_epoch": member["generation_id"]}
    s.call("offset_commit", version, {**_commit(group, name, topic_id, 1), **mine}, "by the member")
    s.call("offset_commit", version, _commit(group, name, topic_id, 1), "by a stranger")
    old = {**mine, "generation_id_or_member_epoch": 0}
    s.call("offset_commit", version, {**_commit(group, name, topic_id, 1), **old}, "old generation")
    topics = [{"name": name, "partitions": [{"partition_index": 0}]}]
    s.call("offset_delete", 0, {"group_id": group, "topics": topics}, "of a live group")
    for each in s.versions("delete_groups"):
        s.call("delete_groups", each, {"groups_names": [group, "nobody", ""]}, "live, unknown, empty")


def removing_offsets_and_groups(s: Session) -> None:
    name, group = s.topic("removed", partitions=2), s.name("removed")
    _coordinator(s, group)
    s.ask("offset_commit", _commit(group, name, s.topic_id(name), 3))
    partitions = [{"partition_index": 0}, {"partition_index": 8}]
    topics = [
        {"name": name, "partitions": partitions},
        {"name": "no-such-topic", "partitions": partitions[:1]},
    ]
    s.call("offset_delete", 0, {"group_id": group, "topics": topics})
    s.call("offset_delete", 0, {"group_id": "nobody", "topics": topics}, "unknown group")
    for version in s.versions("delete_groups"):
        again = s.name(f"removed-{version}")
        s.ask("offset_commit", _commit(again, name, s.topic_id(name), 3))
        s.call("delete_groups", version, {"groups_names": [again]}, "with offsets")
        s.call("delete_groups", version, {"groups_names": [again]}, "again")


def a_deleted_topic_takes_its_offsets(s: Session) -> None:
    name, group = s.topic("forgotten"), s.name("forgotten")
    _coordinator(s, group)
    s.ask("offset_commit", _commit(group, name, s.topic_id(name), 3))
    s.ask("delete_topics", {"topics": [{"name": name, "topic_id": None}], "timeout": 30_000})
    s.topic("forgotten")
    topics = [{"name": name, "partition_indexes": [0]}]
    answer = ask_until(  # Apache Kafka forgets a moment later
        lambda: s.ask("offset_fetch", {"groups": [{"group_id": group, "topics": topics}]}, 8),
        lambda answer: answer["groups"][0]["topics"][0]["partitions"][0]["committed_offset"] == -1,
        "the offset is forgotten",
    )
    s.note("afterwards", answer)


def listing_groups(s: Session) -> None:
    name, group = s.topic("listed"), s.name("listed")
    _coordinator(s, group)
    s.ask("offset_commit", _commit(group, name, s.topic_id(name), 3))
    for version in s.versions("list_groups"):
        for note, states, types in (
            ("all", [], []),
            ("empty", ["Empty"], []),
            ("stable", ["Stable"], []),
            ("classic", [], ["classic"]),
            ("consumer", [], ["consumer"]),
            ("unknown state", ["Nonsense"], []),
            ("unknown type", [], ["nonsense"]),
        ):
            answer = s.ask("list_groups", {"states_filter": states, "types_filter": types}, version)
            found = [each for each in answer["groups"] if each["group_id"] == group]
            s.note(f"v{version} {note}", {"error": answer["error_code"], "found": found})
    for version in s.versions("describe_groups"):
        s.call(
            "describe_groups", version, {"groups": [group, s.name("nobody"), ""]}, "empty, unknown, no name"
        )


def the_life_of_a_new_member(s: Session) -> None:
    name = s.topic("new-life", partitions=3)
    s.fence()
    for version in s.versions("consumer_group_heartbeat"):
        group, member = s.name(f"new-{version}"), s.name("AAAAAAAAAAAAAAAAAAAAAA")
        _coordinator(s, group)

        def beat(
            note: str, epoch: int, v: int = version, g: str = group, m: str = member, **fields: Any
        ) -> Any:
            return s.call("consumer_group_heartbeat", v, {**_new_beat(g, m, epoch), **fields}, note)

        joined = beat(
            "joined", 0, subscribed_topic_names=[name], rebalance_timeout=10_000, topic_partitions=[]
        )
        if joined is None or joined["error_code"] != "NONE":
            return
        epoch = joined["member_epoch"]
        owned = [{"topic_id": s.topic_id(name), "partitions": [0, 1, 2]}]
        beat("owns", epoch, topic_partitions=owned)
        for each in s.versions("consumer_group_describe"):
            s.call("consumer_group_describe", each, {"group_ids": [group, "nobody"]}, f"stable {version}")
        s.call(
            "describe_groups", s.latest("describe_groups"), {"groups": [group]}, f"by the old API {version}"
        )
        beat("fenced", epoch + 5)
        beat("epoch of the past", epoch - 1)
        beat("unknown member", 1, m="nobody")
        right = {"subscribed_topic_names": [name], "rebalance_timeout": 1000, "topic_partitions": []}
        beat("unknown assignor", 0, m="other", server_assignor="magic", **right)  # type: ignore[arg-type]
        commit = _commit(group, name, s.topic_id(name), 2)
        for note, number in {"stale": epoch - 1, "right": epoch}.items():
            mine = {"member_id": member, "generation_id_or_member_epoch": number}
            s.call("offset_commit", 9, {**commit, **mine}, f"{note} epoch, heartbeat {version}")
        beat("left", -1)
        for each in s.versions("consumer_group_describe"):
            s.call("consumer_group_describe", each, {"group_ids": [group]}, f"empty {version}")


def new_members_wrongly(s: Session) -> None:
    name, group = s.topic("new-wrong"), s.name("new-wrong")
    _coordinator(s, group)
    s.fence()
    version = s.latest("consumer_group_heartbeat")
    right = {"subscribed_topic_names": [name], "rebalance_timeout": 1000, "topic_partitions": []}
    for note, fields in {
        "empty group": {"group_id": ""},
        "empty member": {"member_id": ""},
        "no topics": {"subscribed_topic_names": None},
        "no timeout": {"rebalance_timeout": -1},
        "owns something already": {"topic_partitions": [{"topic_id": s.topic_id(name), "partitions": [0]}]},
        "wrong pattern": {"subscribed_topic_regex": "(", "subscribed_topic_names": None},
        "empty instance": {"instance_id": ""},
        "empty rack": {"rack_id": ""},
        "static leave of nobody": {"member_epoch": -2, "instance_id": "x"},
    }.items():
        body = {**_new_beat(group, s.name("member"), 0), **right, **fields}  # type: ignore[dict-item]
        s.call("consumer_group_heartbeat", version, body, note)


def records_of_a_partition_are_kept_while_offsets_move(s: Session) -> None:
    """Committed offsets may lie beyond the log, and before it."""
    name, group = s.topic("beyond"), s.name("beyond")
    _coordinator(s, group)
    s.produce(name, batch([b"a", b"b"]))
    for offset in (0, 2, 99, -1, -5):
        s.call("offset_commit", 8, _commit(group, name, s.topic_id(name), offset), f"at {offset}")


def _coordinator(s: Session, group: str) -> None:
    s.coordinator(group, kind=0)


def _ready(s: Session, body: dict[str, Any], version: int) -> None:
    """The first question for a coordinator makes its topic; wait until it has leaders."""
    ask_until(
        lambda: s.ask("find_coordinator", body, version),
        lambda answer: all(
            each["error_code"] != "COORDINATOR_NOT_AVAILABLE" for each in answer.get("coordinators", [answer])
        ),
        "coordinators have leaders",
    )


def _joining(group: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 120_000,  # nobody sends heartbeats here
        "rebalance_timeout": 120_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": _PROTOCOLS,
    }


def _join(s: Session, version: int, group: str, note: str) -> Any:
    answer = s.ask("join_group", _joining(group), version)
    if answer["error_code"] == "MEMBER_ID_REQUIRED":
        answer = s.ask("join_group", {**_joining(group), "member_id": answer["member_id"]}, version)
    s.note(f"{note} v{version}", answer)
    return answer


def _sync(group: str, member: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": member["generation_id"],
        "member_id": member["member_id"],
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member["member_id"], "assignment": b"mine"}],
    }


def _beat(group: str, member: Any) -> dict[str, Any]:
    return {"group_id": group, "generation_id": member["generation_id"], "member_id": member["member_id"]}


def _leave(group: str, member: Any) -> dict[str, Any]:
    leaving = [{"member_id": member["member_id"], "reason": "done"}, {"member_id": "nobody"}]
    return {"group_id": group, "member_id": member["member_id"], "members": leaving}


def _commit(
    group: str, name: str, topic_id: str, offset: int, *, partition: int = 0, metadata: str | None = ""
) -> dict[str, Any]:
    row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": name, "topic_id": topic_id, "partitions": [row]}],
    }


def _new_beat(group: str, member: str, epoch: int) -> dict[str, Any]:
    return {"group_id": group, "member_id": member, "member_epoch": epoch, "rebalance_timeout": -1,
            "subscribed_topic_names": None, "topic_partitions": None}  # fmt: skip
