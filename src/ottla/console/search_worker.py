"""A search in a process of its own: `python -m ottla.console.search_worker`, the task as JSON on standard input.

Tells its progress, its matches and its end as JSON lines. Records stay in Arrow's columns: only matches become objects.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.columnar import ColumnarReader, Range
from ottla.client.values import ConsumerRecord
from ottla.console import decoding
from ottla.console.export import message_row
from ottla.console.masking import Masks
from ottla.errors import OttlaError

EVERY_S = 0.25
SHOWN_MAX = 4 * 1024
# Small answers: the search is bound by matching, and a broker serves others between them.
READER = {"max.partition.fetch.bytes": 512 * 1024, "fetch.max.bytes": 2 * 1024 * 1024}
Tell = Callable[[dict[str, Any]], None]


class Matcher:
    """Which rows of a batch match. `part` is key, value, header or any."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.part: str = task["part"]
        self.header: str = task.get("header", "")
        self.needle: bytes = task["needle"].encode()
        self.mode: str = task["mode"]  # contains, exact, pattern
        self.ignore_case: bool = bool(task.get("ignore_case"))

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """A boolean for each row; null counts as no."""
        masks = []
        if self.part in ("key", "any"):
            masks.append(self.match(batch.column("key")))
        if self.part in ("value", "any"):
            masks.append(self.match(batch.column("value")))
        if self.part in ("header", "any"):
            masks.append(self._headers(batch))
        found = masks[0]
        for mask in masks[1:]:
            found = pc.or_kleene(found, mask)
        return pc.fill_null(found, False)

    def match(self, texts: pa.Array) -> pa.Array:
        match self.mode:
            case "exact":
                return pc.equal(texts, pa.scalar(self.needle, texts.type))
            case "pattern":  # Arrow's engine is RE2: linear time, whatever the pattern
                return pc.match_substring_regex(texts, self.needle, ignore_case=self.ignore_case)
            case _:
                return pc.match_substring(texts, self.needle, ignore_case=self.ignore_case)

    def _headers(self, batch: pa.RecordBatch) -> pa.Array:
        """A row matches if one of its headers does; with a header's name only that header counts."""
        lists = batch.column("headers")
        entries = pc.list_flatten(lists)
        values = self.match(entries.field("value"))
        if self.header:
            values = pc.and_kleene(values, pc.equal(entries.field("key"), self.header))
        hits = pc.list_parent_indices(lists).filter(pc.fill_null(values, False)).unique()
        return pc.is_in(pa.array(range(batch.num_rows), hits.type), hits)


class MaskedMatcher:
    """For topics with hidden fields: matches what the viewer may see, or a search would tell what is hidden."""

    def __init__(self, task: dict[str, Any], masks: Masks) -> None:
        self._plain, self._masks = Matcher(task), masks

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name in ("key", "value"):
            seen = [self._masks.masked(name, data)[0] for data in columns[name].to_pylist()]
            columns[name] = pa.array(seen, pa.binary())
        kept = [
            [header for header in headers or () if not self._masks.hides_header(header["key"])]
            for headers in columns["headers"].to_pylist()
        ]
        columns["headers"] = pa.array(kept, columns["headers"].type)
        return self._plain.rows(pa.RecordBatch.from_pydict(columns))


def search(task: dict[str, Any], tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
    """Reads the ranges to their ends, or until there are enough matches."""
    masks = Masks.parse(task.get("masks", ()))
    rules = masks.of(task["topic"])
    matcher = MaskedMatcher(task, rules) if rules else Matcher(task)
    ranges = [Range(task["topic"], p, begin, end) for p, begin, end in task["ranges"]]
    total = sum(each.end - each.start for each in ranges)
    positions = {each.partition: each.start for each in ranges}
    starts = dict(positions)
    found = read = 0
    told_at = 0.0
    settings = {**task["settings"], **READER, "isolation.level": task.get("isolation", "read_uncommitted")}
    with ColumnarReader(settings) as reader:
        for batch in reader.read(ranges, headers=True, tolerate_loss=True):
            read += batch.num_rows
            hits = batch.filter(matcher.rows(batch))
            for row in hits.slice(0, task["limit"] - found).to_pylist():
                tell({"match": _row(row, masks)})
            found += hits.num_rows
            for partition, offset in _last(batch).items():
                positions[partition] = max(positions[partition], offset + 1)
            if clock() - told_at > EVERY_S:
                told_at = clock()
                tell(
                    {
                        "done": sum(positions[p] - starts[p] for p in positions),
                        "total": total,
                        "read": read,
                        "found": found,
                    }
                )
            if found >= task["limit"]:
                tell(
                    {
                        "done": sum(positions[p] - starts[p] for p in positions),
                        "total": total,
                        "read": read,
                        "found": found,
                        "end": "enough",
                    }
                )
                return
    tell({"done": total, "total": total, "read": read, "found": found, "end": "all"})


def _last(batch: pa.RecordBatch) -> dict[int, int]:
    table = pa.table({"p": batch.column("partition"), "o": batch.column("offset")})
    rows = table.group_by("p").aggregate([("o", "max")]).to_pylist()
    return {row["p"]: row["o_max"] for row in rows}


def _row(row: dict[str, Any], masks: Masks) -> dict[str, Any]:
    """A match, decoded and cut here, so that the console never holds a whole large record."""
    stamp = row["timestamp"]
    record = ConsumerRecord(
        row["topic"],
        row["partition"],
        row["offset"],
        -1 if stamp is None else int(stamp.timestamp() * 1000),
        row["key"],
        row["value"],
        [(each["key"], each["value"]) for each in row["headers"] or ()],
    )
    shown = decoding.message(record, masks, shown_max=SHOWN_MAX, with_command=False)
    parts = {
        "key": _part(shown.key),
        "value": _part(shown.value),
        "headers": [[name, _part(part)] for name, part in shown.headers],
    }
    plain = message_row(shown)
    return {**{name: plain[name] for name in ("topic", "partition", "offset", "timestamp")}, **parts}


def _part(part: Any) -> list[Any]:
    return [part.kind, part.text, part.size, part.cut, part.masked]


def main() -> int:
    os.nice(10)  # the broker may be on this machine
    pa.set_cpu_count(1)
    pa.set_memory_pool(pa.system_memory_pool())  # others keep what they once had
    task = json.loads(sys.stdin.readline())

    def tell(told: dict[str, Any]) -> None:
        print(json.dumps(told), flush=True)

    try:
        search(task, tell)
    except (OttlaError, OSError, pa.ArrowInvalid) as error:
        tell({"error": " ".join(str(error).split())})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
