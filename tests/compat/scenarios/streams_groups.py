"""Streams groups (KIP-1071) by raw requests: topologies, epochs, internal topics, statuses, commits."""

from __future__ import annotations

import time
from typing import Any

from tests.compat.answers import Session
from tests.compat.raw import PATIENCE_S
from tests.compat.scenarios.groups import _coordinator

_HEARTBEAT, _DESCRIBE = "streams_group_heartbeat", "streams_group_describe"
_AT_ONCE = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}


def the_life_of_a_streams_member(s: Session) -> None:
    topic, group = s.topic("streams-life", partitions=2), _group(s, "streams-life")
    s.call(_HEARTBEAT, 0, _joining(group, "a", topic), "joins")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 2), "nothing new")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 2, active=[0, 1]), "says what it has")
    s.call(_HEARTBEAT, 0, _joining(group, "a", topic), "joins again")
    _describe(s, group, "stable")
    _list(s, group, "stable")
    s.call("delete_groups", s.latest("delete_groups"), {"groups_names": [group]}, "with a member")
    s.call(_HEARTBEAT, 0, _beat(group, "a", -1), "leaves")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 2), "is out")
    _describe(s, group, "empty")
    _list(s, group, "empty")
    s.call("delete_groups", s.latest("delete_groups"), {"groups_names": [group]}, "without members")
    _describe(s, group, "deleted")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 2), "of no group")
    s.call(_HEARTBEAT, 0, _beat(group, "a", -1), "leaves no group")


def two_streams_members_share_tasks(s: Session) -> None:
    """Who gets which task is each server's choice: how many, and in which steps, is not."""
    topic, group = s.topic("streams-two", partitions=4), _group(s, "streams-two")
    first = s.ask(_HEARTBEAT, _joining(group, "a", topic), 0)
    s.note("first", _counted(first))
    s.note("second", _counted(s.ask(_HEARTBEAT, _joining(group, "b", topic), 0)))
    told = s.ask(_HEARTBEAT, _beat(group, "a", 2, active=[0, 1, 2, 3]), 0)
    s.note("must give up", _counted(told))
    kept = told["active_tasks"][0]["partitions"]
    s.note("too early", _counted(s.ask(_HEARTBEAT, _beat(group, "b", 3, active=[]), 0)))
    s.note("silent", _counted(s.ask(_HEARTBEAT, _beat(group, "a", 2), 0)))
    s.note("has given up", _counted(s.ask(_HEARTBEAT, _beat(group, "a", 2, active=kept), 0)))
    s.note("lost answer", _counted(s.ask(_HEARTBEAT, _beat(group, "a", 2, active=kept), 0)))
    s.note("not its own", _counted(s.ask(_HEARTBEAT, _beat(group, "a", 2, active=[0, 1, 2, 3]), 0)))
    s.note("gets them", _counted(s.ask(_HEARTBEAT, _beat(group, "b", 3, active=[]), 0)))
    described = s.ask(_DESCRIBE, {"group_ids": [group]}, 0)["groups"][0]
    s.note("state", {key: described[key] for key in ("group_state", "group_epoch", "assignment_epoch")})
    s.note("leaves", _counted(s.ask(_HEARTBEAT, _beat(group, "a", -1), 0)))
    rest = [number for number in range(4) if number not in kept]
    s.note("has all", _counted(s.ask(_HEARTBEAT, _beat(group, "b", 3, active=rest), 0)))


def streams_heartbeats_wrongly(s: Session) -> None:
    topic, group = s.topic("streams-wrong", partitions=2), _group(s, "streams-wrong")
    joining = _joining(group, "a", topic)
    part = joining["topology"]["subtopologies"][0]
    wrong: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "no member": {"member_id": ""},
        "empty rack": {"rack_id": ""},
        "instance": {"instance_id": "i"},
        "no time-out": {"rebalance_timeout": -1},
        "no topology": {"topology": None},
        "task offsets": {"task_offsets": []},
        "has tasks": {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
        "no tasks": {"active_tasks": None},
        "epoch -3": {"member_epoch": -3},
        "epoch 7": {"member_epoch": 7},
        "regex": {"topology": _topology([{**part, "source_topic_regex": ["a.*"]}])},
        "internal topic": {"topology": _topology([{**part, "source_topics": ["__consumer_offsets"]}])},
        "bad name": {"topology": _topology([{**part, "source_topics": ["a b"]}])},
        "partitions of a changelog": {
            "topology": _topology([{**part, "state_changelog_topics": [_topic("c", partitions=3)]}])
        },
        "a source that nobody writes": {
            "topology": _topology([{**part, "repartition_source_topics": [_topic("r")]}])
        },
        "a loop": {
            "topology": _topology(
                [
                    {
                        "subtopology_id": "0",
                        "repartition_sink_topics": ["r"],
                        "repartition_source_topics": [_topic("r")],
                    }
                ]
            )
        },
    }
    for note, fields in wrong.items():
        s.call(_HEARTBEAT, 0, {**joining, **fields}, note)
    s.ask(_HEARTBEAT, joining, 0)
    s.call(_HEARTBEAT, 0, _beat(group, "a", 9), "greater epoch")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 1), "smaller epoch")
    s.call(_HEARTBEAT, 0, _beat(group, "x", 2), "unknown member")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 2, active=[9]), "unknown task")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 2, active=[0], part="9"), "unknown sub-topology")
    s.call(_DESCRIBE, 0, {"group_ids": ["", "no-such-group"]}, "unknown groups")


def streams_topologies_and_topics(s: Session) -> None:
    group, late = _group(s, "streams-topics"), s.name("streams-late")
    s.call(_HEARTBEAT, 0, _joining(group, "a", late), "source topic is missing")
    _describe(s, group, "not ready")
    s.topic("streams-late", partitions=3)
    s.note("is there now", _until(s, group, 2))
    two, three = s.topic("streams-co-2", partitions=2), s.topic("streams-co-3", partitions=3)
    copartitioned = {
        "subtopology_id": "0",
        "source_topics": [two, three],
        "copartition_groups": [{"source_topics": [0, 1]}],
    }
    unequal = _group(s, "streams-unequal")
    s.call(_HEARTBEAT, 0, {**_joining(unequal, "a", two), "topology": _topology([copartitioned])}, "unequal")
    changelog = s.topic("streams-odd-changelog", partitions=5)
    odd = _group(s, "streams-odd")
    part = {"subtopology_id": "0", "source_topics": [two], "state_changelog_topics": [_topic(changelog)]}
    s.call(_HEARTBEAT, 0, {**_joining(odd, "a", two), "topology": _topology([part])}, "odd changelog")


def streams_internal_topics_are_created(s: Session) -> None:
    source, group = s.topic("streams-source", partitions=3), _group(s, "streams-internal")
    names = {stem: f"{group}-{stem}" for stem in ("repartition", "changelog", "wide-repartition")}
    parts: list[dict[str, Any]] = [
        {
            "subtopology_id": "0",
            "source_topics": [source],
            "repartition_sink_topics": [names["repartition"], names["wide-repartition"]],
        },
        {
            "subtopology_id": "1",
            "repartition_source_topics": [_topic(names["repartition"])],
            "state_changelog_topics": [_topic(names["changelog"], configs={"cleanup.policy": "compact"})],
        },
        {
            "subtopology_id": "2",
            "repartition_source_topics": [_topic(names["wide-repartition"], partitions=5)],
        },
    ]
    told = s.ask(_HEARTBEAT, {**_joining(group, "a", source), "topology": _topology(parts)}, 0)
    status = told["status"][0]
    listed = sorted(status["status_detail"].removeprefix("Internal topics are missing: ").split(", "))
    s.note("missing", {"code": status["status_code"], "topics": listed, "tasks": told["active_tasks"]})
    s.note("assigned", _until(s, group, 2))
    _describe(s, group, "ready")
    for name in names.values():
        s.note(f"{name} has", len(s.metadata(name)["partitions"]))
    resource = [
        {"resource_type": 2, "resource_name": names["changelog"], "configuration_keys": ["cleanup.policy"]}
    ]
    s.note("policy", s.ask("describe_configs", {"resources": resource})["results"][0]["configs"][0]["value"])


def streams_statuses(s: Session) -> None:
    topic, group = s.topic("streams-status", partitions=1), _group(s, "streams-status")
    joining = _joining(group, "a", topic)
    s.call(_HEARTBEAT, 0, {**joining, "topology": {**joining["topology"], "epoch": 3}}, "epoch 3")
    s.call(_HEARTBEAT, 0, {**joining, "member_id": "b"}, "stale")
    newer = {**joining, "member_id": "c", "topology": {**joining["topology"], "epoch": 4}}
    s.call(_HEARTBEAT, 0, newer, "update")
    s.call(_HEARTBEAT, 0, {**_beat(group, "a", 2), "shutdown_application": True}, "asks for a shutdown")
    s.call(_HEARTBEAT, 0, _beat(group, "b", 3), "hears of it")
    delayed = _group(s, "streams-delayed", {**_AT_ONCE, "streams.initial.rebalance.delay.ms": "60000"})
    s.call(_HEARTBEAT, 0, _joining(delayed, "a", topic), "delayed")
    s.call(_HEARTBEAT, 0, _beat(delayed, "a", 1), "still delayed")
    _describe(s, delayed, "assigning")


def streams_endpoints(s: Session) -> None:
    topic, group = s.topic("streams-endpoint", partitions=2), _group(s, "streams-endpoint")
    joining = {**_joining(group, "a", topic), "user_endpoint": {"host": "here", "port": 7000}}
    s.call(_HEARTBEAT, 0, joining, "with an endpoint")
    s.call(_HEARTBEAT, 0, _beat(group, "a", 2), "first")
    s.call(_HEARTBEAT, 0, {**_beat(group, "a", 2), "endpoint_information_epoch": 5}, "another epoch")
    tagged = [{"key": "zone", "value": "one"}]
    s.call(_HEARTBEAT, 0, {**_beat(group, "a", 2, active=[0, 1]), "client_tags": tagged}, "tags")
    _describe(s, group, "with tags")


def streams_commits(s: Session) -> None:
    topic, group = s.topic("streams-commit", partitions=2), _group(s, "streams-commit")
    s.ask(_HEARTBEAT, _joining(group, "a", topic), 0)
    for note, member, epoch in (
        ("right", "a", 2),
        ("newer", "a", 3),
        ("older", "a", 1),
        ("stranger", "x", 2),
        ("nobody", "", -1),
    ):
        partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        for version in (8, 9):
            s.call("offset_commit", version, body, note)
        asked = {"group_id": group, "member_id": member or None, "member_epoch": epoch, "topics": None}
        s.call("offset_fetch", 9, {"groups": [asked]}, note)
    delete = {"group_id": group, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
    s.call("offset_delete", 0, delete, "in use")
    s.ask(_HEARTBEAT, _beat(group, "a", -1), 0)
    s.call("offset_delete", 0, delete, "empty")


def streams_groups_beside_others(s: Session) -> None:
    topic, group = s.topic("streams-beside", partitions=1), _group(s, "streams-beside")
    s.ask(_HEARTBEAT, _joining(group, "a", topic), 0)
    consumer = {
        "group_id": group,
        "member_id": "c",
        "member_epoch": 0,
        "rebalance_timeout": 1000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }
    s.call("consumer_group_heartbeat", 1, consumer, "in a streams group")
    joining = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    s.call("join_group", 5, joining, "in a streams group")
    member = {"group_id": group, "member_id": "a", "generation_id": 2}
    s.call("heartbeat", 4, member, "in a streams group")
    s.call("sync_group", 4, member, "in a streams group")
    s.call("leave_group", 4, {"group_id": group, "members": [{"member_id": "a"}]}, "in a streams group")
    s.call("describe_groups", 6, {"groups": [group]}, "a streams group")
    s.call("consumer_group_describe", 0, {"group_ids": [group]}, "a streams group")
    other = _group(s, "streams-consumers")
    s.ask("consumer_group_heartbeat", {**consumer, "group_id": other}, 1)
    s.call(_HEARTBEAT, 0, _joining(other, "a", topic), "in a consumer group")
    s.call(_DESCRIBE, 0, {"group_ids": [other]}, "a consumer group")


# -- requests ------------------------------------------------------------------------------------------------


def _group(s: Session, stem: str, configs: dict[str, str] | None = None) -> str:
    """A name whose group assigns at once, or as `configs` say."""
    group = s.name(stem)
    _coordinator(s, group)
    wanted = configs or _AT_ONCE
    changes = [{"name": key, "config_operation": 0, "value": value} for key, value in wanted.items()]
    resource = {"resource_type": 32, "resource_name": group}
    answer = s.ask("incremental_alter_configs", {"resources": [{**resource, "configs": changes}]})
    assert answer["responses"][0]["error_code"] == "NONE", answer
    s.fence()
    return group


def _topology(parts: list[dict[str, Any]], epoch: int = 0) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": parts}


def _topic(name: str, partitions: int = 0, configs: dict[str, str] | None = None) -> dict[str, Any]:
    rows = [{"key": key, "value": value} for key, value in (configs or {}).items()]
    return {"name": name, "partitions": partitions, "replication_factor": 1, "topic_configs": rows}


def _joining(group: str, member: str, topic: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "process_id": member,
        "topology": _topology([{"subtopology_id": "0", "source_topics": [topic]}]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "client_tags": [],
    }


def _beat(
    group: str, member: str, epoch: int, active: list[int] | None = None, part: str = "0"
) -> dict[str, Any]:
    body: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
    if active is not None:
        rows = [{"subtopology_id": part, "partitions": active}] if active else []
        body |= {"active_tasks": rows, "standby_tasks": [], "warmup_tasks": []}
    return body


def _until(s: Session, group: str, epoch: int) -> dict[str, Any]:
    """The first answer with tasks; brokers learn of new topics a little later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = s.ask(_HEARTBEAT, _beat(group, "a", epoch, active=[]), 0)
        assert answer["error_code"] == "NONE" and time.monotonic() < deadline, answer
        epoch = answer["member_epoch"]
        if answer["active_tasks"]:
            rows = sorted(answer["active_tasks"], key=lambda row: row["subtopology_id"])
            return {"status": answer["status"], "active": rows}
        time.sleep(0.2)


def _counted(answer: dict[str, Any]) -> dict[str, Any]:
    tasks = answer["active_tasks"]
    return {
        "error": answer["error_code"],
        "epoch": answer["member_epoch"],
        "status": answer["status"],
        "tasks": None if tasks is None else sum(len(row["partitions"]) for row in tasks),
    }


def _describe(s: Session, group: str, note: str) -> None:
    s.call(_DESCRIBE, 0, {"group_ids": [group], "include_authorized_operations": True}, note)


def _list(s: Session, group: str, note: str) -> None:
    version = s.latest("list_groups")
    for types in (["streams"], ["Streams"], ["consumer"]):
        found = s.ask("list_groups", {"types_filter": types}, version)["groups"]
        s.note(f"listed {types} {note}", [each for each in found if each["group_id"] == group])
