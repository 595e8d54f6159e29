"""The topologies of tests/oracle/streams/StreamsOracle.java, in our DSL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams import App, hopping, session, sliding, string, tumbling, within
from ottla.streams.dsl import GroupedTable, SessionWindowed, Stream, Table, Windowed

TOPOLOGIES: dict[str, Callable[[App], None]] = {}
EVERY = "every"


IS_PLAIN = False  # nodes have Kafka's own names


def named(name: str) -> str | None:
    return None if IS_PLAIN else name


def topology(name: str) -> Callable[[Callable[[App], None]], Callable[[App], None]]:
    def register(build: Callable[[App], None]) -> Callable[[App], None]:
        TOPOLOGIES[name] = build
        return build

    return register


# -- the functions of all topologies: a value that is missing reads "-" ------------------------------


def text(value: Any) -> str:
    return "-" if value is None else str(value)


def pair(left: Any, right: Any) -> str:
    return f"({text(left)},{text(right)})"


def low(key: Any, value: Any) -> bool:
    return value is not None and int(value) < 50


def tail(value: str) -> str:
    return value[-12:]


def plus(_: Any, value: str, aggregate: str) -> str:
    return tail(f"{aggregate}+{value}")


def minus(_: Any, value: str, aggregate: str) -> str:
    return tail(f"{aggregate}-{value}")


def times(_: Any, value: str, aggregate: str) -> str:
    return tail(f"{aggregate}*{value}")


def joined_by_plus(left: str, right: str) -> str:
    return tail(f"{left}+{right}")


def zero() -> str:
    return "0"


def letter_of(value: str) -> str:
    return "abcd"[len(value)]


def stream(app: App, topic: str) -> Stream:
    return app.stream(topic, value=string)


def table(app: App, topic: str, store: str) -> Table:
    return app.table(topic, value=string, name=store)


def out(stream: Stream) -> None:
    stream.to("out")


# -- stateless ------------------------------------------------------------------------------------------


@topology("filter")
def _(app: App) -> None:
    out(stream(app, "a").filter(low))


@topology("filter-not")
def _(app: App) -> None:
    out(stream(app, "a").filter_not(low))


@topology("map")
def _(app: App) -> None:
    out(stream(app, "a").map(lambda k, v: (text(v), text(k)), value=string))


@topology("map-values")
def _(app: App) -> None:
    out(stream(app, "a").map_values(lambda v: pair(v, "m"), value=string))


@topology("flat-map")
def _(app: App) -> None:
    def both(key: Any, value: Any) -> list[tuple[Any, Any]]:
        return [] if value is None else [(value, key), (text(key), value)]

    out(stream(app, "a").flat_map(both, value=string))


@topology("flat-map-values")
def _(app: App) -> None:
    out(stream(app, "a").flat_map_values(lambda v: list(v or ""), value=string))


@topology("select-key")
def _(app: App) -> None:
    out(stream(app, "a").select_key(lambda k, v: v))


@topology("merge")
def _(app: App) -> None:
    out(stream(app, "a").merge(stream(app, "b")))


@topology("split")
def _(app: App) -> None:
    nulls, lows, rest = stream(app, "a").split(lambda k, v: v is None, low)
    nulls.to("nulls")
    lows.to("lows")
    rest.to("rest")


@topology("repartition")
def _(app: App) -> None:
    out(stream(app, "a").select_key(lambda k, v: v).repartition("r"))


# -- aggregates -----------------------------------------------------------------------------------------


@topology("count")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().count(name="st", emit=EVERY).to_stream())


@topology("group-by-count")
def _(app: App) -> None:
    grouped = stream(app, "a").group_by(lambda k, v: None if v is None else v[0])
    out(grouped.count(name="st", emit=EVERY).to_stream())


@topology("reduce")
def _(app: App) -> None:
    def reduced(left: str, right: str) -> str | None:
        return None if right == "7" else joined_by_plus(left, right)

    out(stream(app, "a").group_by_key().reduce(reduced, name="st", emit=EVERY).to_stream())


@topology("aggregate")
def _(app: App) -> None:
    def aggregated(key: str, value: str, aggregate: str) -> str | None:
        return None if value.endswith("3") else plus(key, value, aggregate)

    grouped = stream(app, "a").group_by_key()
    out(grouped.aggregate(zero, aggregated, value=string, name="st", emit=EVERY).to_stream())


# -- tables -----------------------------------------------------------------------------------------------


@topology("table")
def _(app: App) -> None:
    out(table(app, "t", "st").to_stream())


@topology("table-filter")
def _(app: App) -> None:
    out(table(app, "t", "st").filter(low).to_stream())


@topology("table-map-values")
def _(app: App) -> None:
    out(table(app, "t", "st").map_values(lambda v: pair(v, "m"), value=string).to_stream())


@topology("table-filter-chain")
def _(app: App) -> None:
    mapped = table(app, "t", "st").filter(low).map_values(lambda v: pair(v, "m"), value=string)
    out(mapped.filter(lambda k, v: "1" not in v).to_stream())


@topology("table-of-counts")
def _(app: App) -> None:
    counts = stream(app, "a").group_by_key().count(name="st", emit=EVERY)
    out(counts.filter(lambda k, n: n % 2 == 0).to_stream())


# -- windows ------------------------------------------------------------------------------------------------

TUMBLING = tumbling(ms=100, grace=0.05)
HOPPING = hopping(ms=100, advance=0.04, grace=0.02)


@topology("tumbling-count")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(TUMBLING).count("st", emit=EVERY).to_stream())


@topology("tumbling-no-grace")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(tumbling(ms=100)).count("st", emit=EVERY).to_stream())


@topology("tumbling-after-filter")
def _(app: App) -> None:
    out(stream(app, "a").filter(low).group_by_key().window(TUMBLING).count("st", emit=EVERY).to_stream())


@topology("hopping-count")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(HOPPING).count("st", emit=EVERY).to_stream())


@topology("final-tumbling")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(TUMBLING).count("st").final().to_stream())


@topology("final-hopping")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(HOPPING).count("st").final().to_stream())


# -- joins --------------------------------------------------------------------------------------------------


@topology("stream-table")
def _(app: App) -> None:
    out(stream(app, "a").join(table(app, "t", "st"), pair, value=string))


@topology("stream-table-left")
def _(app: App) -> None:
    out(stream(app, "a").left_join(table(app, "t", "st"), pair, value=string))


@topology("stream-table-rekeyed")
def _(app: App) -> None:
    rekeyed = stream(app, "a").select_key(lambda k, v: k or "d")
    out(rekeyed.join(table(app, "t", "st"), pair, value=string))


@topology("stream-filtered-table")
def _(app: App) -> None:
    out(stream(app, "a").join(table(app, "t", "st").filter(low), pair, value=string))


@topology("stream-counts")
def _(app: App) -> None:
    a = stream(app, "a")
    counts = stream(app, "b").group_by_key().count(name="n", emit=EVERY)
    out(a.join(counts, pair, value=string))


NEAR = within(ms=50, grace_ms=30)
BEFORE = within(ms=0, before_ms=60, grace_ms=20)


@topology("stream-stream")
def _(app: App) -> None:
    out(stream(app, "a").join(stream(app, "b"), pair, string, within=NEAR, name=named("j")))


@topology("stream-stream-before")
def _(app: App) -> None:
    out(stream(app, "a").join(stream(app, "b"), pair, string, within=BEFORE, name=named("j")))


@topology("stream-stream-left")
def _(app: App) -> None:
    out(stream(app, "a").left_join(stream(app, "b"), pair, string, within=NEAR, name=named("j")))


@topology("stream-stream-outer")
def _(app: App) -> None:
    out(stream(app, "a").outer_join(stream(app, "b"), pair, string, within=NEAR, name=named("j")))


@topology("stream-stream-rekeyed")
def _(app: App) -> None:
    rekeyed = stream(app, "a").select_key(lambda k, v: k)
    out(rekeyed.join(stream(app, "b"), pair, string, within=NEAR, name=named("j")))


@topology("table-table")
def _(app: App) -> None:
    out(table(app, "t", "ts").join(table(app, "u", "us"), pair, string).to_stream())


@topology("table-table-left")
def _(app: App) -> None:
    out(table(app, "t", "ts").left_join(table(app, "u", "us"), pair, string).to_stream())


@topology("table-table-outer")
def _(app: App) -> None:
    out(table(app, "t", "ts").outer_join(table(app, "u", "us"), pair, string).to_stream())


@topology("table-table-kept")
def _(app: App) -> None:
    out(table(app, "t", "ts").join(table(app, "u", "us"), pair, string, name="js").to_stream())


# -- more tables ------------------------------------------------------------------------------------------


@topology("table-filter-kept")
def _(app: App) -> None:
    out(table(app, "t", "st").filter(low, name="low").to_stream())


@topology("table-map-values-kept")
def _(app: App) -> None:
    out(table(app, "t", "st").map_values(lambda v: pair(v, "m"), string, name="mapped").to_stream())


def by_letter(app: App) -> GroupedTable:
    return table(app, "t", "st").group_by(lambda k, v: (v[0], v), value=string, name=named("g"))


@topology("table-group-count")
def _(app: App) -> None:
    out(by_letter(app).count(name="n", emit=EVERY).to_stream())


@topology("table-group-reduce")
def _(app: App) -> None:
    def subtracted(left: str, right: str) -> str:
        return tail(f"{left}-{right}")

    out(by_letter(app).reduce(joined_by_plus, subtracted, name="n", emit=EVERY).to_stream())


@topology("table-group-aggregate")
def _(app: App) -> None:
    out(by_letter(app).aggregate(zero, plus, minus, value=string, name="n", emit=EVERY).to_stream())


@topology("stream-to-table")
def _(app: App) -> None:
    out(stream(app, "a").to_table("st").to_stream())


@topology("cogroup")
def _(app: App) -> None:
    a, b = stream(app, "a").group_by_key(), stream(app, "b").group_by_key()
    grouped = a.cogroup(plus).cogroup(b, times)
    out(grouped.aggregate(zero, value=string, name="st", emit=EVERY).to_stream())


# -- more windows -----------------------------------------------------------------------------------------

SLIDING = sliding(ms=60, grace_ms=30)
GAP = session(gap_ms=40, grace_ms=30)


def windowed(app: App, windows: Any) -> Windowed:
    return stream(app, "a").group_by_key().window(windows)


def java(value: Any) -> str:
    """In a string of Java's."""
    return "null" if value is None else str(value)


@topology("tumbling-reduce")
def _(app: App) -> None:
    def reduced(left: Any, right: Any) -> str:
        return tail(f"{java(left)}+{java(right)}")

    out(windowed(app, TUMBLING).reduce(reduced, name="st", emit=EVERY).to_stream())


def plus_java(_: Any, value: Any, aggregate: Any) -> str:
    return tail(f"{java(aggregate)}+{java(value)}")


@topology("hopping-aggregate")
def _(app: App) -> None:
    out(windowed(app, HOPPING).aggregate(zero, plus_java, value=string, name="st", emit=EVERY).to_stream())


@topology("sliding-count")
def _(app: App) -> None:
    out(windowed(app, SLIDING).count("st", emit=EVERY).to_stream())


@topology("sliding-aggregate")
def _(app: App) -> None:
    out(windowed(app, SLIDING).aggregate(zero, plus, value=string, name="st", emit=EVERY).to_stream())


@topology("session-count")
def _(app: App) -> None:
    out(windowed(app, GAP).count("st", emit=EVERY).to_stream())


@topology("session-reduce")
def _(app: App) -> None:
    def reduced(left: Any, right: Any) -> str:
        return tail(f"{java(left)}+{java(right)}")

    out(windowed(app, GAP).reduce(reduced, name="st", emit=EVERY).to_stream())


@topology("session-aggregate")
def _(app: App) -> None:
    def met(_: Any, left: str, right: str) -> str:
        return tail(f"{left}|{right}")

    sessions = windowed(app, GAP)
    assert isinstance(sessions, SessionWindowed)
    out(sessions.aggregate(zero, plus_java, met, value=string, name="st", emit=EVERY).to_stream())


@topology("cogroup-tumbling")
def _(app: App) -> None:
    def times_java(_: Any, value: Any, aggregate: Any) -> str:
        return tail(f"{java(aggregate)}*{java(value)}")

    a, b = stream(app, "a").group_by_key(), stream(app, "b").group_by_key()
    grouped = a.cogroup(plus_java).cogroup(b, times_java).window(TUMBLING)
    out(grouped.aggregate(zero, value=string, name="st", emit=EVERY).to_stream())


@topology("final-session")
def _(app: App) -> None:
    out(windowed(app, GAP).count("st").final().to_stream())


@topology("suppress")
def _(app: App) -> None:
    counts = stream(app, "a").group_by_key().count(name="st", emit=EVERY)
    out(counts.suppress(ms=80, name=named("sup")).to_stream())


# -- global tables ----------------------------------------------------------------------------------------


def letter_or_none(_: Any, value: Any) -> str | None:
    return None if value is None else letter_of(value)


@topology("stream-global")
def _(app: App) -> None:
    rows = app.global_table("t", value=string, name="st")
    out(stream(app, "a").join(rows, pair, string, on=letter_or_none))


@topology("stream-global-left")
def _(app: App) -> None:
    rows = app.global_table("t", value=string, name="st")
    out(stream(app, "a").left_join(rows, pair, string, on=letter_or_none))


# -- a row that names another -------------------------------------------------------------------------------


@topology("foreign-key")
def _(app: App) -> None:
    left, right = table(app, "t", "ts"), table(app, "u", "us")
    out(left.join(right, pair, string, on=letter_of, name="js").to_stream())


@topology("foreign-key-left")
def _(app: App) -> None:
    left, right = table(app, "t", "ts"), table(app, "u", "us")
    out(left.left_join(right, pair, string, on=letter_of, name="js").to_stream())
