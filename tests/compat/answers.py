"""Answers recorded from two servers and compared field by field.

What may differ by nature (free text, ids, ports, times, order of sets) is made equal first; what differs on
purpose is listed in `differences`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any

from tests.compat import batches
from tests.compat.differences import DIFFERENCES
from tests.compat.raw import Closed, Raw, ask_until

Plain = Any
_NONE = "00000000-0000-0000-0000-000000000000"
_FREE_TEXT = {"error_message", "batch_index_error_message", "message"}  # also whether there is any
_TEXT = {"documentation", "cluster_id", "host", "port", "log_dir", "client_host"}
_IDS = {"topic_id", "producer_id", "session_id", "member_id", "leader", "leader_replica_id", "directory_id"}
_TIMES = {"log_append_time", "last_timestamp", "transaction_start_time", "total_bytes", "usable_bytes"}
_SORT_BY = (
    "name",
    "topic_name",
    "topic",
    "config_name",
    "resource_name",
    "partition_index",
    "partition",
    "group_id",
    "last_sequence",
)
# Java's hashes of these are one for each of the four partitions that coordinators have in `tests.conftest.SETTINGS`.
_KEY_OF_EVERY_PARTITION = ("0", "1", "2", "3")
_LOADING = ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
_ABOUT = (
    ("describe_groups", "groups", "groups"),
    ("describe_transactions", "transactional_ids", "transaction_states"),
)
_run = itertools.count()


class Session:
    """One scenario on one server: says things, notes what came back."""

    def __init__(self, bootstrap: str, versions: Mapping[str, Sequence[int]], run: int) -> None:
        self.bootstrap = bootstrap
        self._versions = versions
        self._run = run
        self._fences = 0
        self._open = ExitStack()
        self.raw = self.connect()
        self.answers: dict[str, Plain] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def connect(self, client_id: str | None = "raw") -> Raw:
        return self._open.enter_context(Raw(self.bootstrap, client_id))

    def versions(self, api: str, first: int = 0) -> list[int]:
        """What both servers advertise of an API, oldest first."""
        return [version for version in self._versions.get(api, ()) if version >= first]

    def latest(self, api: str) -> int:
        return self.versions(api)[-1]

    def name(self, stem: str) -> str:
        """The same on both servers, new for every run."""
        return f"{stem}-{self._run}"

    def note(self, label: str, answer: Plain) -> None:
        assert label not in self.answers, f"two answers are called {label!r}"
        self.answers[label] = answer

    def call(self, api: str, version: int, body: Mapping[str, Plain] | None = None, note: str = "") -> Plain:
        """Ask and note; a closed connection is an answer too."""
        label = f"{api} v{version} {note}".strip()
        try:
            answer = self.raw.call(api, version, body)
        except Closed:
            self.raw = self.connect()
            self.note(label, "<closed>")
            return None
        self.note(label, answer)
        return answer

    def ask(self, api: str, body: Mapping[str, Plain] | None = None, version: int | None = None) -> Plain:
        """Ask without noting: to set a scene, to look something up."""
        return self.raw.call(api, self.latest(api) if version is None else version, body)

    def topic(self, stem: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """A new topic, ready for use."""
        name = self.name(stem)
        settings = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
        answer = self.ask("create_topics", {"topics": [wanted], "timeout": 30_000})
        assert answer["topics"][0]["error_code"] == "NONE", answer
        self.wait_for_leaders(name, partitions)
        return name

    def wait_for_leaders(self, name: str, partitions: int) -> None:
        """Apache Kafka's brokers learn of a new topic some milliseconds after its creator."""
        ask_until(
            lambda: self.metadata(name),
            lambda topic: len(topic["partitions"]) == partitions and self._all_lead(name, partitions),
            f"{name} has leaders",
        )

    def _all_lead(self, name: str, partitions: int) -> bool:
        rows = [
            {"partition_index": each, "timestamp": -1, "current_leader_epoch": -1}
            for each in range(partitions)
        ]
        answer = self.ask(
            "list_offsets", {"replica_id": -1, "topics": [{"name": name, "partitions": rows}]}, 4
        )
        return all(each["error_code"] == "NONE" for each in answer["topics"][0]["partitions"])

    def fence(self) -> None:
        """All earlier changes are known to every part of the broker.

        Changes travel in order, but Apache Kafka may publish several at once, to one part of a broker after another:
        its leaders know the first topic of these before its coordinators do. When the second is seen, all do.
        """
        for _ in range(2):
            self._fences += 1
            self.topic(f"fence-{self._fences}")

    def producer_id(self) -> int:
        """A new one; Apache Kafka needs a moment before it gives its first."""
        body = {
            "transactional_id": None,
            "transaction_timeout": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        made = ask_until(
            lambda: self.ask("init_producer_id", body),
            lambda answer: answer["error_code"] != "COORDINATOR_LOAD_IN_PROGRESS",
            "a producer id",
        )
        found: int = made["producer_id"]
        return found

    def coordinator(self, name: str, kind: int) -> None:
        """The first question for a coordinator makes its topic; ask until all of its partitions are loaded.

        What lists groups or transactions asks all of them, and so does a scenario with several names.
        """
        for key in (name, *_KEY_OF_EVERY_PARTITION):
            ask_until(
                lambda: self.ask("find_coordinator", {"key": key, "key_type": kind}, 2),  # noqa: B023  called at once
                lambda answer: answer["error_code"] == "NONE",
                f"a coordinator for {key}",
            )
        api, asked, answers = _ABOUT[kind]
        ask_until(
            lambda: self.ask(api, {asked: list(_KEY_OF_EVERY_PARTITION)}),
            lambda answer: not any(each["error_code"] in _LOADING for each in answer[answers]),
            "the coordinators are loaded",
        )

    def metadata(self, name: str) -> Plain:
        topics = [{"name": name, "topic_id": None}]
        return self.ask("metadata", {"topics": topics, "allow_auto_topic_creation": False})["topics"][0]

    def topic_id(self, name: str) -> str:
        found: str = self.metadata(name)["topic_id"]
        return found

    def produce(
        self, topic: str, records: bytes, partition: int = 0, version: int = 9, acks: int = -1
    ) -> Plain:
        """Append without noting; gives the partition's answer."""
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        answer = self.ask("produce", {"acks": acks, "timeout": 10_000, "topic_data": data}, version)
        return answer["responses"][0]["partition_responses"][0]


Scenario = Callable[[Session], None]


def record(
    scenario: Scenario, bootstraps: Mapping[str, str], versions: Mapping[str, Sequence[int]]
) -> dict[str, Plain]:
    """The answers of each server, by the server's name."""
    run = next(_run)
    recorded = {}
    for name, bootstrap in bootstraps.items():
        with Session(bootstrap, versions, run) as session:
            scenario(session)
        recorded[name] = {label: normalise(answer) for label, answer in session.answers.items()}
    return recorded


def compare(scenario: str, expected: Plain, answered: Plain) -> list[str]:
    """One line for every field that differs and is not meant to."""
    found = []
    for path, left, right in _differences("", expected, answered):
        if not _is_deliberate(scenario, path):
            found.append(f"{scenario}{path}: Apache Kafka {left!r}, Ottla {right!r}")
    return found


def normalise(value: Plain, field: str = "") -> Plain:
    """Replace what two servers can never agree on; what is null or zero says something and stays."""
    if isinstance(value, dict):
        return {key: normalise(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return _in_order([normalise(each, field) for each in value], field)
    if isinstance(value, bytes):
        return [_comparable(each) for each in batches.read(value)] or value
    if field in _FREE_TEXT:
        return "<text>"
    if value in (None, "", -1, _NONE) or (value == 0 and field not in _IDS):
        return value
    if field in _TEXT:
        return "<text>"
    if field in _IDS:
        return "<id>"
    return "<time>" if field in _TIMES else value


def _comparable(found: batches.Batch) -> batches.Batch:
    """Without its producer's id; markers carry the server's clock and, padded or not, its version of them."""
    found = found._replace(producer_id=min(found.producer_id, 0))
    return found._replace(base_timestamp=0, max_timestamp=0) if found.is_control else found


def _in_order(values: list[Plain], field: str) -> list[Plain]:
    if field == "partitions" and all(isinstance(each, int) for each in values):
        return sorted(values)
    if values and all(isinstance(each, dict) for each in values):
        by = [name for name in _SORT_BY if name in values[0]]
        return sorted(values, key=lambda each: [str(each[name]).rjust(12) for name in by])
    return values


def _differences(path: str, left: Plain, right: Plain) -> Iterator[tuple[str, Plain, Plain]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from _differences(f"{path}/{key}", left.get(key, "<missing>"), right.get(key, "<missing>"))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for i, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _differences(f"{path}/{_label(one, i)}", one, other)
    elif left != right:
        yield path, left, right


def _label(value: Plain, index: int) -> str:
    if isinstance(value, dict):
        return next((str(value[name]) for name in ("name", "config_name") if name in value), str(index))
    return str(index)


def _is_deliberate(scenario: str, path: str) -> bool:
    return any(fnmatchcase(scenario, each.scenario) and fnmatchcase(path, each.path) for each in DIFFERENCES)
