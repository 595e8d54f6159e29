"""Topics that every worker holds whole, outside the positions of its stream tasks: for joins by any key."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import TopicPartition
from ottla.frozen import frozen_with_dict
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore

if TYPE_CHECKING:
    from ottla.pipelines.cluster_log import SharedReader


@frozen_with_dict
class GlobalTable:
    """A topic and the store that holds the latest value of each of its keys."""

    topic: str
    store: StoreSpec


class GlobalStores:
    """In this process. `refresh` reads what has come since the last time: what a step sees of a global table is not
    tied to the step, so a step that is done again may see more."""

    def __init__(self, tables: tuple[GlobalTable, ...], reader: "SharedReader") -> None:
        self._tables, self._reader = tables, reader
        self.stores: Mapping[str, KeyedStore] = {
            table.store.name: KeyedStore(table.store) for table in tables
        }
        self._positions: dict[TopicPartition, int] = {}

    def refresh(self) -> None:
        for table in self._tables:
            ranges = {}
            for where, (begin, end) in self._reader.stable_bounds(table.topic).items():
                at = max(begin, self._positions.get(where, begin))
                if at < end:
                    ranges[where] = (at, end)
            if ranges:
                for rows in self._reader.read(ranges):
                    take_in(self.stores[table.store.name], rows)
                self._positions.update({where: end for where, (_, end) in ranges.items()})


def take_in(store: KeyedStore, rows: pa.RecordBatch) -> None:
    """Records of the topic: a later one wins, one without value deletes, one without key says nothing."""
    keyed = rows.filter(rows.column("key").is_valid())
    stamps = keyed.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    store.apply(keyed.column("key"), keyed.column("value"), stamps)
