"""Where records come from and go to."""

from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import Node
from ottla.streams.serdes import Serde, milliseconds
from ottla.wire.columns import HEADERS


@dataclass(frozen=True)
class Source(Node):
    topic: str  # as the pipeline's stage calls it
    name: str  # as the cluster calls it
    key: Serde
    value: Serde

    def read(self, rows: pa.RecordBatch) -> Frame:
        times = milliseconds(rows.column("timestamp"))
        headers = rows.column("headers") if "headers" in rows.schema.names else None
        if headers is not None and not len(headers.flatten()):
            headers = None
        keys, values = self.key.decode(rows.column("key")), self.value.decode(rows.column("value"))
        return Frame(keys, values, times, headers=headers)

    def run(self, frame: Frame, step: Step) -> Frame:
        return frame


@dataclass(frozen=True)
class Sink(Node):
    topic: str
    key: Serde
    value: Serde

    def run(self, frame: Frame, step: Step) -> Frame:
        if len(frame):
            columns = [
                self.key.encode(frame.keys),
                self.value.encode(frame.values),
                pa.array(frame.times, pa.int64()),
            ]
            names = ["key", "value", "timestamp"]
            if frame.headers is not None:
                columns.append(_header_cells(frame))
                names.append("headers")
            step.emit(self.topic, pa.RecordBatch.from_arrays(columns, names=names))
        return EMPTY


def _header_cells(frame: Frame) -> pa.Array:
    if isinstance(frame.headers, pa.Array):
        return frame.headers
    return pa.array([[{"key": k, "value": v} for k, v in cell] for cell in frame.header_pairs()], HEADERS)
