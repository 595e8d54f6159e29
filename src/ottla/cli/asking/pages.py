"""Figures from a broker's `/metrics`, where somebody serves it."""

import re
import urllib.request
from collections.abc import Sequence
from typing import NamedTuple

TIMEOUT_S = 2
PAGE_BYTES_MAX = 16 << 20
_SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? ([-+0-9.eEInfa]+)$")
_NODE = re.compile(r'node_id="(\d+)"')


class BrokerFigures(NamedTuple):
    broker: int
    ready: bool
    idle: float
    memory_bytes: int
    connections: int

    def cells(self) -> tuple[object, ...]:
        return "yes" if self.ready else "NO", self.idle, self.memory_bytes, self.connections


def figures_of(addresses: Sequence[str]) -> dict[int, BrokerFigures]:
    """By broker; those that do not answer are missing."""
    by_broker = {}
    for address in addresses:
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as answer:
                figures = parsed(answer.read(PAGE_BYTES_MAX).decode(errors="replace"))
        except OSError:
            continue
        if figures is not None:
            by_broker[figures.broker] = figures
    return by_broker


def parsed(text: str) -> BrokerFigures | None:
    values: dict[str, float] = {}
    broker = None
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        name, labels, value = sample.groups()
        values.setdefault(name, float(value))
        if name == "ottla_build_info":
            node = _NODE.search(labels or "")
            broker = int(node[1]) if node else None
    if broker is None:
        return None
    return BrokerFigures(
        broker,
        bool(values.get("ottla_ready")),
        values.get("kafka_network_socketserver_networkprocessoravgidle_percent", 0.0),
        int(values.get("process_resident_memory_bytes", 0)),
        int(values.get("ottla_connections", 0)),
    )
