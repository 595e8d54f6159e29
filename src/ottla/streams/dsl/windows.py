"""Windows, and what is aggregated by key and window."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.pipelines.aggregate import Windows
from ottla.streams import nodes
from ottla.streams.dsl.stream import Stream
from ottla.streams.serdes import WindowedSerde, int64

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import Grouped


@dataclass(frozen=True)
class Windowed:
    grouped: "Grouped"
    windows: Windows

    def count(self, name: str | None = None) -> "WindowedCounts":
        return WindowedCounts(self, name)


@dataclass(frozen=True)
class WindowedCounts:
    """Counts by key and window; keys of what comes out are pairs of a key and the window's start in milliseconds."""

    windowed: Windowed
    name: str | None
    is_final: bool = False

    def final(self) -> "WindowedCounts":
        """Each window once, when it has closed: its end and grace have passed. With `App(clock="wall")` windows also
        close when nothing more comes."""
        return replace(self, is_final=True)

    def to_stream(self) -> Stream:
        grouped, windows = self.windowed.grouped, self.windowed.windows
        name = self.name or f"KSTREAM-AGGREGATE-STATE-STORE-{len(grouped.stream.builder.graph.nodes):010}"
        node = nodes.WindowedCount(name, grouped.stream.key, windows, self.is_final)
        stream = grouped.stream.repartition(name) if grouped.stream.rekeyed else grouped.stream
        number = stream.builder.graph.add("KSTREAM-AGGREGATE", node, [stream.number], [node.aggregate.spec])
        # The next topic is partitioned by key and window together, as in Kafka Streams.
        return Stream(stream.builder, number, WindowedSerde(stream.key), int64, rekeyed=True)


def tumbling(*, seconds: float = 0, ms: int = 0, grace: float = 0) -> Windows:
    """Windows side by side; `grace` in seconds is how much later than the stream's time records may come."""
    return Windows(int(seconds * 1000) + ms, grace_ms=int(grace * 1000))


def hopping(*, seconds: float = 0, ms: int = 0, advance: float, grace: float = 0) -> Windows:
    """Windows that overlap: one begins every `advance` seconds."""
    return Windows(int(seconds * 1000) + ms, int(advance * 1000), int(grace * 1000))
