"""How far a query has read, as Spark keeps it in the checkpoint.

The JSON is that of Spark's own Kafka source, `{"topic": {"0": 23}}`. Beside the topics stand names that no topic
can have: which topic id the offsets of each topic belong to, the group under which progress is shown, into how many
tasks a micro-batch is cut, and where partitions begin that were not there in the micro-batch before. All of that
must be the same when a micro-batch is done again, whatever the options say by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.client.values import TopicPartition

Positions = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Offsets:
    positions: Positions
    ids: dict[str, str] = field(default_factory=dict)  # topic ids in hex
    group: str = ""
    tasks: int = 1
    split: bool = False  # whether a partition may be cut between tasks
    begins: Positions = field(default_factory=dict)

    def at(self, positions: Positions, **more: Any) -> "Offsets":
        return replace(self, positions=positions, **more)

    def to_json(self) -> dict[str, Any]:
        """Always in the same order: Spark compares texts to see whether anything is new."""
        document: dict[str, Any] = _by_topic(self.positions)
        document["@ids"] = dict(sorted(self.ids.items()))
        document["@group"] = self.group
        document["@tasks"] = self.tasks
        document["@split"] = self.split
        if self.begins:
            document["@begins"] = _by_topic(self.begins)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Offsets":
        return cls(
            positions=_positions({topic: p for topic, p in document.items() if not topic.startswith("@")}),
            ids=dict(document.get("@ids", {})),
            group=document.get("@group", ""),
            tasks=int(document.get("@tasks", 1)),
            split=bool(document.get("@split", False)),
            begins=_positions(document.get("@begins", {})),
        )


def starts(start: Offsets, end: Offsets) -> Positions:
    """Where each of the end's partitions begins: where the last micro-batch ended, or as it was found."""
    positions: Positions = {}
    for partition, position in end.positions.items():
        same_life = start.ids.get(partition.topic) == end.ids.get(partition.topic)
        if same_life and partition in start.positions:
            positions[partition] = start.positions[partition]
        else:
            positions[partition] = end.begins.get(partition, position)
    return positions


def _by_topic(positions: Positions) -> dict[str, Any]:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return by_topic


def _positions(by_topic: Mapping[str, Any]) -> Positions:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in by_topic.items()
        for partition, offset in partitions.items()
    }
