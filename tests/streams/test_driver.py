"""Applications in the TestDriver: what Kafka Streams would make of the same records."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from ottla.streams import App, TestDriver, bytes_, col, hopping, int64, json, string, tumbling
from ottla.streams.errors import BadTopology, BadValue


def word_count(emit: str = "batch") -> App:
    app = App("word-count")
    words = app.stream("lines", value=string).flat_map_values(lambda line: line.lower().split())
    counts = words.group_by(lambda key, word: word).count(name="counts", emit=emit)
    counts.to_stream().to("word-counts", value=int64)
    return app


def test_words_are_counted_through_an_internal_topic() -> None:
    with TestDriver(word_count()) as driver:
        driver.input("lines").pipe("Hello world hello")
        driver.input("lines").pipe("world")
        assert driver.output("word-counts").table() == {"hello": 2, "world": 2}
        assert dict(driver.store("counts")) == {"hello": 2, "world": 2}
        assert driver.store("counts")["hello"] == 2


def test_the_pytest_fixture_gives_drivers(ottla_driver: Callable[[App], TestDriver]) -> None:
    driver = ottla_driver(word_count())
    driver.input("lines").pipe("a b a")
    assert driver.output("word-counts").table() == {"a": 2, "b": 1}


def test_every_count_comes_out_if_it_is_asked_for() -> None:
    with TestDriver(word_count("every")) as driver:
        driver.input("lines").pipe("a b a", at=7)
        assert driver.output("word-counts").records() == [("a", 1, 7), ("b", 1, 7), ("a", 2, 7)]
    with TestDriver(word_count()) as driver:
        driver.input("lines").pipe("a b a", at=7)
        assert driver.output("word-counts").records() == [("b", 1, 7), ("a", 2, 7)]


def test_a_count_has_the_time_of_its_latest_record() -> None:
    with TestDriver(word_count("every")) as driver:
        for at in (5, 9, 3):
            driver.input("lines").pipe("a", at=at)
        assert driver.output("word-counts").records() == [("a", 1, 5), ("a", 2, 9), ("a", 3, 9)]


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_steps_are_a_subsequence_of_every_count_with_the_same_end(seed: int) -> None:
    chance = random.Random(seed)
    lines = [" ".join(chance.choices("abc", k=chance.randint(0, 5))) for _ in range(20)]
    outputs = {}
    for emit in ("every", "batch"):
        with TestDriver(word_count(emit)) as driver:
            for line in lines:
                driver.input("lines").pipe(line)
            outputs[emit] = driver.output("word-counts").records()
    every = iter(outputs["every"])
    assert all(record in every for record in outputs["batch"])
    final = {key: value for key, value, _ in outputs["batch"]}
    assert final == Counter(" ".join(lines).split())


def test_stateless_nodes() -> None:
    app = App("app")
    numbers = app.stream("numbers", value=int64)
    even, odd = numbers.split(lambda key, n: n % 2 == 0)
    even.map_values(lambda n: n * 10, value=int64).to("tens")
    odd.map(lambda key, n: (f"{key}!", n + 1), value=int64).to("next")
    numbers.filter(lambda key, n: n > 2).flat_map(lambda key, n: [(key, n), (key, -n)], value=int64).to(
        "both"
    )
    numbers.select_key(lambda key, n: str(n)).to("by-number")
    with TestDriver(app) as driver:
        for n in (1, 2, 3):
            driver.input("numbers").pipe(n, key="k", at=n)
        assert driver.output("tens").records() == [("k", 20, 2)]
        assert driver.output("next").records() == [("k!", 2, 1), ("k!", 4, 3)]
        assert driver.output("both").values() == [3, -3]
        assert [key for key, _, _ in driver.output("by-number").records()] == ["1", "2", "3"]


def test_expressions_work_on_json_with_and_without_a_schema() -> None:
    for serde in (json, json("pulse int, ward string")):
        app = App("app")
        app.stream("vitals", value=serde).filter((col.pulse > 150) & (col.ward == "a")).to("high")
        with TestDriver(app) as driver:
            for pulse, ward in ((160, "a"), (160, "b"), (90, "a"), (None, "a")):
                driver.input("vitals").pipe({"pulse": pulse, "ward": ward}, key="p")
            assert driver.output("high").values() == [{"pulse": 160, "ward": "a"}]


def test_an_expression_is_no_truth_value() -> None:
    with pytest.raises(TypeError, match="combine it with &"):
        bool(col.pulse > 150)


def test_aggregates_and_reductions_leave_out_records_without_key_or_value() -> None:
    app = App("app")
    bids = app.stream("bids", value=json)
    bids.group_by_key().aggregate(list, lambda key, bid, seen: [*seen, bid], name="seen").to_stream().to(
        "seen"
    )
    with TestDriver(app) as driver:
        for key, bid in (("a", 3), (None, 9), ("a", None), ("a", 4), ("b", 1)):
            driver.input("bids").pipe(bid, key=key)
        assert driver.output("seen").table() == {"a": [3, 4], "b": [1]}
    app = App("app")
    app.stream("bids", value=json).group_by_key().reduce(max, name="best").to_stream().to("best")
    with TestDriver(app) as driver:
        for bid in (3, 9, 4):
            driver.input("bids").pipe(bid, key="a")
        assert driver.output("best").values() == [3, 9, 9]


def vitals_with_roster(*, left: bool = False) -> App:
    app = App("app")
    roster = app.table("roster", value=json, name="roster")
    vitals = app.stream("vitals", value=json)
    joined = vitals.left_join(roster) if left else vitals.join(roster)
    joined.to("alerts")
    return app


def test_a_stream_meets_the_row_that_its_table_has_at_that_moment() -> None:
    with TestDriver(vitals_with_roster()) as driver:
        vitals, roster = driver.input("vitals"), driver.input("roster")
        vitals.pipe({"pulse": 1}, key="p")
        roster.pipe({"nurse": "anna"}, key="p")
        vitals.pipe({"pulse": 2}, key="p")
        roster.pipe({"nurse": "berta"}, key="p")
        vitals.pipe({"pulse": 3}, key="p")
        roster.pipe(None, key="p")
        vitals.pipe({"pulse": 4}, key="p")
        assert driver.output("alerts").values() == [
            {"nurse": "anna", "pulse": 2},
            {"nurse": "berta", "pulse": 3},
        ]
        assert dict(driver.store("roster")) == {}


def test_a_left_join_keeps_records_without_a_row() -> None:
    with TestDriver(vitals_with_roster(left=True)) as driver:
        driver.input("vitals").pipe({"pulse": 1}, key="p")
        assert driver.output("alerts").values() == [{"pulse": 1}]


def test_a_table_that_is_filtered_deletes_what_it_no_longer_holds() -> None:
    app = App("app")
    stock = app.table("stock", value=int64, name="stock")
    stock.filter(lambda key, n: n > 0).to_stream().to("left")
    with TestDriver(app) as driver:
        for n in (0, 3, 0, 0, 2):
            driver.input("stock").pipe(n, key="a")
        assert driver.output("left").values() == [3, None, 2]


def test_batches_go_through_any_arrow_function() -> None:
    app = App("app")

    def doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        return rows.set_column(1, "value", pc.multiply(rows.column("value"), 2))

    app.stream("numbers", value=int64).map_batches(doubled, value=int64).to("doubled")
    with TestDriver(app) as driver:
        driver.input("numbers").pipe(21, key="k")
        assert driver.output("doubled").values() == [42]


def test_streams_are_merged() -> None:
    app = App("app")
    app.stream("a", value=string).merge(app.stream("b", value=string)).to("both")
    with TestDriver(app) as driver:
        driver.input("a").pipe("1")
        driver.input("b").pipe("2")
        assert driver.output("both").values() == ["1", "2"]


def test_the_topology_is_described_in_kafkas_words() -> None:
    told = word_count().describe().splitlines()
    assert told[:3] == [
        "Topologies:",
        "   Sub-topology: 0",
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])",
    ]
    assert "  Sub-topology: 1" in told
    assert "    Source: counts-repartition-source (topics: [counts-repartition])" in told
    assert "    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])" in told


def test_mistakes_are_told_before_anything_runs() -> None:
    app = App("app")
    stream = app.stream("in", value=json)
    with pytest.raises(BadTopology, match="topic in is read twice"):
        app.table("in")
    stream.group_by_key().count(name="n")
    with pytest.raises(BadTopology, match="two stores are called n"):
        stream.group_by_key().count(name="n")
    with pytest.raises(BadTopology, match="emit='never'"):
        stream.group_by_key().count(emit="never")
    with pytest.raises(BadTopology, match="reads nothing"):
        App("empty").pipeline()
    with pytest.raises(BadTopology, match="a field is a name and one of"):
        json("pulse number")
    with TestDriver(app) as driver, pytest.raises(BadTopology, match="does not read out"):
        driver.input("out")


def test_a_value_of_another_kind_is_told() -> None:
    app = App("app")
    app.stream("in", value=bytes_).map_values(lambda value: value, value=int64).to("out")
    with TestDriver(app) as driver, pytest.raises(BadValue, match="does not fit serde int64"):
        driver.input("in").pipe(b"text", key="k")


def clicks(final: bool, grace: float = 0) -> App:
    app = App("app", clock="wall")
    counts = (
        app.stream("clicks", value=string).group_by_key().window(tumbling(seconds=10, grace=grace)).count("n")
    )
    (counts.final() if final else counts).to_stream().to("windows")
    return app


def test_windows_count_what_falls_into_them() -> None:
    with TestDriver(clicks(final=False)) as driver:
        for at in (1_000, 9_999, 10_000):
            driver.input("clicks").pipe("", key="a", at=at)
        assert driver.output("windows").records() == [
            (("a", 0, 10_000), 1, 1_000),
            (("a", 0, 10_000), 2, 9_999),
            (("a", 10_000, 20_000), 1, 10_000),
        ]


def test_a_final_count_comes_once_when_time_has_passed_the_grace() -> None:
    with TestDriver(clicks(final=True, grace=5)) as driver:
        for at in (1_000, 12_000, 8_000):
            driver.input("clicks").pipe("", key="a", at=at)
        assert driver.output("windows").records() == []
        driver.input("clicks").pipe("", key="b", at=15_000)
        assert driver.output("windows").records() == [(("a", 0, 10_000), 2, 8_000)]
        driver.input("clicks").pipe("", key="a", at=9_000)
        driver.advance(seconds=100)
        assert driver.output("windows").records()[1:] == [
            (("a", 10_000, 20_000), 1, 12_000),
            (("b", 10_000, 20_000), 1, 15_000),
        ]


def test_hopping_windows_overlap() -> None:
    app = App("app")
    windows = hopping(seconds=10, advance=5)
    app.stream("clicks", value=string).group_by_key().window(windows).count("n").to_stream().to("windows")
    with TestDriver(app) as driver:
        driver.input("clicks").pipe("", key="a", at=7_000)
        assert sorted(driver.output("windows").table()) == [("a", 0, 10_000), ("a", 5_000, 15_000)]
