"""Mistakes are told in a sentence before anything runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.errors import OttlaError
from ottla.pipelines.driver import Driver
from ottla.pipelines.errors import BadTopology as BadPipeline
from ottla.pipelines.state.spec import StoreChanged
from ottla.streams import App, TestDriver, col, int64, json, max, session, string, tumbling
from ottla.streams.checking import check_travels
from ottla.streams.errors import BadTopology
from ottla.testing import Broker
from tests.pipelines.local import query


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("two", partitions=2)
        running.create_topic("three", partitions=3)
        running.create_topic("out", partitions=2)
        yield running


def start(app: App) -> None:
    driver = Driver(app.pipeline())
    try:
        driver.start()
    finally:
        driver.close()


def test_inputs_of_a_join_with_different_numbers_of_partitions(broker: Broker) -> None:
    app = App("app", broker.bootstrap)
    app.stream("two", value=json).join(app.table("three", value=json)).to("out")
    with pytest.raises(
        BadPipeline, match="equally many partitions, but two has 2, three has 3; send one through"
    ):
        start(app)


def test_a_stream_that_is_repartitioned_takes_the_number_of_the_other(broker: Broker) -> None:
    app = App("app", broker.bootstrap)
    by_ward = app.stream("two", value=json).select_key(col.ward)
    by_ward.join(app.table("three", value=json)).to("out")
    start(app)


def test_a_topic_that_is_missing(broker: Broker) -> None:
    app = App("app", broker.bootstrap)
    app.stream("nowhere", value=string).to("out")
    with pytest.raises(OttlaError, match="nowhere"):
        start(app)
    app = App("app", broker.bootstrap)
    app.stream("two", value=string).join(app.global_table("elsewhere", value=string), on=lambda k, v: v).to(
        "out"
    )
    with pytest.raises(OttlaError, match="elsewhere"):
        start(app)


def test_a_store_without_a_name_whose_number_has_changed(broker: Broker) -> None:
    def counting(*, filtered: bool) -> App:
        app = App("app", broker.bootstrap)
        stream = app.stream("two", value=string)
        stream = stream.filter(lambda key, value: value != "") if filtered else stream
        stream.group_by_key().count().to_stream().to("out")
        return app

    with query(counting(filtered=False).pipeline()) as running:
        broker.send("two", "x", key="k")
        running.drain()
    start(counting(filtered=False))
    with pytest.raises(StoreChanged, match="numbered by their place in the program: give them names"):
        start(counting(filtered=True))


def test_a_function_that_cannot_be_sent_to_workers() -> None:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    app, lock = App("app"), threading.Lock()

    def locked(value: Any) -> Any:
        with lock:
            return value

    app.stream("in", value=string).map_values(locked, value=string).to("out")
    with pytest.raises(
        BadTopology, match=r"KSTREAM-MAPVALUES-0000000001: function .*locked cannot be sent to Spark"
    ):
        check_travels(app._builder.graph)


def test_keys_of_different_kinds_never_meet() -> None:
    app = App("app")
    a, b = app.stream("a", value=json), app.stream("b", key=int64, value=json)
    with pytest.raises(
        BadTopology, match=r"two streams are joined by keys of the same kind.* string and int64"
    ):
        a.join(b, within=1_000)
    with pytest.raises(BadTopology, match="a stream and a table"):
        a.join(app.table("t", key=int64))
    with pytest.raises(BadTopology, match="two tables"):
        app.table("u").join(app.table("v", key=int64))


def test_calls_that_make_no_sense() -> None:
    app = App("app")
    a, t = app.stream("a", value=json), app.table("t", value=json, name="t")
    three: Any = 3
    wrong: list[tuple[Any, str]] = [
        (lambda: a.join(app.stream("b", value=json)), "within a time"),
        (lambda: a.join(t, within=5), "by key alone"),
        (lambda: a.join(t, on=lambda k, v: v), "select_key"),
        (lambda: a.group_by_key().agg(n=three), "agg\\(n\\): it takes reductions by name"),
        (lambda: max(3), "it takes an expression"),
        (lambda: a.group_by_key().window(session(gap=1)).aggregate(list, three), "merger"),
        (lambda: tumbling(seconds=0), "windows need"),
        (lambda: t.suppress(seconds=1, on_full="never"), "on_full"),
        (lambda: t.suppress(seconds=1).join(t), "suppressed has no rows"),
        (lambda: json("pulse number"), "a field is a name and one of"),
        (lambda: json(3), "a text, a dataclass or a TypedDict"),
    ]
    for call, match in wrong:
        with pytest.raises(OttlaError, match=match):
            call()


def test_more_held_back_than_allowed_is_an_error() -> None:
    app = App("app")
    counts = app.stream("in", value=string).group_by_key().count(name="n")
    counts.suppress(seconds=60, max_records=2, on_full="fail", name="held").to("out")
    with TestDriver(app) as driver, pytest.raises(OttlaError, match="suppress held-store holds 3 records"):
        for key in "abc":
            driver.input("in").pipe("", key=key, at=1)
