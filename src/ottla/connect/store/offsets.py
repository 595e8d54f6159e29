"""Source offsets: what the offsets topic says, and the records that say it."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect.spi import Json
from ottla.connect.store.formats import canonical, dumps, loads, offset_key, parse_offset_key
from ottla.connect.store.table import TopicTable


class Offsets:
    """A view of one topic for all connectors. `catch_up` before anything that must be exact."""

    def __init__(self, client: Mapping[str, Any], topic: str) -> None:
        self._table = TopicTable(client, topic)
        self._offsets: dict[tuple[str, str], tuple[Json, Json]] = {}
        self._keys: dict[
            tuple[str, str], bytes
        ] = {}  # as they are in the topic: Java orders names its own way

    @property
    def topic(self) -> str:
        return self._table.topic

    def catch_up(self) -> None:
        for key, value in self._table.catch_up():
            parsed = parse_offset_key(key)
            if parsed is None:
                continue
            connector, partition = parsed
            place = connector, canonical(partition)
            self._keys[place] = key
            offset = loads(value)
            if isinstance(offset, dict):
                self._offsets[place] = partition, offset
            else:
                self._offsets.pop(place, None)

    def of(self, connector: str) -> list[tuple[Json, Json]]:
        return [offset for (name, _), offset in self._offsets.items() if name == connector]

    def offset(self, connector: str, partition: Json) -> Json | None:
        entry = self._offsets.get((connector, canonical(partition)))
        return None if entry is None else entry[1]

    def rows(self, connector: str, offsets: Iterable[tuple[Json, Json | None]]) -> pa.RecordBatch:
        """The records that move offsets; None removes one."""
        keys, values = [], []
        for partition, offset in offsets:
            place = connector, canonical(partition)
            keys.append(self._keys.setdefault(place, offset_key(connector, partition)))
            values.append(None if offset is None else dumps(offset))
        arrays = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
        return pa.RecordBatch.from_arrays(arrays, names=["key", "value"])

    def close(self) -> None:
        self._table.close()
