"""What the equality tests do not see: reductions, serdes, headers, the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pyarrow as pa
import pytest

from ottla.streams import (
    App,
    TestDriver,
    Windowed,
    avg,
    col,
    collect,
    count,
    first,
    float64,
    int64,
    json,
    last,
    max,
    min,
    session,
    sliding,
    string,
    sum,
    tumbling,
    within,
)
from ottla.streams.dsl import SessionWindowed, Table

SCHEMAS = [json("pulse int, ward string"), json]
VITALS = [("a", 60, "x"), ("a", 80, "y"), ("b", None, "x"), ("a", 70, None)]


def pipe(driver: TestDriver, topic: str = "vitals") -> None:
    for at, (key, pulse, ward) in enumerate(VITALS):
        driver.input(topic).pipe({"pulse": pulse, "ward": ward}, key=key, at=at)


@pytest.mark.parametrize("serde", SCHEMAS, ids=["columns", "objects"])
def test_several_reductions_at_once(serde: Any) -> None:
    app = App("app")
    table = (
        app.stream("vitals", value=serde)
        .group_by_key()
        .agg(
            n=count(),
            known=count(col.pulse),
            total=sum(col.pulse),
            low=min(col.pulse),
            high=max(col.pulse),
            mean=avg(col.pulse),
            first=first(col.pulse),
            last=last(col.pulse),
            name="pulse",
        )
    )
    table.to("out")
    with TestDriver(app) as driver:
        pipe(driver)
        found = driver.output("out").table()
        assert found["a"] == {
            "n": 3,
            "known": 3,
            "total": 210,
            "low": 60,
            "high": 80,
            "mean": 70.0,
            "first": 60,
            "last": 70,
        }
        assert found["b"]["n"] == 1
        assert {found["b"][name] for name in ("total", "low", "high", "mean", "first", "last")} == {None}
        assert driver.store("pulse")["a"]["mean"] == 70.0


@pytest.mark.parametrize("serde", SCHEMAS, ids=["columns", "objects"])
def test_one_reduction_gives_its_value(serde: Any) -> None:
    app = App("app")
    grouped = app.stream("vitals", value=serde).group_by_key()
    grouped.max(col.pulse, name="high").to("high")
    grouped.avg(col.pulse, name="mean").to("mean")
    grouped.collect(col.ward, name="wards").to("wards")
    with TestDriver(app) as driver:
        pipe(driver)
        assert driver.output("high").table() == {"a": 80}
        assert driver.output("mean").table() == {"a": 70.0}
        assert driver.output("wards").table() == {"a": ["x", "y"], "b": ["x"]}


def test_numbers_are_reduced_as_they_are() -> None:
    app = App("app")
    grouped = app.stream("in", value=float64).group_by_key()
    grouped.sum(name="sum").to("sum")
    grouped.agg(all=collect(), n=count(), name="all").to("all")
    with TestDriver(app) as driver:
        for value in (0.5, 0.25):
            driver.input("in").pipe(value, key="k")
        assert driver.output("sum").values() == [0.5, 0.75]
        assert driver.output("all").values()[-1] == {"all": [0.5, 0.25], "n": 2}


@pytest.mark.parametrize("serde", SCHEMAS, ids=["columns", "objects"])
def test_reductions_by_window_come_once_when_the_clock_has_passed_it(serde: Any) -> None:
    app = App("app", clock="wall", lateness_ms=0)
    windows = app.stream("vitals", value=serde).group_by_key().window(tumbling(seconds=10))
    windows.agg(n=count(), high=max(col.pulse), name="pulse").final().filter(col.high > 60).to("out")
    with TestDriver(app) as driver:
        pipe(driver)
        assert driver.output("out").records() == []
        driver.advance(seconds=10)
        assert driver.output("out").records() == [(Windowed("a", 0, 10_000), {"n": 3, "high": 80}, 3)]
        driver.advance(seconds=100)
        assert len(driver.output("out").records()) == 1
        assert len(driver.store("pulse")) == 0


@pytest.mark.parametrize("serde", SCHEMAS, ids=["columns", "objects"])
def test_reductions_by_session_and_by_sliding_window(serde: Any) -> None:
    app = App("app")
    grouped = app.stream("vitals", value=serde).group_by_key()
    of = {"n": count(), "high": max(col.pulse), "mean": avg(col.pulse), "wards": collect(col.ward)}
    grouped.window(session(gap_ms=10, grace_ms=20)).agg(name="sessions", **of).to("sessions")
    grouped.window(sliding(ms=10)).max(col.pulse, name="sliding").to("sliding")
    with TestDriver(app) as driver:
        for at, pulse, ward in ((100, 60, "x"), (115, 80, "y"), (108, None, "z")):
            driver.input("vitals").pipe({"pulse": pulse, "ward": ward}, key="a", at=at)
        assert driver.output("sessions").table() == {
            Windowed("a", 100, 115): {"n": 3, "high": 80, "mean": 70.0, "wards": ["x", "y", "z"]}
        }
        assert driver.output("sliding").table()[Windowed("a", 105, 115)] == 80
        assert driver.store("sessions").rows("a")[0].value["mean"] == 70.0


def test_sessions_close_by_the_clock() -> None:
    app = App("app", clock="wall", lateness_ms=0)
    app.stream("in", value=string).group_by_key().window(session(gap=5)).count("n").final().to("out")
    with TestDriver(app) as driver:
        for at in (1_000, 4_000, 8_000):
            driver.input("in").pipe("", key="k", at=at)
        driver.advance(ms=12_999)
        assert driver.output("out").records() == []
        driver.advance(ms=1)
        assert driver.output("out").records() == [(Windowed("k", 1_000, 8_000), 3, 8_000)]


def test_what_finds_nothing_comes_out_by_the_clock() -> None:
    app = App("app", clock="wall", lateness_ms=0)
    a, b = app.stream("a", value=string), app.stream("b", value=string)
    a.left_join(b, lambda x, y: [x, y], within=within(seconds=5, grace=1)).to("out")
    with TestDriver(app) as driver:
        driver.input("a").pipe("1", key="k", at=1_000)
        driver.advance(ms=7_000)
        assert driver.output("out").records() == []
        driver.advance(ms=1)
        assert driver.output("out").records() == [("k", ["1", None], 1_000)]


def test_held_back_changes_come_early_if_there_are_too_many() -> None:
    app = App("app")
    counts = app.stream("in", value=string).group_by_key().count(name="n")
    counts.suppress(seconds=60, max_records=2, name="held").to("out")
    with TestDriver(app) as driver:
        for at, key in enumerate("abac"):
            driver.input("in").pipe("", key=key, at=at)
        assert driver.output("out").records() == [("a", 2, 2)]


def test_headers_go_with_their_records() -> None:
    app = App("app")
    stream = app.stream("in", value=string)
    stream.map_values(str.upper, value=string).to("upper")
    stream.flat_map_values(list, value=string).to("letters")
    stream.group_by(lambda key, value: value).count(name="n").to("counts")
    with TestDriver(app) as driver:
        driver.input("in").pipe("ab", key="k", headers=[("trace", b"1")])
        driver.input("in").pipe("c", key="k")
        assert driver.output("upper").headers() == [[("trace", b"1")], []]
        assert driver.output("letters").headers() == [[("trace", b"1")]] * 2 + [[]]
        assert driver.output("counts").headers() == [[("trace", b"1")], []]


def test_branches_have_names() -> None:
    app = App("app")
    branches = app.stream("in", value=int64).branch(
        "by-size-", small=lambda k, v: v < 10, odd=lambda k, v: v % 2
    )
    assert list(branches) == ["by-size-small", "by-size-odd", "by-size-default"]
    for name, stream in branches.items():
        stream.to(name)
    with TestDriver(app) as driver:
        for value in (3, 12, 13):
            driver.input("in").pipe(value)
        assert [driver.output(name).values() for name in branches] == [[3], [13], [12]]


def test_a_stream_goes_through_a_topic_and_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("app")
    app.stream("in", value=string).through("middle").print("seen").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("v", key="k")
        assert driver.output("middle").values() == ["v"]
        driver.input("middle").pipe("w", key="k")
        assert "w" in driver.output("out").values()
    assert "[seen]: k, w" in capsys.readouterr().out


@dataclass
class Vital:
    pulse: int
    ward: str = "x"


class Place(TypedDict):
    ward: str
    bed: int


class Seen(TypedDict):
    pulse: int | None
    place: Place
    tags: list[str]


def test_dataclasses_are_values() -> None:
    app = App("app")
    vitals = app.stream("in", value=json(Vital)).filter(lambda key, vital: vital is not None)
    vitals.map_values(lambda vital: Vital(vital.pulse + 1), value=json(Vital)).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe(Vital(60), key="k")
        driver.input("in").pipe(None, key="k")
        assert driver.output("out").values() == [Vital(61)]
        assert driver.written("out")[0].value == b'{"pulse":61,"ward":"x"}'


@pytest.mark.parametrize(
    "serde", [json(Seen), json("pulse bigint, place struct<ward string, bed int>, tags array<string>")]
)
def test_nested_json_has_columns(serde: Any) -> None:
    app = App("app")
    app.stream("in", value=serde).filter(col.place.bed > 1).to("out")
    value = {"pulse": 1, "place": {"ward": "x", "bed": 2}, "tags": ["a"]}
    with TestDriver(app) as driver:
        driver.input("in").pipe(value)
        driver.input("in").pipe({**value, "place": {"ward": "x", "bed": 1}})
        assert driver.output("out").values() == [value]


def test_functions_may_change_an_aggregate_in_place() -> None:
    def taken(key: str, value: int, seen: list[int]) -> list[int]:
        seen.append(value)
        return seen

    app = App("app")
    grouped = app.stream("in", value=json).flat_map_values(lambda values: values).group_by_key()
    grouped.aggregate(list, taken, name="seen", emit="every").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe([1, 2, 3], key="k")
        assert driver.output("out").values() == [[1], [1, 2], [1, 2, 3]]


def test_a_windowed_table_is_final_twice() -> None:
    app = App("app")
    counts = app.stream("in", value=string).group_by_key().window(tumbling(ms=10)).count("n")
    counts.final().to_stream(lambda window, _: window.key).to("one")
    counts.final().to_stream(lambda window, _: window.key).to("two")
    with TestDriver(app) as driver:
        for at in (1, 2, 10, 30):
            driver.input("in").pipe("", key="k", at=at)
        assert driver.output("one").values() == driver.output("two").values() == [2, 1]


@pytest.mark.parametrize("windows", [tumbling(ms=50), sliding(ms=50), session(gap_ms=50)])
def test_tables_with_windows_are_joined_window_by_window(windows: Any) -> None:
    app = App("app")
    a, b = (app.stream(topic, value=string).group_by_key().window(windows).count(topic * 2) for topic in "ab")
    a.join(b, lambda left, right: [left, right]).to_stream(lambda window, _: window.key).to("out")
    with TestDriver(app) as driver:
        driver.input("a").pipe("", key="k", at=100)
        driver.input("b").pipe("", key="k", at=100)
        driver.input("b").pipe("", key="other", at=100)
        driver.input("a").pipe("", key="k", at=100)
        assert driver.output("out").records()[0] == ("k", [1, 1], 100)
        assert driver.output("out").records()[-1] == ("k", [2, 1], 100)


def joined_texts(app: App, windows: Any) -> Table:
    def texts(key: str, value: str | None, row: str) -> str:
        return f"{row}{value}"

    a, b = (app.stream(topic, value=string).group_by_key() for topic in "ab")
    cogrouped = a.cogroup(texts).cogroup(b, texts).window(windows)
    return cogrouped.aggregate(str, lambda key, row, other: row + other, value=string, name="rows")


def test_the_store_of_a_cogroup_can_be_asked() -> None:
    app = App("app")
    joined_texts(app, session(gap_ms=10)).to_stream(lambda window, _: window.key).to("out")
    with TestDriver(app) as driver:
        driver.input("a").pipe("1", key="k", at=5)
        driver.input("b").pipe("2", key="k", at=8)
        assert dict(driver.store("rows")) == {("k", 5, 8): "12"}


def test_closed_windows_of_a_cogroup_leave_the_store() -> None:
    app = App("app")
    joined_texts(app, tumbling(ms=10)).to_stream(lambda window, _: window.key).to("out")
    with TestDriver(app) as driver:
        for at in range(0, 200, 10):
            driver.input("a").pipe("1", key="k", at=at)
            driver.input("b").pipe("2", key="k", at=at)
        assert driver.output("out").values() == ["1", "12"] * 20
        assert len(driver.store("rows")) == 2


def test_a_window_of_a_cogroup_that_the_clock_has_closed_does_not_begin_again() -> None:
    app = App("app", clock="wall", lateness_ms=0)
    joined_texts(app, tumbling(ms=10)).to_stream(lambda window, _: window.key).to("out")
    with TestDriver(app) as driver:
        driver.input("a").pipe("1", key="k", at=5)
        driver.advance(ms=1_000)
        driver.input("b").pipe("2", key="k", at=6)
        assert driver.output("out").values() == ["1"]


def test_a_cogroup_in_sliding_windows_leaves_out_records_without_value() -> None:
    app = App("app")
    joined_texts(app, sliding(ms=10)).to_stream(lambda window, _: window.key).to("out")
    with TestDriver(app) as driver:
        driver.input("a").pipe(None, key="k", at=100)
        driver.input("a").pipe("1", key="k", at=200)
        assert driver.output("out").values() == ["1"]


def sizes(lists: Table) -> Table:
    """How long all the lists are together: what a list was before its change is subtracted."""
    grouped = lists.group_by(lambda key, rows: ("all", len(rows)))
    return grouped.aggregate(lambda: 0, lambda k, n, total: total + n, lambda k, n, total: total - n)


def appended(key: str, value: int, rows: list[int]) -> list[int]:
    rows.append(value)
    return rows


def removed(key: str, value: int, rows: list[int]) -> list[int]:
    rows.remove(value)
    return rows


def test_functions_may_change_a_group_of_a_table_in_place() -> None:
    app = App("app")
    groups = app.table("in", value=json).group_by(lambda key, value: ("g", value))
    sizes(groups.aggregate(list, appended, removed, name="groups")).to("out")
    with TestDriver(app) as driver:
        for key, value in (("a", 1), ("b", 2), ("c", 3), ("a", None)):
            driver.input("in").pipe(value, key=key)
        assert driver.output("out").values() == [1, 2, 3, 2]


@pytest.mark.parametrize("emit", ["batch", "every"])
def test_functions_may_change_a_session_in_place(emit: str) -> None:
    def merged(key: str, rows: list[int], others: list[int]) -> list[int]:
        return others if not rows else rows + others

    app = App("app")
    sessions = app.stream("in", value=json).group_by_key().window(session(gap_ms=10))
    assert isinstance(sessions, SessionWindowed)
    sizes(sessions.aggregate(list, appended, merged, name="sessions", emit=emit)).to("out")
    with TestDriver(app) as driver:
        for at in (1, 2, 3):
            driver.input("in").pipe(at, key="k", at=at)
        assert driver.output("out").table() == {"all": 3}


def test_a_join_without_a_function_joins_fields_in_columns() -> None:
    app = App("app")
    rows = app.table("t", value=json("nurse string, ward int"), name="t")
    app.stream("a", value=json("pulse int, ward int")).left_join(rows).to("out")
    with TestDriver(app) as driver:
        driver.input("t").pipe({"nurse": "anna", "ward": 1}, key="k")
        driver.input("a").pipe({"pulse": 60, "ward": 2}, key="k")
        driver.input("a").pipe({"pulse": 61, "ward": 2}, key="l")
        assert driver.output("out").values() == [
            {"nurse": "anna", "ward": 2, "pulse": 60},
            {"nurse": None, "ward": 2, "pulse": 61},
        ]


def test_batches_that_become_longer() -> None:
    def twice(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.take(pa.array([at for at in range(rows.num_rows) for _ in "ab"]))

    app = App("app")
    app.stream("in", value=int64).map_batches(twice, value=int64).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe(1, key="k")
        assert driver.output("out").values() == [1, 1]


def test_windows_and_sessions_have_all_the_reductions_that_keys_have() -> None:
    app = App("app")
    grouped = app.stream("in", value=int64).group_by_key()
    for name, windows in (("tumbling", tumbling(ms=10)), ("session", session(gap_ms=5))):
        for how in ("sum", "min", "max", "avg", "first", "last", "collect"):
            table = getattr(grouped.window(windows), how)(name=f"{name}-{how}")
            table.to_stream().to(f"{name}-{how}-out")
    with TestDriver(app) as driver:
        driver.input("in").pipe_all([("k", 3, 1), ("k", 1, 2), ("k", 2, 3)])
        expected = {"sum": 6, "min": 1, "max": 3, "avg": 2.0, "first": 3, "last": 2, "collect": [3, 1, 2]}
        for name in ("tumbling", "session"):
            assert {how: driver.output(f"{name}-{how}-out").values()[-1] for how in expected} == expected
