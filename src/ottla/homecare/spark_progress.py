"""How far a source of a query has read, from the query's own progress."""

import json
from typing import Any

from ottla.spark.offsets import Offsets, Positions


def read_up_to(told: Any) -> Positions:
    """Of an `endOffset`: text, or parsed already; nothing for sources that are not topics (ticks)."""
    if isinstance(told, str):
        told = json.loads(told) if told.startswith("{") else None
    return Offsets.from_json(told).positions if isinstance(told, dict) else {}
