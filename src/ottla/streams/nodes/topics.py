"""Where records come from and go to."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_column, numpy_column
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import Node, present
from ottla.streams.serdes import Serde, milliseconds
from ottla.wire.columns import HEADERS


@frozen_with_dict
class Source(Node):
    topic: str  # as the pipeline's stage calls it
    name: str  # as the cluster calls it
    key: Serde
    value: Serde

    def read(self, rows: pa.RecordBatch, order: Any) -> Frame:
        times = milliseconds(rows.column("timestamp"))
        keys, values = self.key.decode(rows.column("key")), self.value.decode(rows.column("value"))
        return Frame(keys, values, times, order, headers=_headers(rows))

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return frame


@frozen_with_dict
class Sink(Node):
    """`only_keyed`: an internal topic by key has no place for records without one."""

    topic: str
    key: Serde
    value: Serde
    only_keyed: bool = False

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        if self.only_keyed:
            frame = frame.where(present(frame.keys))
        if len(frame):
            rows = [
                self.key.encode(frame.keys),
                self.value.encode(frame.values),
                arrow_column(frame.times),
            ]
            names = ["key", "value", "timestamp"]
            if frame.headers is not None:
                rows.append(pa.array(frame.headers, HEADERS))
                names.append("headers")
            step.emit(self.topic, pa.RecordBatch.from_arrays(rows, names=names))
        return EMPTY


def _headers(rows: pa.RecordBatch) -> list[Any] | None:
    if "headers" not in rows.schema.names:
        return None
    column = rows.column("headers")
    if not len(column.values) or column.null_count == len(column):
        return None
    return column.to_pylist()  # type: ignore[no-any-return]


def part_of(rows: pa.RecordBatch, topic: str) -> tuple[pa.RecordBatch, Any]:
    """The rows of one topic, and their places among all."""
    topics = rows.column("topic")
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if names == [topic]:
        return rows, np.arange(rows.num_rows)
    if topic not in names:
        return rows.slice(0, 0), np.empty(0, np.int64)
    places = np.flatnonzero(numpy_column(encoded.indices) == names.index(topic))
    return rows.take(arrow_column(places)), places
