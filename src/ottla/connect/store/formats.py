"""The bytes in the three topics, as Java's Connect writes and reads them."""

import json
from typing import Any

from ottla.connect.spi import Json


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def loads(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


def canonical(partition: Json) -> str:
    """Equal for equal partitions, whatever the order of their names."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


# -- offsets: key ["connector",{partition}], value {offset} ----------------------------------------


def offset_key(connector: str, partition: Json) -> bytes:
    return dumps([connector, partition])


def parse_offset_key(key: bytes) -> tuple[str, Json] | None:
    """None for what is not a key of Connect's."""
    try:
        document = json.loads(key)
    except ValueError:
        return None
    if (
        isinstance(document, list)
        and len(document) == 2
        and isinstance(document[0], str)
        and isinstance(document[1], dict)
    ):
        return document[0], document[1]
    return None


# -- statuses --------------------------------------------------------------------------------------


def connector_status_key(connector: str) -> bytes:
    return f"status-connector-{connector}".encode()


def task_status_key(connector: str, task: int) -> bytes:
    return f"status-task-{connector}-{task}".encode()


def topic_status_key(topic: str, connector: str) -> bytes:
    return f"status-topic-{topic}:connector-{connector}".encode()


def topic_status(topic: str, connector: str, now_ms: int, task: int = 0) -> bytes:
    document = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": now_ms}
    return dumps({"topic": document})
