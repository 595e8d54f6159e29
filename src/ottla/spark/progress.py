"""What a query's progress says about the topics: lag for each partition, and in all."""

from collections.abc import Mapping
from typing import Any

from ottla.client.values import TopicPartition
from ottla.spark.offsets import Offsets


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Records not read yet, by partition, from `query.lastProgress` or an event's `progress.json`."""
    import json

    found: dict[TopicPartition, int] = {}
    for source in progress.get("sources", []):
        end, latest = (_parsed(source.get(name), json) for name in ("endOffset", "latestOffset"))
        if end is None or latest is None:
            continue
        for partition, at in latest.positions.items():
            found[partition] = max(0, at - end.positions.get(partition, 0))
    return found


def _parsed(told: Any, json: Any) -> Offsets | None:
    if isinstance(told, str):
        told = json.loads(told) if told.startswith("{") else None
    return Offsets.from_json(told) if isinstance(told, Mapping) else None
