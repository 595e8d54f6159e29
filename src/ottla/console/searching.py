"""Searches that run: each in a process of its own, with bounded results, and a way to stop it."""

import asyncio
import hashlib
import json
import logging
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.console.model import Message, Part

log = logging.getLogger(__name__)
RUNNING_MAX, KEPT_MAX = 4, 20
LINE_MAX = 4 * 1024 * 1024
MATCHES = 200


@dataclass(slots=True)
class Search:
    """One search and what it has found so far."""

    owner: str
    topic: str
    task: Mapping[str, Any]
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    done: int = 0
    total: int = 0
    read: int = 0
    found: int = 0
    outcome: str = ""  # all, enough, stopped, or what went wrong
    matches: list[Message] = field(default_factory=list)
    process: asyncio.subprocess.Process | None = None
    running: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.ended is not None

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began

    def on_line(self, document: dict[str, Any]) -> None:
        if "match" in document:
            if len(self.matches) < MATCHES:
                self.matches.append(_message(document["match"]))
            return
        if "error" in document:
            self.outcome = document["error"]
            return
        self.done, self.total, self.read, self.found = (
            document[name] for name in ("done", "total", "read", "found")
        )
        self.outcome = document.get("end", self.outcome)

    async def run(self) -> None:
        try:
            await self._follow()
        finally:
            self.ended = time.monotonic()
            self.outcome = self.outcome or "stopped"
            if self.process is not None and self.process.returncode is None:
                self.process.kill()
                await self.process.wait()

    async def _follow(self) -> None:
        process = self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ottla.console.search_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_MAX,
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},  # a search is short-lived and has few threads
        )
        assert process.stdin is not None and process.stdout is not None
        # Settings with passwords go through the pipe: a command line is everybody's to read.
        process.stdin.write(json.dumps(self.task).encode() + b"\n")
        await process.stdin.drain()
        while line := await process.stdout.readline():
            self.on_line(json.loads(line))
        await process.wait()
        self.outcome = self.outcome or f"the search ended with exit code {process.returncode}"

    def stop(self) -> None:
        if self.running is not None and not self.is_over:
            self.running.cancel()


class TooMany(Exception):
    """So many searches run already that another one has to wait."""


class Searches:
    """By what was asked: opening a search's address again shows the same search."""

    def __init__(self) -> None:
        self._searches: OrderedDict[str, Search] = OrderedDict()

    def find(self, owner: str, key: str) -> Search | None:
        return self._searches.get(f"{owner}/{key}")

    def start(self, owner: str, key: str, topic: str, task: Mapping[str, Any]) -> Search:
        if sum(not search.is_over for search in self._searches.values()) >= RUNNING_MAX:
            raise TooMany(f"{RUNNING_MAX} searches run already; stop one or wait for its end")
        search = Search(owner, topic, task)
        search.total = sum(end - begin for _, begin, end in task["ranges"])
        search.running = asyncio.ensure_future(search.run())
        search.running.add_done_callback(_look_at)
        self._searches[f"{owner}/{key}"] = search
        while len(self._searches) > KEPT_MAX:
            _, oldest = self._searches.popitem(last=False)
            oldest.stop()
        return search

    def forget(self, owner: str, key: str) -> None:
        if (search := self._searches.pop(f"{owner}/{key}", None)) is not None:
            search.stop()

    async def close(self) -> None:
        running = [search.running for search in self._searches.values() if search.running is not None]
        for search in self._searches.values():
            search.stop()
        await asyncio.gather(*running, return_exceptions=True)


def key_of(query: Mapping[str, str], topic: str) -> str:
    """Of the parameters that say what is searched for."""
    chosen = [
        topic,
        *(query.get(name, "") for name in ("q", "part", "header", "mode", "case", "partition", "run")),
    ]
    return hashlib.sha256("\0".join(chosen).encode()).hexdigest()[:32]


def _look_at(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a search failed", exc_info=task.exception())


def _message(document: dict[str, Any]) -> Message:
    def part(values: list[Any]) -> Part:
        kind, text, size, cut, masked, schema = values
        data = json.loads(text) if kind == "json" and not cut else None
        return Part(kind, text, size, data, cut, masked, schema)

    headers = [(name, part(values)) for name, values in document["headers"]]
    return Message(
        document["topic"],
        document["partition"],
        document["offset"],
        document["timestamp"],
        part(document["key"]),
        part(document["value"]),
        headers,
    )
