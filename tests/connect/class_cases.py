"""Random records for transforms, predicates and converters, and what Kafka's own classes made of them.

`python -m tests.connect.class_cases FILE` asks the classes (tests/oracle/java/ConnectClasses.java) and writes it down.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

PACKAGE = "org.apache.kafka.connect.transforms."
PRIMITIVES = ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LOGICAL: dict[str, dict[str, Any]] = {
    "Decimal": {"type": "bytes", "parameters": {"scale": "2"}},
    "Date": {"type": "int32"},
    "Time": {"type": "int32"},
    "Timestamp": {"type": "int64"},
}
NAMES = ("id", "name", "at", "inner", "list", "a.b", "price")


class Cases:
    """All from one seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    # -- schemas and values ----------------------------------------------------------------------

    def schema(self, depth: int = 0, kind: str | None = None) -> dict[str, Any]:
        chosen = kind or self._random.choice(
            [*PRIMITIVES, *LOGICAL, *(("struct", "array", "map") if depth < 2 else ())]
        )
        told: dict[str, Any] = {"type": chosen, "optional": self._random.random() < 0.4}
        if chosen in LOGICAL:
            told |= {**LOGICAL[chosen], "name": f"org.apache.kafka.connect.data.{chosen}", "version": 1}
        elif chosen == "array":
            told["items"] = self.schema(depth + 1, self._random.choice(PRIMITIVES))
        elif chosen == "map":
            told["keys"] = {"type": "string", "optional": False}
            told["values"] = self.schema(depth + 1, self._random.choice(PRIMITIVES))
        elif chosen == "struct":
            names = self._random.sample(NAMES, self._random.randint(1, 5))
            told["fields"] = [{**self.schema(depth + 1), "field": name} for name in names]
            if self._random.random() < 0.5:
                told |= {"name": "care.Patient", "version": 3, "doc": "of a patient"}
        elif self._random.random() < 0.2:
            told["default"] = self.value({**told, "optional": False})
        return told

    def value(self, schema: dict[str, Any]) -> Any:
        chance = self._random
        if schema["optional"] and chance.random() < 0.25:
            return None
        match schema.get("name", "").rpartition(".")[2] or schema["type"]:
            case "Decimal":
                return b64encode(chance.randint(-(10**6), 10**6).to_bytes(4, "big", signed=True)).decode()
            case "Date":
                return chance.randint(-20_000, 40_000)
            case "Time":
                return chance.randint(0, 86_399_999)
            case "Timestamp":
                return chance.randint(-(10**12), 3 * 10**12)
        match schema["type"]:
            case "int8" | "int16" | "int32" | "int64" as kind:
                half = 1 << BITS[kind] - 1
                return chance.choice([0, 1, -1, half - 1, -half, chance.randint(-half, half - 1)])
            case "float":
                return chance.choice([0.0, 1.5, -2.25, 1e10, 3.4e-5, float(chance.randint(-999, 999)) / 4])
            case "double":
                return chance.choice(
                    [0.0, -0.5, 0.001, 0.0009, 1e7, 9999999.5, 1.7e308, chance.uniform(-1e6, 1e6)]
                )
            case "boolean":
                return chance.random() < 0.5
            case "string":
                return chance.choice(
                    ["", "Anna", 'a "quoted" \\ text', "žluťoučký", "12", "true", "2026-11-17", "\u0001\n"]
                )
            case "bytes":
                return b64encode(chance.randbytes(chance.randint(0, 6))).decode()
            case "array":
                return [
                    self.value({**schema["items"], "optional": False}) for _ in range(chance.randint(0, 3))
                ]
            case "map":
                return {f"k{i}": self.value(schema["values"]) for i in range(chance.randint(0, 1))}
            case _:
                return {field["field"]: self.value(field) for field in schema["fields"]}

    def envelope(self, kind: str | None = None) -> str | None:
        schema = self.schema(kind=kind)
        return json.dumps({"schema": schema, "payload": self.value(schema)})

    def schemaless(self, depth: int = 0) -> Any:
        chance = self._random
        kinds = ["text", "int", "float", "boolean", "null", "list", *(["map"] if depth < 2 else [])]
        match chance.choice(kinds):
            case "text":
                return chance.choice(["Anna", "", "7", "-300", "true", "2026-11-17 08:00:00"])
            case "int":
                return chance.choice([0, 1, -129, 40_000, 1_700_000_000_000, -5])
            case "float":
                return chance.choice([0.5, -1.25, 1e9, 300.75])
            case "boolean":
                return chance.random() < 0.5
            case "null":
                return None
            case "list":
                return [1, 2]
            case _:
                names = chance.sample(NAMES, chance.randint(0, 3))
                return {name: self.schemaless(depth + 1) for name in names}

    def side(self) -> str | None:
        draw = self._random.random()
        if draw < 0.06:
            return None
        if draw < 0.12:
            return self.envelope()
        if draw < 0.6:
            return self.envelope("struct")
        names = self._random.sample(NAMES, self._random.randint(0, 5))
        return json.dumps({"schema": None, "payload": {name: self.schemaless(1) for name in names}})

    def record(self) -> dict[str, Any]:
        chance = self._random
        return {
            "topic": chance.choice(["patients", "ward-7", "a.b"]),
            "partition": chance.randint(0, 5),
            "offset": chance.randint(0, 10**9),
            "timestamp": None if chance.random() < 0.1 else chance.randint(0, 2 * 10**12),
            "key": self.side(),
            "value": self.side(),
            "headers": [
                [chance.choice(["h", "trace"]), self.envelope("string")] for _ in range(chance.randint(0, 2))
            ],
        }

    # -- cases -----------------------------------------------------------------------------------

    def transform(self) -> dict[str, Any]:
        chance = self._random
        name, configs, sided = chance.choice(TRANSFORMS)
        side = chance.choice(("$Key", "$Value")) if sided else ""
        return {
            "what": "transform",
            "class": f"{PACKAGE}{name}{side}",
            "config": chance.choice(configs),
            "record": self.record(),
        }

    def predicate(self) -> dict[str, Any]:
        name, config = self._random.choice(PREDICATES)
        return {
            "what": "transform",
            "predicate": f"{PACKAGE}predicates.{name}",
            "config": config,
            "record": self.record(),
        }

    def conversion(self) -> dict[str, Any]:
        return {"what": "convert", "value": self.envelope()}

    def all(self) -> list[dict[str, Any]]:
        return [
            *(self.transform() for _ in range(1500)),
            *(self.predicate() for _ in range(60)),
            *(self.conversion() for _ in range(600)),
            *({"what": "header", "text": text} for text in HEADERS),
        ]


TRANSFORMS: list[tuple[str, list[dict[str, str]], bool]] = [
    ("InsertField", [
        {"topic.field": "topic"}, {"partition.field": "p!", "offset.field": "o?"}, {"timestamp.field": "ts"},
        {"static.field": "s!", "static.value": "x"}, {"static.field": "name", "static.value": "other"},
    ], True),
    ("ReplaceField", [
        {"exclude": "id,name"}, {"include": "id,at"}, {"renames": "id:key,name:title"}, {"include": "id", "renames": "id:x"},
    ], True),
    ("MaskField", [
        {"fields": "id"}, {"fields": "name,price,at"}, {"fields": "name", "replacement": "xx"}, {"fields": "id", "replacement": "7"},
        {"fields": "inner,list"},
    ], True),
    ("ValueToKey", [{"fields": "id"}, {"fields": "id,name"}], False),
    ("HoistField", [{"field": "wrapped"}], True),
    ("ExtractField", [
        {"field": "id"}, {"field": "inner"}, {"field": "inner.id", "field.syntax.version": "V2"},
        {"field": "`a.b`", "field.syntax.version": "V2"}, {"field": "a.b"},
    ], True),
    ("Flatten", [{}, {"delimiter": "_"}], True),
    ("Cast", [
        {"spec": "id:int8"}, {"spec": "id:string,name:int32"}, {"spec": "price:float32,at:int64"}, {"spec": "id:boolean"},
        {"spec": "int64"}, {"spec": "string"}, {"spec": "price:string,at:string,name:boolean"}, {"spec": "id:float64"},
    ], True),
    ("SetSchemaMetadata", [{"schema.name": "care.Other"}, {"schema.version": "9"}, {"schema.name": "n", "schema.version": "1"}], True),
    ("TimestampConverter", [
        {"field": "at", "target.type": "unix"}, {"field": "at", "target.type": "unix", "unix.precision": "seconds"},
        {"field": "at", "target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSS"},
        {"field": "at", "target.type": "Timestamp", "format": "yyyy-MM-dd"}, {"field": "at", "target.type": "Date"},
        {"field": "at", "target.type": "Time"}, {"target.type": "Timestamp"}, {"target.type": "unix", "unix.precision": "microseconds"},
    ], True),
    ("TimestampRouter", [{}, {"topic.format": "${timestamp}.${topic}", "timestamp.format": "yyyy-MM"}], False),
    ("RegexRouter", [
        {"regex": "(.*)-(\\d+)", "replacement": "$2.$1"}, {"regex": "p", "replacement": "x"}, {"regex": "p.*", "replacement": "x"},
    ], False),
    ("InsertHeader", [
        {"header": "h", "value.literal": "12"}, {"header": "h", "value.literal": "text"}, {"header": "h", "value.literal": "1.5"},
        {"header": "h", "value.literal": "true"},
    ], False),
    ("DropHeaders", [{"headers": "h"}, {"headers": "x,trace"}], False),
    ("HeaderFrom", [
        {"fields": "id,name", "headers": "hid,hname", "operation": "move"}, {"fields": "id", "headers": "h", "operation": "copy"},
    ], True),
    ("Filter", [{}], False),
]  # fmt: skip
PREDICATES: list[tuple[str, dict[str, str]]] = [
    ("HasHeaderKey", {"name": "trace"}),
    ("RecordIsTombstone", {}),
    ("TopicNameMatches", {"pattern": "ward-\\d"}),
]
HEADERS = (
    "", " ", "true", "false", "True", "1", "-1", "127", "128", "-129", "32768", "2147483648", "9223372036854775808",
    "1.5", "0.1", "1e3", "1.7976931348623157e308", "3.14159265358979", "text", "two words", '"quoted"', "2026-11-17",
    "2026-11-17T08:00:00.000Z", "08:15:00.000Z", "12abc", "-", "0x10",
)  # fmt: skip


def main(file: str) -> None:
    from tests.oracle import programs

    cases = Cases().all()
    asked = "\n".join(json.dumps(case) for case in cases) + "\n"
    done = subprocess.run(
        programs.command("ConnectClasses"),
        input=asked,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), done.stderr[-2000:]
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in answers)
    Path(file).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
