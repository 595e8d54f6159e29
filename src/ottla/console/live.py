"""What changes while a page is open: one stream of events for each browser, with the differences of its pages."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.console import json_text, rendering
from ottla.console.context import BadRequest, NotFound
from ottla.console.markup import escape
from ottla.console.model import Chart, Fields, Form, Messages, Page, Table
from ottla.console.rendering import Blocks
from ottla.console.sampler import Sampler
from ottla.console.tail import Tail
from ottla.errors import OttlaError

STREAMS_MAX, PAGES_MAX, QUEUED_MAX = 64, 8, 200
QUIET_S = 15.0


@dataclass(slots=True)
class Shown:
    """What a browser has of a page: texts by their keys."""

    cells: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    charts: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


def differences(shown: Shown, page: Page, blocks: Blocks) -> dict[str, Any]:
    """What the browser lacks; `shown` is brought up to date.

    At first it is not known what the browser has: it gets every cell, and a digest of the rows of each table.
    """
    is_first = not (shown.cells or shown.blocks)
    now = Shown(_head(page))
    rows: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for block in page.blocks:
        if isinstance(block, Form) or (isinstance(block, Messages) and block.tail):
            continue
        if isinstance(block, Chart):
            now.charts[f"chart/{block.key}"] = rendering.chart_data(block)
            continue
        name = f"block/{block.key}"
        if (digest := rendering.rows_digest(block)) is not None:
            # The same rows in the same order: cells change in place. Otherwise the table is sent as a whole.
            now.blocks[name] = rows[name] = digest
            now.cells |= _cells(block)
        else:
            now.blocks[name] = blocks.block(block)
        if shown.blocks.get(name) != now.blocks[name] and not (is_first and name in rows):
            replaced[name] = blocks.block(block)
    now.order = [*now.blocks, *now.charts]
    document: dict[str, Any] = {
        "cells": _changed(shown.cells, now.cells, replaced),
        "blocks": replaced,
        "charts": {key: data for key, data in now.charts.items() if shown.charts.get(key) != data},
        "rows": rows if is_first else {},
        "order": now.order if is_first or shown.order != now.order else [],
    }
    shown.cells, shown.blocks, shown.charts, shown.order = now.cells, now.blocks, now.charts, now.order
    return {name: value for name, value in document.items() if value}


def _head(page: Page) -> dict[str, str]:
    cells: dict[str, str] = {"subtitle": escape(page.subtitle)} if page.subtitle else {}
    return cells | {f"figure/{figure.key}": rendering.figure_content(figure) for figure in page.figures}


def _changed(before: dict[str, str], after: dict[str, str], replaced: dict[str, str]) -> dict[str, str]:
    """Cells with another text, but for those of blocks that are sent as a whole."""
    return {
        key: text
        for key, text in after.items()
        if before.get(key) != text and f"block/{key.split('/', 1)[0]}" not in replaced
    }


def _cells(block: object) -> dict[str, str]:
    if isinstance(block, Fields):
        return {f"{block.key}/{label}": rendering.cell_content(cell) for label, cell in block.fields}
    assert isinstance(block, Table)
    return {
        f"{block.key}/{row.key}/{column.key}": rendering.cell_content(cell)
        for row in block.rows
        for column, cell in zip(block.columns, row.cells, strict=True)
        if cell.form is None
    }


PageOf = Callable[[str], Awaitable[tuple[Page, Blocks]]]


class Stream:
    """The events of one browser. Its pages are told by `follow`."""

    def __init__(
        self, owner: str, sampler: Sampler, page_of: PageOf, tail_of: Callable[[str], Tail | None]
    ) -> None:
        self.id = secrets.token_urlsafe(12)
        self.owner = owner
        self._sampler, self._page_of, self._tail_of = sampler, page_of, tail_of
        self._pages: dict[str, Shown] = {}
        self._tails: dict[str, Tail] = {}
        self._queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(QUEUED_MAX)

    def follow(self, addresses: list[str]) -> None:
        """Exactly these pages from now on."""
        chosen = list(dict.fromkeys(addresses))[:PAGES_MAX]
        self._pages = {address: Shown() for address in chosen}  # a tab that has just opened has old figures
        for gone in [address for address in self._tails if address not in chosen]:
            self._tails.pop(gone).close()
        for address in chosen:
            if address not in self._tails and (tail := self._tail_of(address)) is not None:
                self._tails[address] = tail
                tail.start(lambda news, here=address: self._put("records", {"page": here, **news}))  # type: ignore[misc]

    async def events(self) -> AsyncIterator[str]:
        """Server-sent events, until the browser goes away."""
        self._sampler.watchers += 1
        ticking = asyncio.ensure_future(self._tick())
        try:
            yield _event("hello", {"id": self.id})
            while True:
                try:
                    async with asyncio.timeout(QUIET_S):
                        name, document = await self._queue.get()
                except TimeoutError:
                    yield ": still here\n\n"
                else:
                    if name == "end":
                        return
                    yield _event(name, document)
        finally:
            self._sampler.watchers -= 1
            ticking.cancel()
            for tail in self._tails.values():
                tail.close()

    def end(self) -> None:
        """The console stops: the browser is let go."""
        while self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(("end", {}))

    async def _tick(self) -> None:
        while True:
            await self._sampler.next_tick()
            trouble = self._sampler.snapshot.trouble
            for address, shown in list(self._pages.items()):
                try:
                    page, blocks = await self._page_of(address)
                except (NotFound, BadRequest, OttlaError) as error:
                    self._put("gone", {"page": address, "text": str(error)})
                    continue
                if page.live and (changes := differences(shown, page, blocks)):
                    self._put("page", {"page": address, **changes})
            self._put("tick", {"trouble": trouble})

    def _put(self, name: str, document: dict[str, Any]) -> None:
        """A browser that does not read loses the oldest events, and gets its pages as a whole again."""
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            self._pages = {address: Shown() for address in self._pages}
            self._queue.put_nowait(("reload", {}))
            return
        self._queue.put_nowait((name, document))


class Streams:
    """All streams; the oldest end when there are too many."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}

    def open(self, stream: Stream) -> bool:
        if len(self._streams) >= STREAMS_MAX:
            return False
        self._streams[stream.id] = stream
        return True

    def get(self, identity: str, owner: str) -> Stream | None:
        stream = self._streams.get(identity)
        return stream if stream is not None and stream.owner == owner else None

    def close(self) -> None:
        for stream in self._streams.values():
            stream.end()

    async def events(self, stream: Stream) -> AsyncIterator[str]:
        inner = stream.events()
        try:
            async for event in inner:
                yield event
        finally:
            self._streams.pop(stream.id, None)
            await inner.aclose()  # type: ignore[attr-defined]


def _event(name: str, document: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json_text.dumps(document)}\n\n"
