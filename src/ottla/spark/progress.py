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
    told = query.lastProgress
    if told is None:
        return None
    told = json.loads(told) if isinstance(told, str) else told
    return Progress(
        source=", ".join(_source(each) for each in told["sources"]),
        batch=told["batchId"],
        rows=told["numInputRows"],
        rows_per_s=float(told.get("processedRowsPerSecond") or 0),
        behind=sum(lag(told).values()),
        bytes=_bytes(query),
    )


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Records not read yet, by partition, from `query.lastProgress` or an event's `progress.json`."""
    found: dict[TopicPartition, int] = {}
    for source in progress.get("sources", []):
        end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if end is None or latest is None:
            continue
        for partition, at in latest.positions.items():
            found[partition] = max(0, at - end.positions.get(partition, 0))
    return found


def _source(told: Mapping[str, Any]) -> str:
    """The name that the source reports, or Spark's own for sources of other kinds."""
    latest = _parsed(told.get("latestOffset"))
    return str(latest.get("@source", told.get("description"))) if latest else str(told.get("description"))


def _offsets(told: Any) -> Offsets | None:
    parsed = _parsed(told)
    return None if parsed is None else Offsets.from_json(parsed)


def _parsed(told: Any) -> Mapping[str, Any] | None:
    if isinstance(told, str):
        told = json.loads(told) if told.startswith("{") else None
    return told if isinstance(told, Mapping) else None


def _bytes(query: Any) -> int | None:
    """Spark keeps it with the plan of the last micro-batch, which only a query of this process can be asked for."""
    execution = query._jsq.streamingQuery().lastExecution() if hasattr(query, "_jsq") else None
    if execution is None:
        return None
    leaves = execution.executedPlan().collectLeaves()
    metrics = [leaves.apply(number).metrics() for number in range(leaves.size())]
    sizes = [each.apply(_BYTES).value() for each in metrics if each.contains(_BYTES)]
    return sum(sizes) if sizes else None


def _readable(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}"
        count = round(count / 1000)
    return f"{count:,} GB"
