"""`/telemetry`: the clients that push their metrics, and the last push of each, as JSON."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.broker.telemetry import Instance
from ottla.errors import CorruptMessage, UnsupportedCompressionType
from ottla.wire import otlp
from ottla.wire.compression import decompress

if TYPE_CHECKING:
    from ottla.server.node import Node

UNPACKED_BYTES_MAX = 256 << 10  # of one push: reading it takes the loop some ten milliseconds
SHOWN_MAX = 1_000  # clients


def telemetry_page(node: "Node") -> Iterator[str]:
    """One client after the other: decoding a push may take a millisecond."""
    telemetry = node.broker.telemetry if node.broker.has_telemetry else None
    instances = list(telemetry.instances.values()) if telemetry is not None else []
    yield '{"clients": ['
    for at, instance in enumerate(reversed(instances[-SHOWN_MAX:])):
        yield ("," if at else "") + json.dumps(_shown(instance))
    yield "]}\n"


def _shown(instance: Instance) -> dict[str, Any]:
    last = instance.last
    shown = {
        **instance.about,
        "principal": instance.principal,
        "interval_ms": instance.interval_ms,
        "subscribed": list(instance.metrics),
        "pushes": instance.pushes,
        "terminating": instance.is_terminating,
        "pushed_at_ms": None if last is None else last.at_ms,
        "bytes": None if last is None else len(last.metrics),
    }
    if last is None:
        return shown | {"metrics": []}
    try:
        data = decompress(last.compression_type, last.metrics, limit=UNPACKED_BYTES_MAX)
        points = otlp.points(data)
    except (CorruptMessage, UnsupportedCompressionType) as error:
        return shown | {"metrics": [], "error": str(error)}
    return shown | {"metrics": [point._asdict() for point in points]}
