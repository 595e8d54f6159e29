"""The options of the source and the sink: names of Spark's own Kafka source, and a few more."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.spark.errors import OptionError

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_CLIENT = "kafka."
_SOURCE = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "failOnDataLoss", "includeHeaders", "columns", "valueFormat", "valueSchema", "valueMode",
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "path",
)  # fmt: skip
_SINK = ("topic", "guarantee", "transactionalIdPrefix", "markerTopic", "assumeNotWritten", "includeHeaders",
         "path", "checkpointLocation", "queryName")  # fmt: skip
# Of Spark's own source; they tune its consumers and have no counterpart here.
_TAKEN_SILENTLY = (
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "maxRecordsPerPartition",
    "kafka.consumer.cache.timeout", "useDeprecatedOffsetFetching",
)  # fmt: skip

Specified = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: one offset or time for all, or one for each partition."""

    everywhere: int | None = None  # EARLIEST, LATEST
    timestamp: int | None = None
    offsets: Specified = field(default_factory=dict)
    timestamps: Specified = field(default_factory=dict)
    late_is_latest: bool = False  # a start behind the last record: an error, or the end


@dataclass(frozen=True, slots=True)
class ReadOptions:
    client: dict[str, str]
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: dict[str, tuple[int, ...]] = field(default_factory=dict)
    starting: Bound = field(default_factory=Bound)
    ending: Bound = field(default_factory=Bound)
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 900_000
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = COLUMNS[:-1]
    value_schema: str | None = None
    fail_fast: bool = False
    group: str | None = None
    group_prefix: str = "spark-ottla"
    idle_timeout_ms: int = 120_000

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> "ReadOptions":
        options = _Options(given, _SOURCE, "source")
        subscribe, pattern = options.text("subscribe"), options.text("subscribePattern")
        assign = options.json("assign")
        if sum(each is not None for each in (subscribe, pattern, assign)) != 1:
            raise OptionError("give exactly one of subscribe, subscribePattern and assign")
        headers = options.boolean("includeHeaders", False)
        client = options.client()
        return cls(
            client=client,
            subscribe=tuple(sorted({t.strip() for t in (subscribe or "").split(",") if t.strip()})),
            pattern=pattern,
            assign={t: tuple(sorted(map(int, p))) for t, p in (assign or {}).items()},
            starting=_bound(options, "starting", LATEST if streaming else EARLIEST),
            ending=_bound(options, "ending", LATEST),
            max_offsets=options.number("maxOffsetsPerTrigger"),
            min_offsets=options.number("minOffsetsPerTrigger"),
            max_delay_ms=_duration_ms(options.text("maxTriggerDelay") or "15m"),
            min_partitions=options.number("minPartitions"),
            fail_on_data_loss=options.boolean("failOnDataLoss", True),
            columns=_columns(options.text("columns"), headers),
            value_schema=_value_schema(options),
            fail_fast=options.one_of("valueMode", "permissive", "failfast") == "failfast",
            group=client.get("group.id"),
            group_prefix=options.text("groupIdPrefix") or "spark-ottla",
            idle_timeout_ms=options.number("kafkaConsumer.pollTimeoutMs") or 120_000,
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    client: dict[str, str]
    topic: str | None = None
    exactly_once: bool = True
    prefix: str = "spark-ottla"
    marker_topic: str = "__consumer_offsets"
    assume_not_written: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> "WriteOptions":
        options = _Options(given, _SINK, "sink")
        fallback = "exactly-once" if streaming else "at-least-once"
        guarantee = options.one_of("guarantee", "exactly-once", "at-least-once", fallback=fallback)
        return cls(
            client=options.client(),
            topic=options.text("topic"),
            exactly_once=guarantee == "exactly-once",
            prefix=options.text("transactionalIdPrefix") or "spark-ottla",
            marker_topic=options.text("markerTopic") or "__consumer_offsets",
            assume_not_written=options.number("assumeNotWritten"),
        )


class _Options:
    """Options by name, whatever their case, as Spark hands them over."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in (*known, *_TAKEN_SILENTLY)}
        for name in self._given:
            if name not in names and not name.startswith(_CLIENT):
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"; did you mean {names[near[0]]}?" if near else ""
                raise OptionError(f"the {what} has no option {name}{hint}")

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.strip().isdigit():
            raise OptionError(f"{name} is {value!r}; it must be a whole number")
        return int(value)

    def boolean(self, name: str, fallback: bool) -> bool:
        return self.one_of(name, "true", "false", fallback=str(fallback).lower()) == "true"

    def one_of(self, name: str, *allowed: str, fallback: str | None = None) -> str:
        value = (self.text(name) or fallback or allowed[0]).lower()
        if value not in allowed:
            raise OptionError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
        return value

    def json(self, name: str) -> Any:
        value = self.text(name)
        try:
            return None if value is None else json.loads(value)
        except ValueError as error:
            raise OptionError(f"{name} is no JSON: {error}") from error

    def client(self) -> dict[str, str]:
        """What follows `kafka.`, for the client."""
        client = {n.removeprefix(_CLIENT): v for n, v in self._given.items() if n.startswith(_CLIENT)}
        client.pop("consumer.cache.timeout", None)
        if "bootstrap.servers" not in client:
            raise OptionError("kafka.bootstrap.servers is missing; give host:port")
        return client


def _bound(options: _Options, edge: str, fallback: int) -> Bound:
    """Time for each partition, time for all, offsets: the first that is given, as Spark has it."""
    late = options.one_of("startingOffsetsByTimestampStrategy", "error", "latest") == "latest"
    by_time = options.json(f"{edge}OffsetsByTimestamp")
    if by_time is not None:
        return Bound(timestamps=_specified(by_time, f"{edge}OffsetsByTimestamp"), late_is_latest=late)
    timestamp = options.number(f"{edge}Timestamp")
    if timestamp is not None:
        return Bound(timestamp=timestamp, late_is_latest=late)
    name = f"{edge}Offsets"
    match (options.text(name) or "").strip().lower():
        case "":
            return Bound(everywhere=fallback)
        case "latest":
            return Bound(everywhere=LATEST)
        case "earliest" if edge == "starting":
            return Bound(everywhere=EARLIEST)
        case "earliest":
            raise OptionError(f"{name} cannot be earliest: nothing would be read")
        case _:
            return Bound(offsets=_specified(options.json(name), name))


def _specified(given: Any, name: str) -> Specified:
    """`{"topic": {"0": 23, "1": -2}}`; -2 is the earliest, -1 the latest."""
    try:
        return {(t, int(p)): int(at) for t, partitions in given.items() for p, at in partitions.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f'{name} must look like {{"topic": {{"0": 23}}}}, not {given!r}') from error


def _columns(given: str | None, headers: bool) -> tuple[str, ...]:
    if given is None:
        return COLUMNS if headers else COLUMNS[:-1]
    known = {name.lower(): name for name in COLUMNS}
    wanted = [each.strip().lower() for each in given.split(",") if each.strip()]
    for each in wanted:
        if each not in known:
            raise OptionError(f"columns: there is no {each}; known are {', '.join(COLUMNS)}")
    if not wanted or len(set(wanted)) != len(wanted):
        raise OptionError(f"columns is {given!r}; name each column once")
    return tuple(known[each] for each in wanted)


def _value_schema(options: _Options) -> str | None:
    schema = options.text("valueSchema")
    if options.one_of("valueFormat", "binary", "json") == "binary":
        if schema is not None:
            raise OptionError("valueSchema needs valueFormat=json")
        return None
    if schema is None:
        raise OptionError('valueFormat=json needs valueSchema, for example "device STRING, pulse INT"')
    return schema if schema.lower().startswith("struct<") else f"struct<{schema}>"


def _duration_ms(text: str) -> int:
    units = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    number = text.strip().lower().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text.strip().lower()[len(number) :].strip() or "ms"
    unit = unit if unit in units else unit.rstrip("s").removesuffix("econd").removesuffix("inute") or unit
    if not number.isdigit() or unit not in units:
        raise OptionError(f"maxTriggerDelay is {text!r}; write 30s, 15m or 1h")
    return int(number) * units[unit]
