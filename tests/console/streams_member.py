"""A member of a streams group by raw requests: what a Kafka Streams application sends, without Java."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.compat.raw import Raw
from tests.console.consoles import PATIENCE_S

HEARTBEAT, EVERY_S = "streams_group_heartbeat", 1.0


class StreamsMember:
    """Beats until it is closed; its topology is one sub-topology with a store."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._raw, self._group, self._epoch = Raw(bootstrap, f"{group}-client"), group, 0
        self._joining = {
            "topology": {
                "epoch": 0,
                "subtopologies": [
                    {
                        "subtopology_id": "0",
                        "source_topics": [topic],
                        "state_changelog_topics": [
                            {
                                "name": f"{group}-store-changelog",
                                "partitions": 0,
                                "replication_factor": 1,
                                "topic_configs": [],
                            }
                        ],
                    }
                ],
            },
            "rebalance_timeout": 60_000,
            "process_id": "process-1",
            "client_tags": [],
        }
        self._tasks: list[dict[str, Any]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Until it has tasks."""
        self._find_coordinator()
        deadline = time.monotonic() + PATIENCE_S
        while not self._tasks:
            assert time.monotonic() < deadline, "the streams group got no tasks"
            self._beat()
            self._over.wait(0.1)
        self._beat()  # says that it has them
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)
        self._raw.close()

    def _find_coordinator(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self._raw.call("find_coordinator", 2, {"key": self._group, "key_type": 0})
            if found["error_code"] == "NONE":
                return
            assert time.monotonic() < deadline, found
            self._over.wait(0.1)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            self._beat()

    def _beat(self) -> None:
        body: dict[str, Any] = {"group_id": self._group, "member_id": "m", "member_epoch": self._epoch}
        body |= {"active_tasks": self._tasks, "standby_tasks": [], "warmup_tasks": []}
        answer = self._raw.call(HEARTBEAT, 0, body if self._epoch else {**body, **self._joining})
        if answer["error_code"] == "COORDINATOR_LOAD_IN_PROGRESS":
            return
        assert answer["error_code"] == "NONE", answer
        self._epoch = answer["member_epoch"]
        if answer["active_tasks"] is not None:
            self._tasks = answer["active_tasks"]
