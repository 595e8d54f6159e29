"""Made-up records, the same ones each time: `fields=id:sequence,pulse:int(40,180),ward:choice(a|b|c),at:now`."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ottla.connect import schema as s
from ottla.connect.errors import ConfigError
from ottla.connect.schema import Schema
from ottla.connect.settings import DOUBLE, HIGH, LONG, MEDIUM, STRING, Setting
from ottla.connect.spi import Batch, Config, Json, Limit, Source, SourceRecord

GENERATOR, COUNT, SINCE = "generator", "count", "since_ms"
_BLOCK = 1000
_FIELD = re.compile(r"\s*([\w.-]+):(\w+)(?:\(([^)]*)\))?\s*(?:,|$)")
Maker = Callable[[np.random.Generator, int, int], list[Any]]  # chance, first number, how many


class DatagenSource(Source):
    settings = (
        Setting("topic", STRING, doc="Topic to write to", importance=HIGH),
        Setting(
            "fields",
            STRING,
            "id:sequence,value:int(0,100)",
            "name:kind(arguments), separated by commas",
            HIGH,
        ),
        Setting("key.field", STRING, None, "Field that is the record's key", MEDIUM),
        Setting("rate", DOUBLE, "0", "Records a second; 0: as fast as it goes", HIGH, least=0),
        Setting("records", LONG, "-1", "How many; -1: without end", HIGH, least=-1),
        Setting("seed", LONG, "0", "Another one gives other records", MEDIUM, least=0),
    )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._fields = _parsed(config["fields"])
        self._schema = s.struct("ottla.datagen", {name: schema for name, (schema, _) in self._fields.items()})
        self._key = config["key.field"]
        key = self._schema.field(self._key) if self._key else None
        self._key_schema = key.schema if key else None

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        try:
            fields = _parsed(config["fields"])
        except ConfigError as error:
            return {"fields": str(error)}
        key = config["key.field"]
        return {"key.field": f"there is no field {key}"} if key and key not in fields else {}

    def partitions(self) -> Iterable[Json]:
        return [{GENERATOR: index} for index in range(int(self.config.get("tasks.max") or 1))]

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        count = int((offset or {}).get(COUNT, 0))
        since = int((offset or {}).get(SINCE, int(time.time() * 1000)))
        most = min(limit.records, _BLOCK - count % _BLOCK if self.config["rate"] else limit.records)
        if self.config["records"] >= 0:
            most = min(most, self.config["records"] - count)
        if self.config["rate"]:
            due = int((time.time() * 1000 - since) * self.config["rate"] / 1000) + 1
            most = min(most, due - count)
        if most <= 0:
            return None
        records = self._generated(int(partition[GENERATOR]), count, min(most, 20 * _BLOCK))
        return Batch(records, {COUNT: count + len(records), SINCE: since})

    def _generated(self, generator: int, first: int, most: int) -> list[SourceRecord]:
        records: list[SourceRecord] = []
        while len(records) < most:
            at = first + len(records)
            block = self._block(generator, at // _BLOCK)
            records += block[at % _BLOCK :]
        return records[:most]

    def _block(self, generator: int, number: int) -> list[SourceRecord]:
        """From the numbers of the generator and the block alone, so that it can be made again."""
        chance = np.random.default_rng([self.config["seed"], generator, number])
        columns = [make(chance, number * _BLOCK, _BLOCK) for _, make in self._fields.values()]
        names, topic = list(self._fields), self.config["topic"]
        key = names.index(self._key) if self._key else None
        return [
            SourceRecord(
                topic,
                dict(zip(names, row, strict=True)),
                self._schema,
                None if key is None else row[key],
                self._key_schema,
            )
            for row in zip(*columns, strict=True)
        ]


def _parsed(text: str) -> dict[str, tuple[Schema, Maker]]:
    makers: dict[str, tuple[Schema, Maker]] = {}
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            raise ConfigError(f"fields: {text[at : at + 40]!r} is not name:kind or name:kind(arguments)")
        name, kind, arguments = match[1], match[2], match[3] or ""
        if kind not in _KINDS:
            raise ConfigError(f"fields: {name} has the kind {kind}; there are {', '.join(_KINDS)}")
        try:
            makers[name] = _KINDS[kind](arguments)
        except ValueError:
            raise ConfigError(f"fields: {name}:{kind}({arguments}): the arguments do not fit") from None
        at = match.end()
    return makers


def _sequence(arguments: str) -> tuple[Schema, Maker]:
    return Schema(s.INT64), lambda chance, first, count: list(range(first, first + count))


def _int(arguments: str) -> tuple[Schema, Maker]:
    low, high = map(int, arguments.split(","))
    return Schema(s.INT64), lambda chance, first, count: chance.integers(
        low, high, count, endpoint=True
    ).tolist()


def _float(arguments: str) -> tuple[Schema, Maker]:
    low, high = map(float, arguments.split(","))
    return Schema(s.FLOAT64), lambda chance, first, count: chance.uniform(low, high, count).tolist()


def _choice(arguments: str) -> tuple[Schema, Maker]:
    names = [name.strip() for name in arguments.split("|")]
    return Schema(s.STRING), lambda chance, first, count: [
        names[i] for i in chance.integers(0, len(names), count)
    ]


def _text(arguments: str) -> tuple[Schema, Maker]:
    length = int(arguments or 8)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return Schema(s.STRING), lambda chance, first, count: [
        "".join(row) for row in letters[chance.integers(0, 26, (count, length))]
    ]


def _boolean(arguments: str) -> tuple[Schema, Maker]:
    share = float(arguments or 0.5)
    return Schema(s.BOOLEAN), lambda chance, first, count: (chance.random(count) < share).tolist()


def _now(arguments: str) -> tuple[Schema, Maker]:
    """The only kind that differs when a record is made again."""
    return s.timestamp(), lambda chance, first, count: [s.moment(int(time.time() * 1000))] * count


_KINDS: dict[str, Callable[[str], tuple[Schema, Maker]]] = {
    "sequence": _sequence, "int": _int, "float": _float, "choice": _choice, "text": _text, "boolean": _boolean,
    "now": _now,
}  # fmt: skip
