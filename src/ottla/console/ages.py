"""How old the first record is that a group is not done with: a lag in time, from the records' own timestamps."""

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.client.values import TopicPartition
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.console.workspace import Workspace

PLACES_MAX = 50  # partitions that are looked at for a page
EVERY_S, PATIENCE_S = 2.0, 1.5
KEPT_MAX = 5_000
FETCH = {"max_partition_fetch_bytes": 16 * 1024, "fetch_max_bytes": 1024 * 1024}


class Ages:
    """A record is fetched once for each position: a group that stands still is not asked about again."""

    def __init__(self) -> None:
        self._known: OrderedDict[TopicPartition, tuple[int, int]] = OrderedDict()
        self._looked_at: OrderedDict[str, float] = OrderedDict()

    async def of(
        self, workspace: "Workspace", group: str, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The timestamps (ms) of the first records at or behind these positions, as far as they are known."""
        wanted = dict(sorted(positions.items())[:PLACES_MAX])
        new = {place: at for place, at in wanted.items() if self._known.get(place, (-1, 0))[0] != at}
        if new and time.monotonic() - self._looked_at.get(group, 0.0) > EVERY_S:
            self._looked_at[group] = time.monotonic()
            while len(self._looked_at) > KEPT_MAX:
                self._looked_at.popitem(last=False)
            await self._look(workspace, new)
        return {place: self._known[place][1] for place in wanted if place in self._known}

    async def _look(self, workspace: "Workspace", wanted: dict[TopicPartition, int]) -> None:
        remaining = dict(wanted)
        deadline = time.monotonic() + PATIENCE_S
        try:
            async with workspace.consumer(**FETCH) as consumer:
                await consumer.assign(list(remaining))
                for place, at in remaining.items():
                    await consumer.seek(place, at)
                while remaining and time.monotonic() < deadline:
                    for record in await consumer.poll(0.2):
                        place = TopicPartition(record.topic, record.partition)
                        if place in remaining:
                            self._keep(place, remaining.pop(place), record.timestamp)
        except OttlaError:
            return  # without the right to read the topic there are no ages

    def _keep(self, place: TopicPartition, at: int, timestamp_ms: int) -> None:
        self._known[place] = at, timestamp_ms
        self._known.move_to_end(place)
        while len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)
