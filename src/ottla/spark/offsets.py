"""How far a query has read, as Spark keeps it in the checkpoint.

The JSON is that of Spark's own Kafka source, `{"topic": {"0": 23}}`. Beside the topics stand names that no topic
can have: which life of each topic the offsets belong to, the group under which progress is shown, into how many
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
        told: dict[str, Any] = _by_topic(self.positions)
        told["@ids"] = dict(sorted(self.ids.items()))
        told["@group"] = self.group
        told["@tasks"] = self.tasks
        told["@split"] = self.split
        if self.begins:
            told["@begins"] = _by_topic(self.begins)
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Offsets":
        return cls(
            positions=_positions({topic: p for topic, p in told.items() if not topic.startswith("@")}),
            ids=dict(told.get("@ids", {})),
            group=told.get("@group", ""),
            tasks=int(told.get("@tasks", 1)),
            split=bool(told.get("@split", False)),
            begins=_positions(told.get("@begins", {})),
        )


def starts(start: Offsets, end: Offsets) -> Positions:
    """Where each of the end's partitions begins: where the last micro-batch ended, or as it was found."""
    found: Positions = {}
    for partition, position in end.positions.items():
        same_life = start.ids.get(partition.topic) == end.ids.get(partition.topic)
        if same_life and partition in start.positions:
            found[partition] = start.positions[partition]
        else:
            found[partition] = end.begins.get(partition, position)
    return found


def _by_topic(positions: Positions) -> dict[str, Any]:
    told: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        told.setdefault(topic, {})[str(partition)] = offset
    return told


def _positions(told: Mapping[str, Any]) -> Positions:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in told.items()
        for partition, offset in partitions.items()
    }
