"""What a query's progress says about the topics: what is read, how much, and how far it is behind."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.values import TopicPartition
from ottla.spark.offsets import Offsets

_BYTES = "pythonDataReceived"  # Spark's name for what its Python workers have handed to it


@dataclass(frozen=True, slots=True)
class Progress:
    """The last micro-batch of a query. `str` of it is a line to print."""

    source: str
    batch: int
    rows: int
    rows_per_s: float
    behind: int
    bytes: int | None  # as Arrow; None where Spark does not tell

    def __str__(self) -> str:
        size = "" if self.bytes is None else f", {_readable(self.bytes)}"
        rows = f"{self.rows:,} rows{size}, {self.rows_per_s:,.0f} rows/s"
        return f"{self.source}: micro-batch {self.batch}, {rows}, {self.behind:,} rows behind"


def describe(query: Any) -> Progress | None:
    """Of a `StreamingQuery`: its last micro-batch; None before the first."""
    progress = query.lastProgress
    if progress is None:
        return None
    progress = json.loads(progress) if isinstance(progress, str) else progress
    return Progress(
        source=", ".join(_source(source) for source in progress["sources"]),
        batch=progress["batchId"],
        rows=progress["numInputRows"],
        rows_per_s=float(progress.get("processedRowsPerSecond") or 0),
        behind=sum(lag(progress).values()),
        bytes=_bytes(query),
    )


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Records not read yet, by partition, from `query.lastProgress` or an event's `progress.json`."""
    positions: dict[TopicPartition, int] = {}
    for source in progress.get("sources", []):
        end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if end is None or latest is None:
            continue
        for partition, at in latest.positions.items():
            positions[partition] = max(0, at - end.positions.get(partition, 0))
    return positions


def _source(description: Mapping[str, Any]) -> str:
    """The name that the source reports, or Spark's own for sources of other kinds."""
    latest = _parsed(description.get("latestOffset"))
    return (
        str(latest.get("@source", description.get("description")))
        if latest
        else str(description.get("description"))
    )


def _offsets(text: Any) -> Offsets | None:
    parsed = _parsed(text)
    return None if parsed is None else Offsets.from_json(parsed)


def _parsed(text: Any) -> Mapping[str, Any] | None:
    if isinstance(text, str):
        text = json.loads(text) if text.startswith("{") else None
    return text if isinstance(text, Mapping) else None


def _bytes(query: Any) -> int | None:
    """Spark keeps it with the plan of the last micro-batch, which only a query of this process can be asked for."""
    execution = query._jsq.streamingQuery().lastExecution() if hasattr(query, "_jsq") else None
    if execution is None:
        return None
    leaves = execution.executedPlan().collectLeaves()
    metrics = [leaves.apply(number).metrics() for number in range(leaves.size())]
    sizes = [metric.apply(_BYTES).value() for metric in metrics if metric.contains(_BYTES)]
    return sum(sizes) if sizes else None


def _readable(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}"
        count = round(count / 1000)
    return f"{count:,} GB"
