"""When a change is known to all of a broker: Apache Kafka answers before, and its parts learn one after the other."""

from __future__ import annotations

import time

from tests.compat.raw import Raw, ask_until


def fence(raw: Raw) -> None:
    """All earlier changes are known to every part of the broker.

    Changes travel in order, but Apache Kafka may publish several at once: first its metadata know them, then its
    leaders, its coordinators, settings, quotas, users and rules. When a second topic is seen, all have the first.
    """
    for _ in range(2):
        name = f"fence-{time.monotonic_ns()}"
        new = {"name": name, "num_partitions": 1, "replication_factor": 1}
        answer = raw.call("create_topics", 7, {"topics": [new], "timeout": 30_000})
        assert answer["topics"][0]["error_code"] == "NONE", answer
        asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        ask_until(
            lambda: raw.call("metadata", 9, asked)["topics"][0]["error_code"],  # noqa: B023  called at once
            lambda code: code == "NONE",
            "the broker knows what has changed",
        )
