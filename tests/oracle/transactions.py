"""When a transaction is over: its end is answered before its markers are written, by Ottla as by Apache Kafka."""

from __future__ import annotations

import time

import confluent_kafka
from confluent_kafka.admin import AdminClient, OffsetSpec

_LEVELS = (confluent_kafka.IsolationLevel.READ_UNCOMMITTED, confluent_kafka.IsolationLevel.READ_COMMITTED)
_PATIENCE_S = 120


def wait_for_markers(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Until no transaction is open: a reader of committed records then gets to the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _PATIENCE_S
    while (ends := [_ends(admin, topic, partitions, level) for level in _LEVELS])[0] != ends[1]:
        assert time.monotonic() < deadline, f"{topic}: a transaction is open; all, committed: {ends}"


def _ends(
    admin: AdminClient, topic: str, partitions: int, level: confluent_kafka.IsolationLevel
) -> list[int]:
    asked = {
        confluent_kafka.TopicPartition(topic, partition): OffsetSpec.latest()
        for partition in range(partitions)
    }
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=_PATIENCE_S)
    return [each.result(_PATIENCE_S).offset for each in answers.values()]
