"""What the protocol does not tell, from `/metrics` pages of brokers and mirrors: bytes out, throttles, lags."""

import asyncio
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import Request, build_opener

from ottla.console.schemas import basic, split_login

BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
THROTTLES, THROTTLE_S = "ottla_throttles_total", "ottla_throttle_seconds_total"
MIRROR = "ottla_mirror_"
NAMES = (BYTES_OUT, THROTTLES, THROTTLE_S, MIRROR)
EVERY_S = 5.0
TIMEOUT_S = 2.0
BYTES_MAX = 32 * 1024 * 1024
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Labels = tuple[tuple[str, str], ...]
Series = dict[tuple[str, Labels], float]


@dataclass(frozen=True, slots=True)
class ScrapedFigures:
    """Rates since the last look, and figures of now."""

    bytes_out: float | None = None  # a second
    throttles: Mapping[str, float] = field(default_factory=dict)  # answers a second that told to wait, by API
    throttle_s: Mapping[str, float] = field(
        default_factory=dict
    )  # seconds a second that clients were told to wait
    links: Mapping[str, Mapping[tuple[str, int], Mapping[str, float]]] = field(default_factory=dict)


class Scrapes:
    """Asks all pages every few seconds. One that does not answer counts with what it said last."""

    def __init__(self, pages: Sequence[str]) -> None:
        self.pages = tuple(pages)
        self.latest = ScrapedFigures()
        self._series: dict[str, Series] = {}
        self._asked_at = 0.0

    async def look(self) -> ScrapedFigures | None:
        """None if it is too early to ask."""
        now = time.monotonic()
        elapsed = now - self._asked_at
        if not self.pages or elapsed < EVERY_S:
            return None
        answers = await asyncio.gather(
            *(asyncio.to_thread(_read, page) for page in self.pages), return_exceptions=True
        )
        fresh = {
            page: answer for page, answer in zip(self.pages, answers, strict=True) if isinstance(answer, dict)
        }
        self.latest = rates(self._series, fresh, elapsed)
        self._series |= fresh
        self._asked_at = now
        return self.latest


def rates(before: Mapping[str, Series], after: Mapping[str, Series], elapsed_s: float) -> ScrapedFigures:
    """Over all pages. A counter that is smaller than before belongs to a broker that was started again."""
    totals: dict[tuple[str, str], float] = {}
    out: float | None = None
    links: dict[str, dict[tuple[str, int], dict[str, float]]] = {}
    for page, series in after.items():
        known = before.get(page)
        if known is not None and any(name == BYTES_OUT for name, _ in series):
            out = (out or 0.0) + max(0.0, bytes_out(series) - bytes_out(known))
        for (name, labels), value in series.items():
            if name in (THROTTLES, THROTTLE_S) and known is not None:
                api = dict(labels).get("api", "")
                grown = max(0.0, value - known.get((name, labels), 0.0))
                totals[name, api] = totals.get((name, api), 0.0) + grown
            elif name.startswith(MIRROR):
                _add_link(links, name.removeprefix(MIRROR), dict(labels), value)
    return ScrapedFigures(
        None if out is None else out / elapsed_s,
        {api: total / elapsed_s for (name, api), total in totals.items() if name == THROTTLES and total},
        {api: total / elapsed_s for (name, api), total in totals.items() if name == THROTTLE_S and total},
        links,
    )


def _add_link(
    links: dict[str, dict[tuple[str, int], dict[str, float]]], name: str, labels: dict[str, str], value: float
) -> None:
    partitions = links.setdefault(labels.get("link", ""), {})
    partition = labels.get("partition", "")
    if partition.isdecimal() and len(partition) <= 10:
        partitions.setdefault((labels.get("topic", ""), int(partition)), {})[name] = value


def bytes_out(series: Series) -> float:
    """The series for all topics; the sum over topics where there is none."""
    by_topic = [
        (dict(labels).get("topic", ""), value)
        for (name, labels), value in series.items()
        if name == BYTES_OUT
    ]
    whole = [value for topic, value in by_topic if not topic]
    return sum(whole) if whole else sum(value for _, value in by_topic)


def parsed(text: str) -> Series:
    """The series of a page that the console shows."""
    return {(name, labels): value for name, labels, value in _lines(text)}


def _lines(text: str) -> Iterator[tuple[str, Labels, float]]:
    for line in text.splitlines():
        if not line.startswith(NAMES):
            continue
        head, _, value = line.rpartition(" ")
        name, _, labels = head.partition("{")
        try:
            yield name, tuple((key, _unescaped(match)) for key, match in _LABEL.findall(labels)), float(value)
        except ValueError:
            continue


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\") if "\\" in text else text


def check_address(page: str) -> str:
    """`HOST:PORT` or a whole address."""
    address = page if "://" in page else f"http://{page}/metrics"
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc:
        raise ValueError(
            f"{page!r} is not the address of a /metrics page: write HOST:PORT or http://HOST:PORT/metrics"
        )
    return address


def _read(page: str) -> Series:
    address, login = split_login(page)
    headers = {} if login is None else {"Authorization": basic(login)}
    with build_opener().open(Request(address, headers=headers), timeout=TIMEOUT_S) as answer:
        return parsed(answer.read(BYTES_MAX).decode(errors="replace"))
