"""One application with repartitioning, a window and joins, as Spark runs it: on Ottla and on Apache Kafka."""

from __future__ import annotations

import json as text
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from ottla.client import Producer
from ottla.streams import App, count, json, tumbling

WARDS, END_MS = ("north", "south"), 10**9


def application(name: str, bootstrap: str, topics: dict[str, str]) -> App:
    """How many alarms each nurse's ward has in ten seconds, once for each window."""
    app = App(name, bootstrap)
    wards = app.table(topics["wards"], value=json("nurse string"), name="wards")
    vitals = app.stream(topics["vitals"], value=json("ward string, pulse int"))
    by_ward = vitals.select_key(lambda patient, vital: vital["ward"]).join(wards, name="by-ward")
    by_nurse = by_ward.group_by(lambda ward, vital: vital["nurse"])
    windows = by_nurse.window(tumbling(seconds=10, grace=60)).agg(n=count(), name="alarms")
    windows.final().to_stream().to(topics["alarms"])
    return app


def send(bootstrap: str, topic: str, rows: list[tuple[str, Any, int]]) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for key, value, at in rows:
            producer.send(topic, text.dumps(value), key, timestamp=at)


def test_alarms_by_nurse_and_window(
    topics: Any, make_topic: Callable[..., str], spark: Any, tmp_path: Path
) -> None:
    names = {stem: make_topic(stem, partitions=2) for stem in ("vitals", "wards", "alarms")}
    name = f"alarms-{names['alarms']}"
    send(topics.bootstrap, names["wards"], [(ward, {"nurse": f"{ward}'s nurse"}, 0) for ward in WARDS])
    expected: Counter[tuple[str, int]] = Counter()
    for part in range(2):
        rows = [
            (f"p{number % 7}", {"ward": WARDS[number % 2], "pulse": 150}, 1_000 + part * 20_000 + number * 50)
            for number in range(400)
        ]
        expected.update((f"{value['ward']}'s nurse", at // 10_000 * 10_000) for _, value, at in rows)
        send(topics.bootstrap, names["vitals"], rows)
        application(name, topics.bootstrap, names).run(spark, once=True, state_dir=str(tmp_path / "state"))
    later = [(f"p{number}", {"ward": WARDS[number % 2], "pulse": 0}, END_MS) for number in range(20)]
    send(topics.bootstrap, names["vitals"], later)
    application(name, topics.bootstrap, names).run(spark, once=True)
    found: list[tuple[str, int, int]] = []
    for row in topics.read(topics.settled(names["alarms"])).collect():
        key = bytes(row.key)
        found.append((key[:-8].decode(), int.from_bytes(key[-8:]), text.loads(bytes(row.value))["n"]))
    closed = {(nurse, start): n for nurse, start, n in found if start < END_MS}
    assert closed == dict(expected)
    assert len(found) == len(set(found))
