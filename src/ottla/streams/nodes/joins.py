"""Records and rows that meet by their keys."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import Node, complete
from ottla.streams.nodes.rows import Rows
from ottla.streams.serdes import Serde, objects


@dataclass(frozen=True)
class TableJoin(Node):
    """Each record of a stream with its key's row of a table, as the table is at that moment."""

    store: str
    key: Serde
    value: Serde  # of the table
    function: Callable[[Any, Any], Any]
    left: bool = False

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = frame.where([key is not None for key in objects(frame.keys)])
        frame = frame if self.left else complete(frame)
        if not len(frame):
            return EMPTY
        table = Rows(step, self.store, self.key, self.value)
        found = [table.get(place) for place in table.places(frame.keys, create=False)]
        frame = frame if self.left else frame.where([row is not None for row in found])
        rows = found if self.left else [row for row in found if row is not None]
        return frame.with_values(
            [self.function(v, r) for v, r in zip(objects(frame.values), rows, strict=True)]
        )
