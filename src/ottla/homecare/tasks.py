"""What runs in Spark's tasks: rows of a micro-batch become a few small tables for the driver.

Records are reduced where they are read. A table crosses from Python to the JVM and on to the driver as one value,
packed by Arrow: however many rows it has, Spark handles one.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

SCHEMA = "name string, rows binary"
NOTHING = ("cast(null as string) name", "cast(null as binary) rows")  # a tick
POSITIONS = "positions"
AGES = "ages"
_SAMPLES = 200  # moments of each task, to tell latencies by

ByTopic = dict[str, list[pa.RecordBatch]]
Work = Callable[[ByTopic], dict[str, pa.Table]]
_PACKED = pa.schema([("name", pa.string()), ("rows", pa.binary())])


def packer(work: Work) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For the reader: one packed table for each that `work` makes, and two about what was read."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_topic = split(batches)
        if not by_topic:
            return
        tables = {**work(by_topic), POSITIONS: positions(by_topic), AGES: moments(by_topic)}
        packed = [pack(table) for table in tables.values()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(tables), pa.string()), pa.array(packed, pa.binary())], schema=_PACKED
        )

    return run


def split(batches: Iterable[pa.RecordBatch]) -> ByTopic:
    """By topic."""
    found: ByTopic = {}
    for rows in batches:
        topics = rows.column("topic")
        if not rows.num_rows:
            continue
        different = pc.unique(topics).to_pylist()
        for topic in different:
            chosen = rows if len(different) == 1 else rows.filter(pc.equal(topics, topic))
            found.setdefault(topic, []).append(chosen)
    return found


def positions(by_topic: ByTopic) -> pa.Table:
    """For each partition: the offset behind the last record, the newest event time, how many records."""
    columns = ["topic", "partition", "offset", "timestamp"]
    table = pa.Table.from_batches([rows.select(columns) for batches in by_topic.values() for rows in batches])
    found = table.group_by(["topic", "partition"]).aggregate(
        [("offset", "max"), ("timestamp", "max"), ("offset", "count")]
    )
    names = {"offset_max": "offset", "timestamp_max": "newest", "offset_count": "rows"}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def moments(by_topic: ByTopic) -> pa.Table:
    """Event times of some of the records, evenly chosen."""
    times = pa.chunked_array([rows.column("timestamp") for batches in by_topic.values() for rows in batches])
    chosen = np.linspace(0, len(times) - 1, min(len(times), _SAMPLES)).astype(np.int64)
    return pa.table({"at": times.take(pa.array(chosen))})


def pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack(packed: pa.Table) -> dict[str, pa.Table]:
    """In the driver: the tables of all tasks, those of one name put together."""
    found: dict[str, list[pa.Table]] = {}
    names: list[Any] = packed["name"].to_pylist()
    for name, rows in zip(names, packed["rows"], strict=True):
        if name is None:
            continue  # a tick: it has done its work by causing the micro-batch
        found.setdefault(name, []).append(pa.ipc.open_stream(rows.as_buffer()).read_all())
    return {name: pa.concat_tables(tables) for name, tables in found.items()}
