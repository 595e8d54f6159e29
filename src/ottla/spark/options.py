"""The options of the source and the sink: names of Spark's own Kafka source, and a few more."""

import difflib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.errors import SettingError
from ottla.client.session import EARLIEST, LATEST
from ottla.client.settings import ConsumerSettings, ProducerSettings, Settings
from ottla.spark.errors import OptionError

log = logging.getLogger(__name__)

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
MARKER_TOPIC = "__spark_ottla_markers"  # always empty, see commits.py
_CLIENT = "kafka."
_SOURCE = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "columns", "valueFormat",
    "valueSchema", "valueMode", "registry", "valueSubject", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "path",
    # Of Spark's own source. Our client asks again until kafka.default.api.timeout.ms instead of a number of times.
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
)  # fmt: skip
_SINK = ("topic", "valueFormat", "registry", "valueSubject", "guarantee", "transactionalIdPrefix", "markerTopic",
         "assumeNotWritten", "queryId", "batchId", "includeHeaders", "path", "checkpointLocation",
         "queryName")  # fmt: skip
_OF_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ENDS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
# Spark's own connector refuses these, too: the query decides, not the client.
_DECIDED_BY_SPARK = {
    "auto.offset.reset": "the checkpoint says where to go on; the option startingOffsets, where to begin",
    "enable.auto.commit": "the checkpoint keeps the offsets; the group only shows them",
    "key.deserializer": "keys arrive as bytes: cast or decode the column key",
    "value.deserializer": "values arrive as bytes: cast or decode the column value, or set valueFormat",
    "key.serializer": "keys are written as bytes: make them in the column key",
    "value.serializer": "values are written as bytes: make them in the column value",
    "interceptor.classes": "there is no Java to run them",
}
_KEY_STORE = "Java key stores cannot be read: convert it to PEM files"
_KEY_STORE_FILES = (".jks", ".keystore", ".truststore", ".p12", ".pfx", ".bcfks")

REGISTRY_FORMATS = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}

Specified = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Registered:
    """Values carry ids of a registry's schemas; `subject` has the one to read them with.

    `version` is the one that the query was planned with; None before that is known."""

    url: str
    subject: str
    schema_type: str
    version: int | None = None


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
    max_records: int | None = None  # of a task
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = COLUMNS[:-1]
    value_schema: str | None = None
    registered: "Registered | None" = None
    fail_fast: bool = False
    tell_errors: bool = False  # in columns of their own
    group: str | None = None
    group_prefix: str = "spark-ottla"
    idle_timeout_ms: int = 120_000

    @property
    def description(self) -> str:
        """What is read, in words."""
        if self.pattern is not None:
            return f"ottla[subscribePattern: {self.pattern}]"
        if self.assign:
            partitions = (f"{topic}-{index}" for topic, indexes in self.assign.items() for index in indexes)
            return f"ottla[assign: {', '.join(partitions)}]"
        return f"ottla[subscribe: {', '.join(self.subscribe)}]"

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, streaming: bool | None) -> "ReadOptions":
        """`streaming` None: for the schema, before it is known how it will be read."""
        options = _Options(texts, _SOURCE, "source")
        if streaming:
            _refuse_of_batches(options)
        elif streaming is not None:
            _warn_of_streams(options)
        headers = options.boolean("includeHeaders", False)
        client = options.client(ConsumerSettings)
        registered = _registered(options)
        mode = options.one_of("valueMode", "permissive", "failfast", "column")
        if mode == "column" and registered is None:
            raise OptionError("valueMode=column needs valueFormat and registry")
        return cls(
            client=client,
            **_topics(options),
            starting=_start(options, streaming),
            ending=_end(options),
            **_limits(options),
            max_delay_ms=_duration_ms(options.text("maxTriggerDelay") or "15m"),
            min_partitions=options.number("minPartitions", at_least=1),
            max_records=options.number("maxRecordsPerPartition", at_least=1),
            fail_on_data_loss=options.boolean("failOnDataLoss", True),
            columns=_columns(options.text("columns"), headers),
            value_schema=None if registered is not None else _value_schema(options),
            registered=registered,
            fail_fast=mode == "failfast",
            tell_errors=mode == "column",
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
    marker_topic: str = MARKER_TOPIC
    assume_not_written: int | None = None
    registered: "Registered | None" = None  # values are structs, and written with a schema
    query: str | None = None  # inside foreachBatch: whose micro-batch this is,
    batch: int | None = None  # and which

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, streaming: bool) -> "WriteOptions":
        options = _Options(texts, _SINK, "sink")
        query, batch = options.text("queryId"), options.number("batchId")
        if (query is None) != (batch is None) or (streaming and query is not None):
            raise OptionError("queryId and batchId belong together, and into foreachBatch")
        fallback = "exactly-once" if streaming or query is not None else "at-least-once"
        guarantee = options.one_of("guarantee", "exactly-once", "at-least-once", fallback=fallback)
        if query is not None and guarantee != "exactly-once":
            raise OptionError("queryId and batchId mean exactly once; leave out guarantee")
        return cls(
            client=options.client(ProducerSettings),
            topic=options.text("topic"),
            exactly_once=guarantee == "exactly-once",
            prefix=options.text("transactionalIdPrefix") or "spark-ottla",
            marker_topic=options.text("markerTopic") or MARKER_TOPIC,
            assume_not_written=options.number("assumeNotWritten"),
            registered=_written_with(options),
            query=query,
            batch=batch,
        )


class _Options:
    """Options by name, whatever their case, as Spark hands them over."""

    def __init__(self, texts: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
        self._texts = {name.lower(): value for name, value in texts.items()}
        names = {name.lower(): name for name in known}
        for name in self._texts:
            if name not in names and not name.startswith(_CLIENT):
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"; did you mean {names[near[0]]}?" if near else ""
                raise OptionError(f"the {what} has no option {name}{hint}")

    def text(self, name: str) -> str | None:
        return self._texts.get(name.lower())

    def has(self, name: str) -> bool:
        return name.lower() in self._texts

    def number(self, name: str, *, at_least: int = 0) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.strip().isdecimal() or int(value) < at_least:
            raise OptionError(f"{name} is {value!r}; it must be a whole number, at least {at_least}")
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

    def client(self, kind: type[Settings]) -> dict[str, str]:
        """What follows `kafka.`, for the client; refused here what it would refuse later, in a worker."""
        client = {n.removeprefix(_CLIENT): v for n, v in self._texts.items() if n.startswith(_CLIENT)}
        if "bootstrap.servers" not in client:
            raise OptionError("kafka.bootstrap.servers is missing; give host:port")
        for name, value in client.items():
            _refuse_setting(name, value)
        try:
            kind.parse(client)
        except SettingError as error:
            raise OptionError(f"options that begin with kafka.: {error}") from error
        return client


def _refuse_setting(name: str, value: str) -> None:
    if name in _DECIDED_BY_SPARK:
        raise OptionError(f"kafka.{name} is not supported: {_DECIDED_BY_SPARK[name]}")
    if name.startswith("ssl.keystore."):
        raise OptionError(
            f"kafka.{name}: {_KEY_STORE}, kafka.ssl.certificate.location and kafka.ssl.key.location"
        )
    java = name == "ssl.truststore.location" and value.lower().endswith(_KEY_STORE_FILES)
    java = java or (name == "ssl.truststore.type" and value.upper() != "PEM")
    if java or name == "ssl.truststore.password":
        raise OptionError(f"kafka.{name}: {_KEY_STORE}, kafka.ssl.ca.location")


def _refuse_of_batches(options: _Options) -> None:
    for name in _ENDS:
        if options.has(name):
            raise OptionError(f"{name}: a stream has no end; leave it out, or read with spark.read")
    if options.has("maxRecordsPerPartition"):
        raise OptionError(
            "maxRecordsPerPartition would change the number of tasks, and writing exactly once counts on it; "
            "set minPartitions"
        )


def _warn_of_streams(options: _Options) -> None:
    for name in _OF_STREAMS:
        if options.has(name):
            log.warning("%s is of streams; a batch reads everything at once", name)


def _topics(options: _Options) -> dict[str, Any]:
    chosen = {name: options.text(name) for name in ("subscribe", "subscribePattern", "assign")}
    if sum(value is not None for value in chosen.values()) != 1:
        raise OptionError("give exactly one of subscribe, subscribePattern and assign")
    for name, value in chosen.items():
        if value is not None and not value.strip(", "):
            raise OptionError(f"{name} is empty; name the topics to read")
    return {
        "subscribe": tuple(sorted({t.strip() for t in (chosen["subscribe"] or "").split(",") if t.strip()})),
        "pattern": chosen["subscribePattern"],
        "assign": _assigned(options.json("assign")),
    }


def _assigned(document: Any) -> dict[str, tuple[int, ...]]:
    try:
        assigned = {topic: tuple(sorted(map(int, indexes))) for topic, indexes in (document or {}).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f'assign must look like {{"topic": [0, 1]}}, not {document!r}') from error
    if document is not None and not any(assigned.values()):
        raise OptionError("assign names no partition")
    return assigned


def _limits(options: _Options) -> dict[str, Any]:
    most = options.number("maxOffsetsPerTrigger", at_least=1)
    least = options.number("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
    return {"max_offsets": most, "min_offsets": least}


def _start(options: _Options, streaming: bool | None) -> Bound:
    bound = _bound(options, "starting", LATEST if streaming else EARLIEST)
    if streaming is False and (bound.everywhere == LATEST or LATEST in bound.offsets.values()):
        raise OptionError("startingOffsets cannot be latest in a batch: nothing would be read")
    return bound


def _end(options: _Options) -> Bound:
    bound = _bound(options, "ending", LATEST)
    if bound.everywhere == EARLIEST or EARLIEST in bound.offsets.values():
        raise OptionError("endingOffsets cannot be earliest: nothing would be read")
    return bound


def _bound(options: _Options, edge: str, fallback: int) -> Bound:
    """Time for all, time for each partition, offsets: the first that is given, as Spark has it."""
    late = options.one_of("startingOffsetsByTimestampStrategy", "error", "latest") == "latest"
    timestamp = options.number(f"{edge}Timestamp")
    if timestamp is not None:
        return Bound(timestamp=timestamp, late_is_latest=late)
    by_time = options.json(f"{edge}OffsetsByTimestamp")
    if by_time is not None:
        return Bound(timestamps=_specified(by_time, f"{edge}OffsetsByTimestamp"), late_is_latest=late)
    name = f"{edge}Offsets"
    match (options.text(name) or "").strip().lower():
        case "":
            return Bound(everywhere=fallback)
        case "latest":
            return Bound(everywhere=LATEST)
        case "earliest":
            return Bound(everywhere=EARLIEST)
        case _:
            return Bound(offsets=_specified(options.json(name), name))


def _specified(document: Any, name: str) -> Specified:
    """`{"topic": {"0": 23, "1": -2}}`; -2 is the earliest, -1 the latest."""
    try:
        return {(t, int(p)): int(at) for t, partitions in document.items() for p, at in partitions.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f'{name} must look like {{"topic": {{"0": 23}}}}, not {document!r}') from error


def _columns(text: str | None, headers: bool) -> tuple[str, ...]:
    if text is None:
        return COLUMNS if headers else COLUMNS[:-1]
    known = {name.lower(): name for name in COLUMNS}
    wanted = [part.strip().lower() for part in text.split(",") if part.strip()]
    for column in wanted:
        if column not in known:
            raise OptionError(f"columns: there is no {column}; known are {', '.join(COLUMNS)}")
    if not wanted or len(set(wanted)) != len(wanted):
        raise OptionError(f"columns is {text!r}; name each column once")
    return tuple(known[column] for column in wanted)


def _registered(options: _Options) -> Registered | None:
    form = options.text("valueFormat")
    url, subject = options.text("registry"), options.text("valueSubject")
    if form not in REGISTRY_FORMATS:
        if url is not None or subject is not None:
            raise OptionError(f"registry and valueSubject need valueFormat={' or '.join(REGISTRY_FORMATS)}")
        return None
    if url is None:
        raise OptionError(f"valueFormat={form} needs registry, for example http://localhost:8081")
    if options.text("valueSchema") is not None:
        raise OptionError(f"valueFormat={form} takes its schema from the registry; leave out valueSchema")
    named = options.text("subscribe") or options.text("topic") or ""
    topics = [topic.strip() for topic in named.split(",") if topic.strip()]
    if subject is None and len(topics) != 1:
        raise OptionError("without exactly one topic, valueSubject has to name the schema's subject")
    return Registered(url, subject or f"{topics[0]}-value", REGISTRY_FORMATS[form])


def _written_with(options: _Options) -> Registered | None:
    form = options.text("valueFormat")
    if form is not None and form not in REGISTRY_FORMATS:
        raise OptionError(f"valueFormat is {form!r}; values are written as {' or '.join(REGISTRY_FORMATS)}")
    return _registered(options)


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
    if not number.isdecimal() or unit not in units:
        raise OptionError(f"maxTriggerDelay is {text!r}; write 30s, 15m or 1h")
    return int(number) * units[unit]
