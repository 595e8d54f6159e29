"""What the author of a connector writes: a `Source` or a `Sink`. docs/connect.md has a tutorial.

Both are made from their settings alone, in any process, at any time, and may be dropped without `close`: what must
last is on the other side, or in the offsets that the framework keeps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ottla.client.values import TopicPartition
from ottla.connect.schema import Schema
from ottla.connect.settings import Config, Setting

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

Json = dict[str, Any]  # a JSON object: source partitions and source offsets

__all__ = [
    "Batch", "Config", "Header", "Json", "Limit", "Schema", "Setting", "Sink", "SinkBatch", "SinkRecord", "Source",
    "SourceRecord", "TopicPartition",
]  # fmt: skip


class Header(NamedTuple):
    key: str
    value: Any
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record for a topic. Without a schema, dicts, lists, strings, numbers and None are what JSON has."""

    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """A record of a topic, converted and transformed. `topic` may have been changed by a transform: where the record
    comes from is told by `original`, which positions are counted in."""

    topic: str
    partition: int
    offset: int
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    timestamp_type: int = 0  # 0: of the producer, 1: of the broker
    original: TopicPartition | None = None


class Limit(NamedTuple):
    """How much a `read` may give, about: its records become one transaction."""

    records: int = 250_000
    bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """What a source has read, and the source offset behind it.

    `records` is a list of `SourceRecord`, or one Arrow batch: its columns are value and, as wanted, key, headers,
    timestamp, partition, topic, as `ottla.client.columnar` takes them, but with key and value of any Arrow type: the
    schema that goes to the converter comes from that type (`ottla.connect.arrow`). `topic` is of an Arrow batch
    without that column. A batch without records moves the offset alone. A source that knows its converters may give
    `encoded` instead: for each topic, columns that hold the bytes of keys and values.
    """

    records: "Sequence[SourceRecord] | pa.RecordBatch"
    offset: Json
    topic: str | None = None
    encoded: "Sequence[tuple[str, pa.RecordBatch]]" = ()


class Source(ABC):
    """Reads from the other side. One object serves one task; `read` gives the same records again for the same offset.

    The framework keeps for each source partition the offset behind the last batch, in the transaction of the batch's
    records: exactly once, as long as the other side can be read again from an offset.
    """

    settings: ClassVar[Sequence[Setting]] = ()  # beside those that every source has
    version: ClassVar[str] = "1"

    def __init__(self, config: Config) -> None:
        """Cheap: connections are made when they are first needed."""
        self.config = config

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        """Setting -> what is wrong with it, beyond what definitions can tell. Called by `validate` and before start."""
        return {}

    @abstractmethod
    def partitions(self) -> Iterable[Json]:
        """What is read independently of each other: {"filename": ...}, {"server": ...}. Asked again now and then: new
        ones are taken up. Those of one partition are read in order, by one task at a time."""

    def latest(self, partition: Json) -> Json | None:
        """The offset behind what there is now, if that is cheap to know: the partition is not read while its offset
        equals it. None: unknown before `read`."""
        return None

    @abstractmethod
    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        """What follows `offset` (None: from the beginning); None if there is nothing now. Does not wait for long."""

    def committed(self, offsets: Sequence[tuple[Json, Json]]) -> None:
        """Partitions and offsets whose transaction has ended. May be called late, twice, or not at all."""

    def measures(self) -> Mapping[str, float]:
        """For `/metrics` of the worker: numbers that the other side knows, as `slot_retained_bytes`. Asked of an object
        of its own, beside the tasks."""
        return {}

    def alter_offsets(self, offsets: Sequence[tuple[Json, Json | None]]) -> None:
        """Before offsets are changed or removed (None) by REST: raise `ConfigError` if they cannot be right."""

    def close(self) -> None: ...


class SinkBatch:
    """Records of one topic partition, in order. `columns()` has them as they were fetched: Arrow."""

    def __init__(
        self,
        where: TopicPartition,
        records: Callable[[], Sequence[SinkRecord]],
        begin: int,
        end: int,
        rows: Any,
    ) -> None:
        self.where = where
        self.begin, self.end = begin, end  # offsets, half open
        self._make, self._rows = records, rows
        self._records: Sequence[SinkRecord] | None = None

    @property
    def records(self) -> Sequence[SinkRecord]:
        """Converted and transformed; those that were passed over or filtered out are missing."""
        if self._records is None:
            self._records = self._make()
        return self._records

    def columns(self) -> "pa.RecordBatch | None":
        """The columns offset, timestamp, key, value with key and value as the converters give them, if the converters
        and transforms in use can do so on columns; else None, and `records` has them."""
        return self._rows() if callable(self._rows) else self._rows


class Sink(ABC):
    """Writes to the other side. A step is: `positions`, `write` for each topic partition, `commit`.

    A sink that stores positions together with its data returns them from `positions`, and nothing is written twice. For
    the others the group's offsets decide, and what was written in a step that failed is written again.
    Steps of one topic partition may run in different processes, one after the other: read positions from the other
    side in every step, in the transaction (or under the lock) that the step writes in.
    """

    settings: ClassVar[Sequence[Setting]] = ()
    version: ClassVar[str] = "1"
    topic_ids: Mapping[str, str] = {}  # of the topics that are read, by name, as far as the cluster has ids
    # With `errors.tolerance=all`: takes a record that the other side refuses at `commit`, which goes on without it.
    refused: "Callable[[SinkRecord, Exception], None] | None" = None

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        return {}

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Begins a step. The next offset to write for each partition that the other side knows; None: it knows none."""
        return None

    def replaced(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Those whose position is of another topic than the one in `topic_ids`: it was deleted, and created again with
        another id. Called after `positions`. For sinks that store ids beside their positions; a position without an id
        is of any topic."""
        return ()

    @abstractmethod
    def write(self, batch: SinkBatch) -> None: ...

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """What was written lasts from here on, with these positions. The group's offsets are committed after it."""

    def rollback(self) -> None:
        """The step has failed. What was written since `positions` is to be undone, if the other side can."""

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        """REST removes or changes the offsets of a stopped connector: positions on the other side go too."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Plugin:
    """A connector under the names that `connector.class` may have; the first is the one that is shown."""

    names: tuple[str, ...]
    kind: str  # source, sink
    load: "Callable[[], type[Source] | type[Sink]]" = field(compare=False)
