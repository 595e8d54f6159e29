"""The processor API: stores, forwarding, headers, calls at times, and all of it across kills."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from ottla.streams import (
    App,
    Context,
    Processor,
    Record,
    TestDriver,
    int64,
    json,
    keyed_store,
    string,
    window_store,
)
from ottla.streams.errors import BadTopology
from ottla.streams.serdes import Column, Serde
from ottla.testing import Broker
from tests.pipelines.local import query


class Totals(Processor):
    """Adds up by key, and tells all sums every ten seconds of stream time."""

    def init(self, context: Context) -> None:
        super().init(context)
        context.schedule(self.tell, seconds=10)

    def process(self, record: Record) -> None:
        totals = self.context.store("totals")
        totals[record.key] = totals.get(record.key, 0) + record.value

    def tell(self, now_ms: int) -> None:
        for key, total in self.context.store("totals").items():
            self.context.forward(Record(key, total, now_ms))


def totals(app: App | None = None) -> App:
    app = app or App("app")
    sums = app.stream("amounts", value=int64).process(
        Totals, stores=[keyed_store("totals", value=int64)], value=int64
    )
    sums.to("sums")
    return app


def test_a_processor_keeps_state_and_is_called_in_stream_time() -> None:
    with TestDriver(totals()) as driver:
        amounts = driver.input("amounts")
        amounts.pipe(1, key="a", at=1_000)  # as in Kafka Streams, the first record is time enough
        amounts.pipe(2, key="b", at=9_999)
        amounts.pipe(3, key="a", at=10_000)
        amounts.pipe(4, key="a", at=35_000)
        amounts.pipe(5, key="a", at=39_999)
        assert driver.output("sums").records() == [
            ("a", 1, 1_000),
            *(("a", 4, 10_000), ("b", 2, 10_000)),
            *(("a", 8, 35_000), ("b", 2, 35_000)),
        ]
        assert dict(driver.store("totals")) == {"a": 13, "b": 2}


class Beat(Processor):
    def init(self, context: Context) -> None:
        super().init(context)
        context.schedule(lambda now: context.forward(Record("beat", now, now)), ms=500, clock="wall")

    def process(self, record: Record) -> None:
        pass


def test_a_processor_is_called_by_the_wall_clock() -> None:
    app = App("app")
    app.stream("in").process(Beat, value=int64).to("beats")
    with TestDriver(app) as driver:
        driver.input("in").pipe(b"", key="k")
        driver.advance(ms=499)
        assert driver.output("beats").values() == []
        driver.advance(ms=1)
        driver.advance(ms=1_700)  # three were missed: one call
        driver.advance(ms=299)
        assert driver.output("beats").values() == [500, 2_200]
        driver.advance(ms=1)
        assert driver.output("beats").values() == [500, 2_200, 2_500]


class Sort(Processor):
    def process(self, record: Record) -> None:
        to = "large" if record.value > 9 else "small"
        self.context.forward(record.but(headers=[*record.headers, ("size", to.encode())]), to=to)
        if record.value == 0:
            self.context.forward(record)


def test_records_go_to_named_children_with_their_headers() -> None:
    app = App("app")
    large, small = app.stream("in", value=int64).process(Sort, outputs=["large", "small"], value=int64)
    large.to("large")
    small.map_values(lambda n: n + 100, value=int64).to("small")
    with TestDriver(app) as driver:
        driver.input("in").pipe(10, headers=[("trace", b"1")])
        driver.input("in").pipe(9)
        driver.input("in").pipe(0)
        assert driver.output("large").values() == [10, 0]
        assert driver.output("large").headers()[0] == [("trace", b"1"), ("size", b"large")]
        assert driver.output("small").values() == [109, 100, 100]
        assert driver.output("small").headers() == [[("size", b"small")], [("size", b"small")], []]


def test_headers_pass_through_stateless_nodes() -> None:
    app = App("app")
    app.stream("in", value=string).filter(lambda k, v: True).map(lambda k, v: (v, k), value=string).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("v", key="k", headers=[("a", b"1"), ("a", None)])
        assert driver.output("out").headers() == [[("a", b"1"), ("a", None)]]


class Seen(Processor):
    """Forwards what its key has not brought within a minute."""

    def process(self, record: Record) -> None:
        seen = self.context.store("seen")
        if not seen.fetch(record.key, record.time_ms - 60_000, record.time_ms):
            self.context.forward(record)
        seen.put(record.key, True, record.time_ms)


def test_a_window_store_is_asked_by_time_and_forgets() -> None:
    app = App("app")
    store = window_store("seen", retention_seconds=60)
    app.stream("in", value=string).process_values(Seen, stores=[store], value=string).to("out")
    with TestDriver(app) as driver:
        for at in (0, 30_000, 60_000, 120_001):
            driver.input("in").pipe("v", key="a", at=at)
        assert [at for _, _, at in driver.output("out").records()] == [0, 120_001]
        rows = driver.store("seen").rows("a")
        assert [(row.start_ms, row.value) for row in rows] == [(120_001, True)]
        assert driver.store("seen")["a", 120_001] is True


class Counted(Serde):
    """Bytes; how many values it read each time."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def decode(self, cells: pa.Array) -> Column:
        self.read.append(len(cells))
        return cells


class Recent(Processor):
    def process(self, record: Record) -> None:
        recent = self.context.store("recent")
        recent.put(record.key, str(record.time_ms).encode(), record.time_ms)
        found = recent.fetch(record.key, record.time_ms - 20, record.time_ms - 10)
        self.context.forward(record.but(value=[(at, value.decode()) for at, value in found]))


def test_a_fetch_of_a_window_store_reads_the_values_of_its_key_and_times_alone() -> None:
    app, serde = App("app"), Counted()
    store = window_store("recent", value=serde, retention_seconds=60)
    app.stream("in", value=string).process(Recent, stores=[store], value=json).to("out", value=json)
    with TestDriver(app) as driver:
        for at in (30, 0, 10, 20):
            for key in ("a", "ab", "b"):
                driver.input("in").pipe("v", key=key, at=at)
        serde.read.clear()
        driver.input("in").pipe("v", key="a", at=31)
        driver.input("in").pipe("v", key="a", at=30)
        driver.input("in").pipe("v", key="new", at=30)
        assert driver.output("out").values()[-3:] == [[[20, "20"]], [[10, "10"], [20, "20"]], []]
        assert serde.read == [1, 2, 0]


class Write(Processor):
    def process(self, record: Record) -> None:
        self.context.store("shared")[record.key] = record.value


class Read(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record.but(value=self.context.store("shared").get(record.key, "nothing")))


def test_processors_share_a_store() -> None:
    app = App("app")
    app.stream("writes", value=string).process(Write, stores=[keyed_store("shared")])
    app.stream("reads", value=string).process(Read, stores=["shared"]).to("answers")
    with TestDriver(app) as driver:
        driver.input("reads").pipe("?", key="k")
        driver.input("writes").pipe("v", key="k")
        driver.input("reads").pipe("?", key="k")
        assert driver.output("answers").values() == ["nothing", "v"]


def test_mistakes_of_processors_are_told() -> None:
    app = App("app")
    stream = app.stream("in", value=string)
    with pytest.raises(BadTopology, match="no processor has a store shared yet"):
        stream.process(Read, stores=["shared"])
    stream.process(Write, stores=[keyed_store("shared")])
    with pytest.raises(BadTopology, match="described in two ways"):
        stream.process(Write, stores=[keyed_store("shared", value=string)])
    with TestDriver(app) as driver:
        driver.input("in").pipe("v", key="k")

    class Renames(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record.but(key="other"))

    app = App("app")
    app.stream("in", value=string).process_values(Renames).to("out")
    with TestDriver(app) as driver, pytest.raises(BadTopology, match="must not change keys"):
        driver.input("in").pipe("v", key="k")
    app = App("app")
    app.stream("in", value=string).process(Read).to("out")
    with TestDriver(app) as driver, pytest.raises(BadTopology, match="no store shared"):
        driver.input("in").pipe("v", key="k")


def test_times_survive_workers() -> None:
    """Punctuation times are in the state: a worker that takes over neither repeats nor forgets a call."""
    with Broker() as broker:
        for topic in ("amounts", "sums"):
            broker.create_topic(topic, partitions=1)
        app = totals(App("totals", bootstrap=broker.bootstrap))
        with query(app.pipeline()) as running:
            for at in (1_000, 9_999, 10_000, 10_001, 19_999, 20_000):
                broker.send("amounts", (1).to_bytes(8), key="a", timestamp_ms=at)
                running.drain()
                running.replace_workers()
        told = [(int.from_bytes(r.value), r.timestamp_ms) for r in broker.records("sums")]
        assert told == [(1, 1_000), (3, 10_000), (6, 20_000)]


def test_the_wall_clock_calls_on_a_broker_although_nothing_comes() -> None:
    with Broker() as broker:
        for topic in ("in", "beats"):
            broker.create_topic(topic, partitions=1)
        app = App("beats", bootstrap=broker.bootstrap)
        app.stream("in", value=json).process(Beat, value=int64).to("beats")
        broker.send("in", "1", key="k")
        with query(app.pipeline()) as running:
            running.drain()
            deadline = time.monotonic() + 120
            while len(broker.records("beats")) < 2:
                assert time.monotonic() < deadline
                running.step()
                running.replace_workers()
        beats = [int.from_bytes(record.value) for record in broker.records("beats")]
        assert beats[1] - beats[0] >= 400


def test_what_a_failed_step_forwarded_comes_once() -> None:
    failures = ["once"]

    class Failing(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record)
            if record.value == "2" and failures:
                raise RuntimeError(failures.pop())

    with Broker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, partitions=1)
        app = App("app", bootstrap=broker.bootstrap)
        app.stream("in", value=string).process(Failing, value=string).to("out")
        for value in "123":
            broker.send("in", value, key="k")
        with query(app.pipeline()) as running:
            with pytest.raises(RuntimeError, match="once"):
                running.step()
            running.drain()
        assert [record.value for record in broker.records("out")] == [b"1", b"2", b"3"]
