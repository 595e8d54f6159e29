"""Transforms, predicates and converters beside Kafka's own classes (fixtures/classes.jsonl.gz; see class_cases)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.converters.headers import SimpleHeaderConverter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.converters.primitive import StringConverter
from ottla.connect.errors import DataError, TimeOutOfRange
from ottla.connect.spi import Header, SinkRecord
from ottla.connect.transforms import transform
from ottla.connect.transforms.predicates import PREDICATES
from tests.connect.class_cases import Cases

ENVELOPE, PLAIN = JsonConverter({}), JsonConverter({"schemas.enable": "false"})
NUMERIC, TEXT, HEADERS = (
    JsonConverter({"decimal.format": "NUMERIC"}),
    StringConverter({}, is_key=False),
    SimpleHeaderConverter(),
)


@cache
def recorded() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    file = Path(__file__).parent / "fixtures" / "classes.jsonl.gz"
    answers = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    cases = Cases().all()
    assert len(cases) == len(answers), "the cases have changed: ask Java again"
    return list(zip(cases, answers, strict=True))


def value_of(text: str | None) -> tuple[Any, Any]:
    return ENVELOPE.to_value("t", None if text is None else text.encode())


def text_of(schema: Any, value: Any) -> str | None:
    data = ENVELOPE.from_value("t", schema, value)
    return None if data is None else data.decode()


def ours(case: dict[str, Any]) -> dict[str, Any]:
    try:
        match case["what"]:
            case "transform":
                return _transformed(case)
            case "convert":
                return _converted(case)
            case _:
                schema, value = HEADERS.to_value("t", case["text"].encode())
                return {"value": text_of(schema, value)}
    except TimeOutOfRange:
        return {"beyond": True}
    except DataError:
        return {"error": True}


def _transformed(case: dict[str, Any]) -> dict[str, Any]:
    told = case["record"]
    (key_schema, key), (value_schema, value) = value_of(told["key"]), value_of(told["value"])
    headers = tuple(
        Header(name, each, schema)
        for name, (schema, each) in ((name, value_of(text)) for name, text in told["headers"])
    )
    place = told["topic"], told["partition"], told["offset"]
    record = SinkRecord(*place, value, value_schema, key, key_schema, headers, told["timestamp"])
    if "predicate" in case:
        tested = PREDICATES[case["predicate"].rpartition(".")[2]](case["config"])
        made = None if tested.test(record) else record
    else:
        made = transform(case["class"], case["config"]).apply(record)
    if made is None:
        return {"dropped": True}
    return {
        "topic": made.topic,
        "key": text_of(made.key_schema, made.key),
        "value": text_of(made.value_schema, made.value),
        "headers": [[each.key, text_of(each.schema, each.value)] for each in made.headers],
    }


def _converted(case: dict[str, Any]) -> dict[str, Any]:
    schema, value = value_of(case["value"])
    made = {
        "envelope": ENVELOPE.from_value("t", schema, value),
        "plain": PLAIN.from_value("t", schema, value),
        "numeric": NUMERIC.from_value("t", schema, value),
        "string": TEXT.from_value("t", schema, value),
        "header": HEADERS.from_value("t", schema, value),
    }
    return {name: None if data is None else data.decode() for name, data in made.items()}


def comparable(answer: dict[str, Any], case: dict[str, Any]) -> Any:
    """Maps without a schema have no order in Java. `toString` of bytes and dates is Java's own affair."""
    if "error" in answer:
        return "error"
    made = {name: _unordered(text) if name in ("key", "value") else text for name, text in answer.items()}
    if "headers" in made:
        made["headers"] = [[name, _unordered(text)] for name, text in made["headers"]]
    if case["what"] == "convert" and _has_java_text(case["value"]):
        made.pop("string")
        made.pop("header")
    return made


def _unordered(text: str | None) -> Any:
    if text is None:
        return None
    parsed = json.loads(
        text, parse_float=lambda digits: f"{float(digits):.7g}"
    )  # a float may be a single one in Java
    return parsed if parsed["schema"] is None else text


def _has_java_text(text: str) -> bool:
    return any(name in text for name in ('"bytes"', "connect.data.", '"struct"', '"map"', '"array"'))


@pytest.mark.parametrize("what", ["transform", "convert", "header"])
def test_what_kafkas_classes_do_ours_do(what: str) -> None:
    wrong, failed = [], Counter()
    for case, java in recorded():
        if case["what"] != what:
            continue
        answer = ours(case)
        if "beyond" in answer:
            continue
        expected, found = comparable(java, case), comparable(answer, case)
        if expected != found:
            name = case.get("class") or case.get("predicate") or what
            failed[name.rpartition(".")[2]] += 1
            wrong.append(f"{json.dumps(case)[:700]}\n  java {java}\n  ours {found}")
    assert not wrong, f"{failed}\n" + "\n".join(wrong[:5])


def test_the_cases_reach_both_ends_of_every_transform() -> None:
    """At least one that works and one that fails, where the transform can fail at all."""
    seen = Counter(
        (case["class"].partition("$")[0], "error" in java) for case, java in recorded() if "class" in case
    )
    names = {name for name, _ in seen}
    assert all(seen[name, False] >= 10 or name.endswith("Filter") for name in names), seen
