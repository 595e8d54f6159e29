"""A search in a process of its own (`search_process` starts it), the task as JSON on standard input.

Tells its progress, its matches and its end as JSON lines. Records stay in Arrow's columns: only matches become objects.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.columnar import ColumnarReader, Range
from ottla.client.values import ConsumerRecord
from ottla.console import decoding
from ottla.console.export import message_row
from ottla.console.masking import Masks
from ottla.console.schemas import Schemas
from ottla.errors import OttlaError
from ottla.serialization.framing import KEY_HEADER, VALUE_HEADER

EVERY_S = 0.25
SHOWN_MAX = 4 * 1024
REST_MAX_S = 0.5
T = TypeVar("T")
# Small answers: the search is bound by matching, and a broker serves others between them.
READER = {"max.partition.fetch.bytes": 64 * 1024, "fetch.max.bytes": 64 * 1024}
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
        hits = masks[0]
        for mask in masks[1:]:
            hits = pc.or_kleene(hits, mask)
        return pc.fill_null(hits, False)

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


class SeenMatcher:
    """For topics with schemas or hidden fields: matches what the viewer sees. A search of the bytes would miss the
    values of a schema, and tell what is hidden."""

    def __init__(self, task: dict[str, Any], masks: Masks, schemas: Schemas | None) -> None:
        self._plain, self._masks, self._schemas = Matcher(task), masks, schemas

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        if not self._masks and not self._may_have_schemas(batch):
            return self._plain.rows(batch)
        columns = {name: batch.column(name) for name in batch.schema.names}
        headers = columns["headers"].to_pylist()
        for name in ("key", "value"):
            columns[name] = pa.array(self._seen(name, columns[name].to_pylist(), headers), pa.binary())
        masked_headers = [
            [header for header in row_headers or () if not self._masks.hides_header(header["key"])]
            for row_headers in headers
        ]
        columns["headers"] = pa.array(masked_headers, columns["headers"].type)
        return self._plain.rows(pa.RecordBatch.from_pydict(columns))

    def _may_have_schemas(self, batch: pa.RecordBatch) -> bool:
        """By the first byte or by a header: batches of plain texts stay in their columns."""
        if self._schemas is None:
            return False
        if any(pc.any(pc.starts_with(batch.column(name), b"\0")).as_py() for name in ("key", "value")):
            return True
        names = pc.list_flatten(batch.column("headers")).field("key")
        return bool(pc.any(pc.is_in(names, pa.array([KEY_HEADER, VALUE_HEADER], names.type))).as_py())

    def _seen(self, field: str, values: list[bytes | None], headers: list[Any]) -> list[bytes | None]:
        masked = []
        for data, row_headers in zip(values, headers, strict=True):
            pairs = [(header["key"], header["value"]) for header in row_headers or ()]
            decoded = self._schemas.decoded(data, pairs, field) if self._schemas is not None else None
            plain = data if decoded is None or decoded.data is None else decoded.data
            masked.append(self._masks.masked(field, plain)[0])
        return masked


class Progress:
    """How far a search has come, told to the console now and then."""

    def __init__(self, ranges: list[Range], tell: Tell, clock: Callable[[], float]) -> None:
        self._starts = {range_.partition: range_.start for range_ in ranges}
        self._positions = dict(self._starts)
        self._total = sum(range_.end - range_.start for range_ in ranges)
        self._tell, self._clock, self._told_at = tell, clock, 0.0
        self.read = self.found = 0

    def on_batch(self, batch: pa.RecordBatch, hits: int) -> None:
        self.read += batch.num_rows
        self.found += hits
        for partition, offset in _last(batch).items():
            self._positions[partition] = max(self._positions[partition], offset + 1)
        if self._clock() - self._told_at > EVERY_S:
            self._told_at = self._clock()
            self._say(self._done)

    def on_end(self, how: str) -> None:
        self._say(self._total if how == "all" else self._done, end=how)

    @property
    def _done(self) -> int:
        return sum(at - self._starts[partition] for partition, at in self._positions.items())

    def _say(self, done: int, **more: str) -> None:
        self._tell({"done": done, "total": self._total, "read": self.read, "found": self.found, **more})


def search(task: dict[str, Any], tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
    """Reads the ranges to their ends, or until there are enough matches."""
    masks = Masks.parse(task.get("masks", ()))
    rules = masks.of(task["topic"])
    schemas = Schemas.at(task["registry"]) if task.get("registry") else None
    matcher = SeenMatcher(task, rules, schemas) if rules or schemas else Matcher(task)
    ranges = [Range(task["topic"], p, begin, end) for p, begin, end in task["ranges"]]
    progress = Progress(ranges, tell, clock)
    settings = {**task["settings"], **READER, "isolation.level": task.get("isolation", "read_uncommitted")}
    with ColumnarReader(settings) as reader:
        for batch in paced(reader.read(ranges, headers=True, tolerate_loss=True)):
            hits = batch.filter(matcher.rows(batch))
            for row in hits.slice(0, task["limit"] - progress.found).to_pylist():
                tell({"match": _row(row, masks, schemas)})
            progress.on_batch(batch, hits.num_rows)
            if progress.found >= task["limit"]:
                progress.on_end("enough")
                return
    progress.on_end("all")


def paced(
    batches: Iterator[T],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[T]:
    """Half of the time is others': after each batch a rest for as long as it took to get and to search it.

    A broker that takes long to answer is busy, and so is asked less often."""
    while True:
        began = clock()
        batch = next(batches, None)
        if batch is None:
            return
        yield batch
        sleep(min(clock() - began, REST_MAX_S))


def _last(batch: pa.RecordBatch) -> dict[int, int]:
    table = pa.table({"p": batch.column("partition"), "o": batch.column("offset")})
    rows = table.group_by("p").aggregate([("o", "max")]).to_pylist()
    return {row["p"]: row["o_max"] for row in rows}


def _row(row: dict[str, Any], masks: Masks, schemas: Schemas | None) -> dict[str, Any]:
    """A match, decoded and cut here, so that the console never holds a whole large record."""
    stamp = row["timestamp"]
    record = ConsumerRecord(
        row["topic"],
        row["partition"],
        row["offset"],
        -1 if stamp is None else int(stamp.timestamp() * 1000),
        row["key"],
        row["value"],
        [(header["key"], header["value"]) for header in row["headers"] or ()],
    )
    shown = decoding.message(record, masks, shown_max=SHOWN_MAX, with_command=False, schemas=schemas)
    parts = {
        "key": _part(shown.key),
        "value": _part(shown.value),
        "headers": [[name, _part(part)] for name, part in shown.headers],
    }
    plain = message_row(shown)
    return {**{name: plain[name] for name in ("topic", "partition", "offset", "timestamp")}, **parts}


def _part(part: Any) -> list[Any]:
    return [part.kind, part.text, part.size, part.cut, part.masked, part.schema]


def main() -> int:
    pa.set_cpu_count(1)
    pa.set_memory_pool(pa.system_memory_pool())  # others keep what they once had
    task = json.loads(sys.stdin.readline())

    def tell(document: dict[str, Any]) -> None:
        print(json.dumps(document), flush=True)

    try:
        search(task, tell)
    except (OttlaError, OSError, pa.ArrowInvalid) as error:
        tell({"error": " ".join(str(error).split())})
        return 1
    return 0
