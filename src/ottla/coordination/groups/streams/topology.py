"""A topology on the topics of the cluster: how many tasks there are, which internal topics are missing, what is wrong.

Pure functions. The texts are Kafka's: members print them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush

from ottla import errors
from ottla.coordination.groups.streams import records as r
from ottla.frozen import frozen

STALE_TOPOLOGY, MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED, MISSING_INTERNAL_TOPICS = range(4)
SHUTDOWN_APPLICATION, ASSIGNMENT_DELAYED = 4, 5
NAMES_SHOWN_MAX = 3
TASKS_MAX = 20_000  # in a topology: assigning them takes about a tenth of a second

Count = Callable[[str], int]  # partitions of a topic; 0 when there is none of this name


@frozen
class InternalTopic:
    name: str
    partitions: int
    replication_factor: int  # 0: the broker's default
    configs: tuple[tuple[str, str], ...] = ()


@frozen
class ConfiguredSubtopology:
    subtopology_id: str
    tasks: int
    source_topics: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    @property
    def inputs(self) -> list[str]:
        return sorted({*self.source_topics, *(topic.name for topic in self.repartition_sources)})


@frozen
class ConfiguredTopology:
    """`status` says why no task can run yet; without one the topology is ready."""

    epoch: int
    subtopologies: tuple[ConfiguredSubtopology, ...] = ()
    missing: tuple[InternalTopic, ...] = ()
    status: tuple[int, str] | None = None

    @property
    def is_ready(self) -> bool:
        return self.status is None

    def by_id(self) -> dict[str, ConfiguredSubtopology]:
        return {part.subtopology_id: part for part in self.subtopologies}


class _Misfit(Exception):
    """Topics as they are do not fit the topology."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def configured(topology: r.TopologyValue, count: Count) -> ConfiguredTopology:
    """Raises StreamsInvalidTopology for a topology that fits no topics at all."""
    try:
        _check_sources(topology, count)
        decided = _decided_counts(topology, count)
        parts = tuple(
            _configured_part(part, count, decided)
            for part in sorted(topology.subtopologies, key=lambda part: part.subtopology_id)
        )
        _check_tasks(parts)
        missing = _missing(parts, count)
    except _Misfit as misfit:
        return ConfiguredTopology(topology.epoch, status=(misfit.status, misfit.detail))
    status = None
    if missing:
        names = summary([topic.name for topic in missing])
        status = MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}"
    return ConfiguredTopology(topology.epoch, parts, missing, status)


def summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:NAMES_SHOWN_MAX])
    rest = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {rest} additional topics" if rest > 0 else shown


def _check_sources(topology: r.TopologyValue, count: Count) -> None:
    missing = {name for part in topology.subtopologies for name in part.source_topics if not count(name)}
    if missing:
        raise _Misfit(MISSING_SOURCE_TOPICS, f"Source topics {summary(sorted(missing))} are missing.")


def _check_tasks(parts: Iterable[ConfiguredSubtopology]) -> None:
    tasks = sum(part.tasks for part in parts)
    if tasks > TASKS_MAX:
        raise _Misfit(
            INCORRECTLY_PARTITIONED,
            f"The topology has {tasks} tasks on these topics; a streams group may have {TASKS_MAX}.",
        )


def _decided_counts(topology: r.TopologyValue, count: Count) -> dict[str, int]:
    """Partitions of the internal topics."""
    decided = _repartition_counts(topology, count)
    known = _with(decided, count)
    sources = [topic for part in topology.subtopologies for topic in part.repartition_sources]
    source_names = {topic.name for topic in sources}
    fixed = {topic.name: known(topic.name) for topic in sources if topic.partitions}
    fixed_counts = set(fixed.values())
    for part in topology.subtopologies:
        for group in part.copartition_groups:
            names = {part.source_topics[index] for index in group.source_topics}
            names |= {part.repartition_sources[index].name for index in group.repartition_source_topics}
            decided.update(_copartitioned(names, names & source_names, fixed, fixed_counts, known))
    for part in topology.subtopologies:
        most = max((known(name) for name in part.inputs), default=0)
        if not part.inputs:
            raise errors.StreamsInvalidTopology(
                f"No source topics found for subtopology {part.subtopology_id}"
            )
        decided.update((topic.name, most) for topic in part.changelogs)
    return decided


def _with(decided: dict[str, int], count: Count) -> Count:
    """Topics that exist are what they are; the others are as decided."""
    return lambda name: count(name) or decided.get(name, 0)


def _repartition_counts(topology: r.TopologyValue, count: Count) -> dict[str, int]:
    """As many partitions as the largest input of the sub-topology that writes the topic, unless the client says."""
    sources = [topic for part in topology.subtopologies for topic in part.repartition_sources]
    decided = {topic.name: topic.partitions for topic in sources if topic.partitions}
    _decide_sinks(topology, count, decided)
    if any(name not in decided for part in topology.subtopologies for name in part.repartition_sinks):
        raise errors.StreamsInvalidTopology(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the "
            "topology that cannot be resolved."
        )
    if any(topic.name not in decided for topic in sources):
        raise errors.StreamsInvalidTopology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
            "is never used as a sink topic."
        )
    return decided


def _decide_sinks(topology: r.TopologyValue, count: Count, decided: dict[str, int]) -> None:
    """Round by round, each in the topology's order; a part is looked at again when one of its inputs was decided."""
    parts = topology.subtopologies
    readers: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        for topic in part.repartition_sources:
            readers.setdefault(topic.name, []).append(index)
    due = [(0, index) for index in range(len(parts))]  # (round, part)
    heapify(due)
    while due:
        number, index = heappop(due)
        part = parts[index]
        open_sinks = [name for name in part.repartition_sinks if name not in decided]
        inputs = [decided.get(topic.name, 0) for topic in part.repartition_sources] if open_sinks else []
        most = max([*inputs, *(count(name) for name in part.source_topics)], default=0) if open_sinks else 0
        if not most:
            continue
        for name in dict.fromkeys(open_sinks):
            decided[name] = most
            for reader in readers.get(name, ()):
                heappush(due, (number if reader > index else number + 1, reader))


def _copartitioned(
    names: set[str], internal: set[str], fixed: Mapping[str, int], fixed_counts: set[int], known: Count
) -> dict[str, int]:
    """The partitions of the internal topics of a co-partition group: those of its other topics."""
    if not names:
        return {}
    outside = {name: known(name) for name in names - internal}
    if outside:
        wanted = _same(set(outside.values()), outside)
    elif fixed:
        wanted = _same(fixed_counts, {name: known(name) for name in internal})
    else:
        wanted = max(known(name) for name in internal)
        if not wanted:
            raise errors.StreamsInvalidTopology(
                f"All topics in the copartition group had undefined partition number: {sorted(internal)}"
            )
    for name in sorted(internal & fixed.keys()):
        if known(name) != wanted:
            raise _Misfit(
                INCORRECTLY_PARTITIONED,
                f"Number of partitions [{known(name)}] of repartition topic [{name}] doesn't match number of "
                f"partitions [{wanted}] of the source topic.",
            )
    return dict.fromkeys(internal, wanted)


def _same(counts: set[int], shown: Mapping[str, int]) -> int:
    if len(counts) > 1:
        rows = ", ".join(f"{name}={number}" for name, number in sorted(shown.items()))
        raise _Misfit(
            INCORRECTLY_PARTITIONED,
            f"Following topics do not have the same number of partitions: [{{{rows}}}]",
        )
    return next(iter(counts))


def _configured_part(part: r.Subtopology, count: Count, decided: dict[str, int]) -> ConfiguredSubtopology:
    known = _with(decided, count)
    return ConfiguredSubtopology(
        part.subtopology_id,
        max(known(name) for name in part.inputs),
        tuple(sorted(set(part.source_topics))),
        tuple(sorted(set(part.repartition_sinks))),
        _internal(part.repartition_sources, decided),
        _internal(part.changelogs, decided),
    )


def _internal(topics: Iterable[r.TopicInfo], decided: dict[str, int]) -> tuple[InternalTopic, ...]:
    rows = (
        InternalTopic(
            topic.name, topic.partitions or decided[topic.name], topic.replication_factor, topic.configs
        )
        for topic in topics
    )
    return tuple(sorted(rows, key=lambda topic: topic.name))


def _missing(parts: Iterable[ConfiguredSubtopology], count: Count) -> tuple[InternalTopic, ...]:
    topics = {topic.name: topic for part in parts for topic in (*part.repartition_sources, *part.changelogs)}
    for name, topic in sorted(topics.items()):
        there = count(name)
        if there and there != topic.partitions:
            raise _Misfit(
                INCORRECTLY_PARTITIONED,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, "
                f"found {there}",
            )
    return tuple(topic for name, topic in sorted(topics.items()) if not count(name))
