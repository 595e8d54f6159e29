"""New records of a topic as they arrive, for a page that watches them."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.client.values import TopicPartition
from ottla.console import decoding, rendering
from ottla.console.masking import Masks
from ottla.console.schemas import Schemas
from ottla.console.workspace import Workspace
from ottla.errors import OttlaError

log = logging.getLogger(__name__)
SHOWN_MAX = 50  # of one moment; a page with more would be unreadable and slow
EVERY_S = 0.25


class Tail:
    """Reads from the end of the topic. Under a flood it shows the newest records and tells how many it left out."""

    def __init__(
        self,
        workspace: Workspace,
        topic: str,
        query: Mapping[str, str],
        masks: Masks,
        schemas: Schemas | None = None,
    ) -> None:
        self._workspace, self._topic, self._query = workspace, topic, query
        self._masks, self._schemas = masks, schemas
        self._task: asyncio.Task[None] | None = None

    def start(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._task = asyncio.ensure_future(self._run(tell))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, tell: Callable[[dict[str, Any]], None]) -> None:
        while True:
            try:
                await self._follow(tell)
            except (OttlaError, OSError) as error:
                tell({"trouble": str(error)})
                await asyncio.sleep(2)

    async def _follow(self, tell: Callable[[dict[str, Any]], None]) -> None:
        isolation = (
            "read_committed" if self._query.get("isolation") == "read_committed" else "read_uncommitted"
        )
        async with self._workspace.consumer(isolation_level=isolation) as consumer:
            chosen = self._query.get("partition", "")
            there = await consumer.partitions_for(self._topic)
            places = [TopicPartition(self._topic, p) for p in there if chosen in ("", str(p))]
            await consumer.assign(places)
            await consumer.seek_to_end(places)
            for place in places:  # the end is looked up now, not at the first poll
                await consumer.position(place)
            tell({"ready": True})
            while True:
                records = await consumer.poll(1.0)
                if not records:
                    continue
                shown = records[-SHOWN_MAX:]
                if self._schemas is None:
                    html = self._html(shown)
                else:
                    html = await asyncio.to_thread(self._html, shown)
                tell({"html": html, "skipped": len(records) - len(shown)})
                await asyncio.sleep(EVERY_S)

    def _html(self, records: Sequence[Any]) -> str:
        decoded = (
            decoding.message(record, self._masks, schemas=self._schemas) for record in reversed(records)
        )
        return "".join(map(rendering.message, decoded))
