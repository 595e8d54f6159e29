"""Bytes that consumers fetch: the protocol does not tell them, but brokers' `/metrics` do, where there are any."""

import asyncio
import time
from collections.abc import Sequence
from urllib.parse import urlsplit
from urllib.request import build_opener

NAME = "kafka_server_brokertopicmetrics_bytesout_total"
EVERY_S = 5.0
TIMEOUT_S = 2.0
BYTES_MAX = 32 * 1024 * 1024


class Outflow:
    """Asks all pages every few seconds. One that does not answer counts with what it said last."""

    def __init__(self, pages: Sequence[str]) -> None:
        self.pages = tuple(pages)
        self._totals: dict[str, float] = {}
        self._asked_at = 0.0

    async def rate(self) -> float | None:
        """Bytes a second since the last answer; None if it is too early to ask, or nobody answers."""
        now = time.monotonic()
        elapsed = now - self._asked_at
        if not self.pages or elapsed < EVERY_S:
            return None
        told = await asyncio.gather(
            *(asyncio.to_thread(_total, page) for page in self.pages), return_exceptions=True
        )
        totals = {
            page: total for page, total in zip(self.pages, told, strict=True) if isinstance(total, float)
        }
        # A counter that is smaller than before belongs to a broker that was started again.
        grown = [
            max(0.0, total - self._totals[page]) for page, total in totals.items() if page in self._totals
        ]
        self._totals |= totals
        self._asked_at = now
        return sum(grown) / elapsed if grown else None


def total_of(text: str) -> float:
    """The series for all topics; the sum over topics where there is none."""
    whole: float | None = None
    by_topic = 0.0
    for line in text.splitlines():
        if not line.startswith(NAME):
            continue
        labels, _, value = line.removeprefix(NAME).strip().rpartition(" ")
        if 'topic="' in labels and 'topic=""' not in labels:
            by_topic += float(value)
        else:
            whole = (whole or 0.0) + float(value)
    return by_topic if whole is None else whole


def check_address(page: str) -> str:
    """`HOST:PORT` or a whole address."""
    address = page if "://" in page else f"http://{page}/metrics"
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc:
        raise ValueError(
            f"{page!r} is not the address of a /metrics page: write HOST:PORT or http://HOST:PORT/metrics"
        )
    return address


def _total(page: str) -> float:
    with build_opener().open(page, timeout=TIMEOUT_S) as answer:
        return total_of(answer.read(BYTES_MAX).decode(errors="replace"))
