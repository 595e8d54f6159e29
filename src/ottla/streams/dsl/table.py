"""`Table`: the latest value of each key, as a flow of changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.streams import nodes
from ottla.streams.dsl.builder import Builder
from ottla.streams.dsl.stream import Stream
from ottla.streams.errors import BadTopology
from ottla.streams.serdes import Serde, json


@dataclass(frozen=True)
class Table:
    """The latest value of each key, as a flow of changes. `origin` is the node that keeps its rows."""

    builder: Builder
    number: int
    key: Serde
    value: Serde
    origin: int
    store: str
    stored: Serde
    joinable: str | None

    def filter(self, test: Callable[[Any, Any], bool]) -> "Table":
        return self._derived("KTABLE-FILTER", nodes.TableFilter(test), self.value)

    def map_values(self, function: Callable[[Any], Any], value: Serde = json) -> "Table":
        return self._derived("KTABLE-MAPVALUES", nodes.TableMapValues(function), value)

    def to_stream(self) -> Stream:
        number = self.builder.graph.add("KTABLE-TOSTREAM", nodes.ToStream(), [self.number])
        return Stream(self.builder, number, self.key, self.value)

    def store_of(self) -> str:
        """The store to look rows up in; a table that was filtered or mapped has none of its own."""
        if self.joinable is None or self.number != self.origin:
            raise BadTopology(
                f"a stream can be joined with a table that was read or aggregated under a name; {self.store} was "
                "counted, filtered or mapped since: write it to a topic and read that as a table"
            )
        return self.joinable

    def _derived(self, kind: str, node: nodes.Node, value: Serde) -> "Table":
        number = self.builder.graph.add(kind, node, [self.number])
        return Table(
            self.builder, number, self.key, value, self.origin, self.store, self.stored, self.joinable
        )
