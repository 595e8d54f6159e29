"""The topologies of tests/oracle/streams/StreamsOracle.java, in our DSL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams import App, hopping, string, tumbling
from ottla.streams.dsl import Stream, Table

TOPOLOGIES: dict[str, Callable[[App], None]] = {}
EVERY = "every"


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
    out(stream(app, "a").group_by_key().window(TUMBLING).count("st").to_stream())


@topology("tumbling-no-grace")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(tumbling(ms=100)).count("st").to_stream())


@topology("tumbling-after-filter")
def _(app: App) -> None:
    out(stream(app, "a").filter(low).group_by_key().window(TUMBLING).count("st").to_stream())


@topology("hopping-count")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(HOPPING).count("st").to_stream())


@topology("final-tumbling")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(TUMBLING).count("st").final().to_stream())


@topology("final-hopping")
def _(app: App) -> None:
    out(stream(app, "a").group_by_key().window(HOPPING).count("st").final().to_stream())


# -- joins --------------------------------------------------------------------------------------------------


@topology("stream-table")
def _(app: App) -> None:
    rows = table(app, "t", "st")
    out(stream(app, "a").join(rows, pair, value=string))


@topology("stream-table-left")
def _(app: App) -> None:
    rows = table(app, "t", "st")
    out(stream(app, "a").left_join(rows, pair, value=string))


@topology("stream-table-rekeyed")
def _(app: App) -> None:
    rows = table(app, "t", "st")
    out(stream(app, "a").select_key(lambda k, v: k or "d").join(rows, pair, value=string))
