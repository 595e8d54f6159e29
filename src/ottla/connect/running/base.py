"""What a worker asks of whatever runs connectors, and what sources and sinks need before they run."""

import contextlib
import json
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.session import LATEST, ZERO_ID
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.connect.errors import ConnectError
from ottla.connect.spi import Json
from ottla.connect.tasks.sink import dead_letters
from ottla.connect.tasks.spec import LANES, Spec, lane_of
from ottla.errors import OttlaError, TopicAlreadyExists
from ottla.pipelines.cluster_log import SharedReader

log = logging.getLogger(__name__)
LOOK_S = 5.0  # how often new topics and new source partitions are looked for


class Run(Protocol):
    """A connector that runs."""

    def wait(self, stopping: threading.Event) -> bool:
        """Until it is told to stop (True) or its topics or partitions have changed and it is to be started again
        (False). Raises what ended it."""

    @property
    def has_stepped(self) -> bool:
        """Whether anything was read and committed since the start: then it does not fail at every try."""

    def stop(self) -> None: ...


class Runner(Protocol):
    def start(self, spec: Spec, stopping: threading.Event) -> Run | None:
        """None: told to stop before there was anything to run."""

    def close(self) -> None: ...


def sink_topics(spec: Spec, admin: Admin) -> list[str]:
    """Those that exist now."""
    existing = admin.list_topics(internal=False)
    named = [name.strip() for name in (spec.config.get("topics") or "").split(",") if name.strip()]
    if named:
        return [name for name in dict.fromkeys(named) if name in existing]
    pattern = re.compile(spec.config.get("topics.regex") or "")
    return sorted(name for name in existing if pattern.fullmatch(name))


def await_topics(spec: Spec, admin: Admin, stopping: threading.Event) -> list[str]:
    """A sink without topics waits for them, as a consumer does."""
    is_reported = False
    while not stopping.is_set():
        topics = sink_topics(spec, admin)
        if topics:
            return topics
        if not is_reported:
            log.warning("connector %s waits for its topics: none exists yet", spec.name)
            is_reported = True
        stopping.wait(1.0)
    return []


def prepare_sink(spec: Spec, admin: Admin, topics: Sequence[str]) -> dict[str, str]:
    """The topic of dead letters; and where the other side is behind the group's offsets, those go back. Raises where
    the other side is past a partition's end, or has the position of another topic. The ids of the topics, by name."""
    ensure_dead_letters(spec, admin)
    described = admin.describe_topics(topics)
    topic_ids = {name: topic.id.hex() for name, topic in described.items() if topic.id != ZERO_ID}
    sink = spec.sink()
    sink.topic_ids = topic_ids
    try:
        partitions = [
            TopicPartition(name, index) for name, topic in described.items() for index in topic.partitions
        ]
        known = sink.positions(partitions) or {}
        replaced = sorted(sink.replaced(list(known)))
        sink.rollback()
    finally:
        sink.close()
    _refuse_positions_past_the_end(spec, admin, known)
    _refuse_positions_of_other_topics(spec, {where: known[where] for where in replaced})
    committed = admin.group_offsets(spec.group)
    behind = {
        where: (offset, committed[where].offset)
        for where, offset in known.items()
        if where in committed and offset < committed[where].offset
    }
    back = {where: OffsetAndMetadata(offset) for where, (offset, _) in _with_records(spec, behind).items()}
    if back:
        shown = ", ".join(f"{where} to {position.offset}" for where, position in back.items())
        log.warning("connector %s: the other side is behind, its group goes back: %s", spec.name, shown)
        leave_group(admin, spec.group)
        admin.alter_group_offsets(spec.group, back)
    return topic_ids


def _refuse_positions_past_the_end(spec: Spec, admin: Admin, positions: Mapping[TopicPartition, int]) -> None:
    """Steps leave out records below the sink's position. Those of a topic that was created again would all be left
    out, silently, until its offsets have reached the position of the deleted topic."""
    if not positions:
        return
    ends = admin.list_offsets(dict.fromkeys(positions, LATEST))
    past = {where: offset for where, offset in positions.items() if offset > ends[where].offset}
    if past:
        shown = "; ".join(
            f"the sink has {where} up to offset {offset}, and the topic ends at {ends[where].offset}"
            for where, offset in sorted(past.items())
        )
        raise _created_again(spec, shown, sorted(past))


def _refuse_positions_of_other_topics(spec: Spec, positions: Mapping[TopicPartition, int]) -> None:
    """The new topic may have grown past the position: its first records would be left out."""
    if positions:
        shown = "; ".join(
            f"the sink's position of {where} (offset {offset}) is of another topic of that name"
            for where, offset in positions.items()
        )
        raise _created_again(spec, shown, list(positions))


def _created_again(spec: Spec, shown: str, partitions: Sequence[TopicPartition]) -> ConnectError:
    return ConnectError(
        f"{shown}: it was deleted and created again; remove the sink's position to begin again: stop the connector,"
        f" send PATCH /connectors/{spec.name}/offsets with {_removal(partitions)}, and resume it. A sink whose"
        " positions are in its files or tables refuses the PATCH and says what to do instead"
    )


def _removal(partitions: Sequence[TopicPartition]) -> str:
    """The body that removes the positions of these partitions alone: other topics would be written again."""
    removed = [
        {"partition": {"kafka_topic": topic, "kafka_partition": index}, "offset": None}
        for topic, index in partitions
    ]
    return json.dumps({"offsets": removed})


def _with_records(
    spec: Spec, ranges: dict[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, tuple[int, int]]:
    """Markers of transactions take offsets too: the group may be past them, a sink never sees them."""
    if not ranges:
        return {}
    reader = SharedReader(spec.client("consumer"))
    try:
        return {
            where: span
            for where, span in ranges.items()
            if any(rows.num_rows for rows in reader.read({where: span}))
        }
    finally:
        reader.close()


def ensure_dead_letters(spec: Spec, admin: Admin) -> None:
    topic = dead_letters(spec)
    if topic is None or topic in admin.list_topics():
        return
    wanted = int(spec.config.get("errors.deadletterqueue.topic.replication.factor") or 3)
    replication = min(wanted, len(admin.describe_cluster().brokers))
    with contextlib.suppress(TopicAlreadyExists):
        admin.create_topics([NewTopic(topic, 1, replication)])


def leave_group(admin: Admin, group: str) -> None:
    """A driver that has stopped is a member until its session ends; offsets can be changed only without members."""
    try:
        group_described = admin.describe_group(group)
        if group_described.members:
            admin.remove_members(group, group_described.members)
    except OttlaError as error:
        log.debug("group %s has no members to remove: %s", group, error)


def lanes_of(partitions: Sequence[Json]) -> dict[int, list[Json]]:
    lanes: dict[int, list[Json]] = {}
    for partition in partitions:
        lanes.setdefault(lane_of(partition), []).append(partition)
    return lanes


def task_count(spec: Spec) -> int:
    """As many tasks as Java would have: a sink's maximum, a source's partitions up to it."""
    if spec.kind == "sink":
        return spec.tasks_max
    source = spec.source()
    try:
        count = len(lanes_of(list(source.partitions())))
    finally:
        source.close()
    return max(1, min(spec.tasks_max, count, LANES))


class Looking:
    """Every some seconds: has what a connector reads become more?"""

    def __init__(self, every_s: float = LOOK_S) -> None:
        self._every_s, self._next = every_s, time.monotonic() + every_s

    def is_due(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._every_s
        return True
