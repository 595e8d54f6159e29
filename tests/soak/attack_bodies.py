"""Requests of share and streams groups that want too much."""

from __future__ import annotations

import uuid
from typing import Any

MANY = 10_000


def a_share_fetch(group: str, partitions: int, member: str = "m", *, wait_ms: int = 0) -> dict[str, Any]:
    """Of a topic that does not exist."""
    places = [{"partition_index": index, "acknowledgement_batches": []} for index in range(partitions)]
    return {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": 0,
        "max_wait": wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        "topics": [{"topic_id": uuid.UUID(int=7), "partitions": places}],
        "forgotten_topics_data": [],
    }


def a_topology(group: str, topic: str, parts: int) -> dict[str, Any]:
    """A chain of repartitions, the last link first; all of them read the topic with most partitions too."""
    links = [
        {
            "subtopology_id": f"{number:05}",
            "source_topics": [] if number else [topic],
            "repartition_source_topics": [{"name": f"{group}-r{number}", "partitions": 0}] if number else [],
            "repartition_sink_topics": [f"{group}-r{number + 1}"] if number + 1 < parts else [],
        }
        for number in reversed(range(parts))
    ]
    return {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "process_id": "p",
        "topology": {"epoch": 0, "subtopologies": links},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }


def acknowledgements(group: str, topic_id: uuid.UUID) -> dict[str, Any]:
    """Of very many records, each of another kind than the one before it."""
    batch = {"first_offset": 0, "last_offset": MANY - 1, "acknowledge_types": [1, 2] * (MANY // 2)}
    places = [{"partition_index": 0, "acknowledgement_batches": [batch]}] * 2
    topics = [{"topic_id": topic_id, "partitions": places}]
    return {**a_share_fetch(group, 0), "share_session_epoch": 1, "topics": topics}


def some_states(kind: str, topic_id: uuid.UUID) -> dict[str, Any]:
    """Very many batches of offsets of one share-partition, or the same one again and again."""
    batches = [
        {"first_offset": at, "last_offset": at, "delivery_state": 2, "delivery_count": 1}
        for at in range(0, MANY, 2)
    ]
    part = {"partition": 0, "state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": batches}
    parts = [part] * (1 if kind.startswith("write") else 1_000)
    return {"group_id": "shares-1", "topics": [{"topic_id": topic_id, "partitions": parts}]}
