"""Topics as tables, and nodes that turn changes of a table into other changes."""

from dataclasses import dataclass
from typing import Any

from ottla.pipelines.operators import Step
from ottla.streams.expressions import Expression
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import Function, Node
from ottla.streams.nodes.rows import Rows
from ottla.streams.nodes.stateless import Filter
from ottla.streams.serdes import Serde, objects


@dataclass(frozen=True)
class TableSource(Node):
    """A topic as a table: the latest value of each key; a record without value deletes, one without key is left out."""

    store: str
    key: Serde
    value: Serde

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = frame.where([key is not None for key in objects(frame.keys)])
        if not len(frame):
            return EMPTY
        table = Rows(step, self.store, self.key, self.value)
        places = table.places(frame.keys)
        olds: list[Any] = []
        for place, value, at in zip(places, objects(frame.values), frame.times.tolist(), strict=True):
            olds.append(table.get(place))
            table.put(place, value, at, latest=False)
        table.write()
        return Frame(frame.keys, frame.values, frame.times, olds)


@dataclass(frozen=True)
class ToStream(Node):
    def run(self, frame: Frame, step: Step) -> Frame:
        return Frame(frame.keys, frame.values, frame.times)


@dataclass(frozen=True)
class TableFilter(Filter):
    """A row that is filtered out is deleted downstream, if it was there."""

    def run(self, frame: Frame, step: Step) -> Frame:
        keys = objects(frame.keys)

        def kept(values: list[Any]) -> list[Any]:
            assert not isinstance(self.test, Expression)
            pairs = zip(keys, values, strict=True)
            return [v if v is not None and bool(self.test(k, v)) == self.keep else None for k, v in pairs]

        news, olds = kept(objects(frame.values)), kept(objects(frame.olds))
        found = Frame(frame.keys, news, frame.times, olds)
        return found.where([n is not None or o is not None for n, o in zip(news, olds, strict=True)])


@dataclass(frozen=True)
class TableMapValues(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        news, olds = (
            [None if v is None else self.function(v) for v in objects(c)] for c in (frame.values, frame.olds)
        )
        return Frame(frame.keys, news, frame.times, olds)
