"""The topics that a topology of a streams group names."""

from ottla.wire.messages import streams_group_describe as describe
from ottla.wire.messages import streams_group_heartbeat as heartbeat


def topics_of(topology: heartbeat.Topology | describe.Topology | None) -> list[str]:
    """Each once, in the topology's order."""
    names: list[str] = []
    for part in (topology.subtopologies or ()) if topology is not None else ():
        names += [*part.source_topics, *part.repartition_sink_topics]
        names += [topic.name for topic in part.repartition_source_topics]
        names += [topic.name for topic in part.state_changelog_topics]
    return list(dict.fromkeys(names))
