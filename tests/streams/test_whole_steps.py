"""Steps of several records end as the same records do one by one: topologies that the Java program does not have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from ottla.streams import App, json, string
from ottla.streams.dsl import Table
from tests.streams.cutting import Record, Steps


def run(
    build: Callable[[App], None], steps: list[list[Record]], errors: str = "fail"
) -> dict[Any, list[Any]]:
    """Values by topic and key."""
    app = App("app", errors=errors)
    build(app)
    running = Steps(app)
    for records in steps:
        running.step(records)
    return {place: [value for value, _ in cells] for place, cells in running.out.items()}


def singly(steps: list[list[Record]]) -> list[list[Record]]:
    return [[record] for record in chain.from_iterable(steps)]


def test_a_join_with_a_filtered_table_sees_the_row_before_a_change_of_the_same_step() -> None:
    def build(app: App) -> None:
        rows = app.table("t", value=string).filter(lambda key, value: value != "no")
        app.stream("a", value=string).join(rows, lambda left, right: left + right, value=string).to("out")

    steps: list[list[Record]] = [[("t", b"k", b"1", 1)], [("a", b"k", b"A", 2), ("t", b"k", b"2", 3)]]
    assert run(build, steps) == run(build, singly(steps)) == {("out", b"k"): [b"A1"]}


def by_plus(key: Any, value: int, total: int) -> int:
    return total + value


def by_minus(key: Any, value: int, total: int) -> int:
    return total - value


def latest(app: App, topic: str) -> Table:
    """With `emit="batch"`: the last change of each key and step."""
    return app.stream(topic, value=json).group_by_key().reduce(lambda _, value: value, name=topic + "-rows")


CHANGING: list[list[Record]] = [
    [("a", b"k", b"2", 1), ("b", b"k", b"3", 2)],
    [("a", b"k", b"5", 3), ("b", b"k", b"7", 4), ("a", b"k", b"11", 5)],
]


def test_groups_of_joined_tables_subtract_what_they_added() -> None:
    """If one side's changes of a step are one and the other side sees them all, old values fit no earlier result."""

    def build(app: App) -> None:
        products = latest(app, "a").join(latest(app, "b"), lambda left, right: left * right)
        groups = products.group_by(lambda key, value: ("all", value))
        groups.aggregate(lambda: 0, by_plus, by_minus).to_stream().to("out")

    assert run(build, CHANGING)["out", b"all"][-1] == run(build, singly(CHANGING))["out", b"all"][-1] == b"77"


def test_joined_tables_give_one_change_for_each_key_and_step() -> None:
    def build(app: App) -> None:
        joined = latest(app, "a").outer_join(
            latest(app, "b"), lambda left, right: [left, right], name="joined"
        )
        joined.to_stream().to("out")

    assert run(build, CHANGING) == {("out", b"k"): [b"[2,3]", b"[11,7]"]}


def test_a_join_with_joined_tables_sees_their_row_at_its_moment() -> None:
    def build(app: App) -> None:
        joined = latest(app, "a").left_join(latest(app, "b"), lambda left, right: [left, right])
        app.stream("c", value=json).left_join(joined, lambda left, right: right).to("out")

    asked = [
        [record for at, was in enumerate(step) for record in (was, ("c", b"k", b"0", was[3]))]
        for step in CHANGING
    ]
    asked[1].insert(0, ("c", b"k", b"0", 2))
    rows = [b"[2,null]", b"[2,3]", b"[2,3]", b"[5,3]", b"[5,7]", b"[11,7]"]
    assert run(build, asked) == run(build, singly(asked)) == {("out", b"k"): rows}


def test_a_join_with_a_cogrouped_table_sees_the_row_of_its_moment() -> None:
    def build(app: App) -> None:
        a, b = (app.stream(topic, value=string).group_by_key() for topic in "ab")
        rows = a.cogroup(lambda key, value, row: row + value).cogroup(b, lambda key, value, row: row + value)
        table = rows.aggregate(str, value=string, name="rows")
        app.stream("c", value=string).join(table, lambda left, right: left + right, value=string).to("out")

    steps: list[list[Record]] = [[("a", b"k", b"1", 1), ("c", b"k", b"A", 2), ("b", b"k", b"2", 3)]]
    assert run(build, steps) == run(build, singly(steps)) == {("out", b"k"): [b"A1"]}


def test_a_row_that_is_mapped_to_nothing_is_not_there_for_a_join() -> None:
    def build(app: App) -> None:
        rows = app.table("t", value=json).map_values(lambda value: value.get("x"))
        app.stream("a", value=json).join(rows, lambda left, right: [left, right]).to("out")

    steps: list[list[Record]] = [
        [("t", b"k", b'{"y":1}', 1)],
        [("a", b"k", b"1", 2)],
        [("t", b"k", b'{"x":1}', 3)],
        [("a", b"k", b"2", 4)],
    ]
    whole = [[record for step in steps for record in step]]
    assert run(build, steps) == run(build, whole) == {("out", b"k"): [b"[2,1]"]}


def test_a_join_that_skips_errors_sees_no_row_before_the_first_one() -> None:
    """With `emit="every"` the first change of an aggregate comes from its initial value, as in Kafka Streams; a join
    must not take that for a row."""

    def build(app: App) -> None:
        grouped = app.stream("a", value=json).group_by_key()
        sums = grouped.aggregate(lambda: 0, by_plus, name="sums", emit="every")
        app.stream("c", value=json).left_join(sums, lambda left, right: right).to("out")

    steps: list[list[Record]] = [
        [("c", b"k", b"0", 1), *(("a", b"k", b"5", at) for at in (2, 3)), ("c", b"k", b"0", 4)]
    ]
    rows = {("out", b"k"): [None, b"10"]}
    assert run(build, steps) == run(build, steps, errors="skip") == rows
