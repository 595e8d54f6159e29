"""Stream programs without Spark and broker: how many records a second their operators take in one process.

    python -m bench.streams [NAME ...] [--records 1000000] [--step 100000] [--keys 100000] [--profile]
    python -m bench.streams --driver          # TestDriver: a record, and the first result in a new process

Each program is compiled as for Spark; its stages are given batches as a worker fetches them. What is left out is the
broker's share: fetching, writing, committing (bench.pipelines measures those). Seconds are those of the processor,
so that load of others matters less. `--profile` shows where they go.
"""

from __future__ import annotations

import argparse
import builtins
import cProfile
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench import conditions
from ottla.pipelines.operators import Step
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import TaskId, upstream_first
from ottla.streams import (
    App,
    TestDriver,
    avg,
    bytes_,
    col,
    count,
    int64,
    json,
    max,
    session,
    sliding,
    string,
    tumbling,
    within,
)
from ottla.wire import columns

PROGRAMS: dict[str, Callable[[App], None]] = {}


def program(build: Callable[[App], None]) -> Callable[[App], None]:
    PROGRAMS[build.__name__.replace("_", "-")] = build
    return build


@program
def keyed_count(app: App) -> None:
    app.stream("in", value=bytes_).group_by_key().count(name="n").to("out")


@program
def word_count(app: App) -> None:
    words = app.stream("lines", value=string).flat_map_values(str.split, value=string)
    words.group_by(lambda key, word: word).count(name="n").to("out")


@program
def stream_table_join(app: App) -> None:
    rows = app.table("rows", value=json("nurse string"), name="rows")
    app.stream("vitals", value=json("pulse int, spo2 int")).join(rows).to("out")


@program
def reductions(app: App) -> None:
    grouped = app.stream("vitals", value=json("pulse int, spo2 int")).group_by_key()
    grouped.agg(n=count(), high=max(col.pulse), mean=avg(col.spo2), name="agg").to("out")


@program
def windows(app: App) -> None:
    grouped = app.stream("in", value=bytes_).group_by_key()
    grouped.window(tumbling(seconds=10)).count(name="n").final().to("out")


@program
def python_aggregate(app: App) -> None:
    grouped = app.stream("in", value=bytes_).group_by_key()
    grouped.aggregate(int, lambda key, value, seen: seen + len(value), value=int64, name="sum").to("out")


@program
def stream_join(app: App) -> None:
    left = app.stream("in", value=bytes_)
    right = left.map_values(lambda value: value, value=bytes_)
    left.join(right, lambda one, other: one, bytes_, within=within(seconds=1)).to("out")


@program
def left_stream_join(app: App) -> None:
    left = app.stream("in", value=bytes_)
    right = left.map_values(lambda value: value, value=bytes_)
    left.left_join(right, lambda one, other: one, bytes_, within=within(seconds=1)).to("out")


@program
def sessions(app: App) -> None:
    grouped = app.stream("in", value=bytes_).group_by_key()
    grouped.window(session(gap=10)).count(name="n").to("out")


@program
def sliding_windows(app: App) -> None:
    grouped = app.stream("in", value=bytes_).group_by_key()
    grouped.window(sliding(seconds=10)).count(name="n").to("out")


def batch(topic: str, count: int, keys: int, begun: int) -> pa.RecordBatch:
    """As a worker fetches it."""
    chance = np.random.default_rng(begun)
    numbers = chance.integers(0, keys, count)
    cells = pa.array(np.char.add("key-", numbers.astype(str))).cast(pa.binary())
    if topic == "lines":
        words = np.char.add("word", chance.integers(0, 10_000, count).astype(str))
        values = pa.array(np.char.add(np.char.add(words, " and "), words)).cast(pa.binary())
    elif topic == "vitals":
        pulses = chance.integers(50, 180, count).astype(str)
        values = pa.array(np.char.add(np.char.add('{"pulse":', pulses), ',"spo2":97}')).cast(pa.binary())
    elif topic == "rows":
        values = pa.array(np.char.add('{"nurse":"n', np.char.add(numbers.astype(str), '"}'))).cast(
            pa.binary()
        )
    else:
        values = pa.repeat(pa.scalar(b"x" * 84, pa.binary()), count)
    times = (begun + np.arange(count)) * 1000
    zeros = pa.array(np.zeros(count, np.int32))
    arrays = [
        cells,
        values,
        pa.repeat(topic, count),
        zeros,
        pa.array(np.arange(count)),
        pa.array(times),
        zeros,
    ]
    arrays[5] = arrays[5].cast(columns.TIMESTAMP)
    return pa.RecordBatch.from_arrays(
        [*arrays, pa.nulls(count, columns.HEADERS)], schema=columns.SCHEMA_WITH_HEADERS
    )


class Run:
    """The stages of a program; what goes to internal topics is read at once."""

    def __init__(self, name: str) -> None:
        app = App("bench")
        PROGRAMS[name](app)
        self._pipeline = app.pipeline()
        self._stages = upstream_first(self._pipeline)
        self._operators = {stage.name: stage.operator() for stage in self._stages}
        self._stores = {
            stage.name: {spec.name: KeyedStore(spec) for spec in stage.stores} for stage in self._stages
        }
        self._marks: dict[str, dict[str, int]] = {stage.name: {} for stage in self._stages}
        self.inputs = [
            name for stage in self._stages for name in stage.inputs if not self._pipeline.is_internal(name)
        ]

    def step(self, topic: str, rows: pa.RecordBatch) -> int:
        """How many records came out."""
        stage = next(
            each for each in self._stages if topic in [self._pipeline.topic(name) for name in each.inputs]
        )
        stores, marks = self._stores[stage.name], self._marks[stage.name]
        step = Step(TaskId(stage.name, 0), stores, frozenset(stage.outputs), -1, 0, marks)
        self._operators[stage.name].process(rows, step)
        self._operators[stage.name].advance(step)
        self._marks[stage.name] = step.marks
        written = sum(store.changes(0).num_rows for store in stores.values())
        for output, emitted in step.emitted:
            name = self._pipeline.topic(output)
            written += emitted.num_rows if name == output else self.step(name, _read(name, emitted))
        return written


def _read(topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    count = rows.num_rows
    stamps = pa.array(rows.column("timestamp").to_numpy() * 1000).cast(columns.TIMESTAMP)
    zeros = pa.array(np.zeros(count, np.int32))
    arrays = [
        rows.column("key"),
        rows.column("value"),
        pa.repeat(topic, count),
        zeros,
        pa.array(np.arange(count)),
    ]
    arrays += [stamps, zeros, pa.nulls(count, columns.HEADERS)]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.SCHEMA_WITH_HEADERS)


def measure(name: str, records: int, step: int, keys: int) -> tuple[float, float]:
    """Records a second in and out, without the first step."""
    run = Run(name)
    tables = [topic for topic in run.inputs if topic == "rows"]
    (stream,) = [topic for topic in run.inputs if topic != "rows"]
    for topic in tables:
        run.step(topic, batch(topic, keys, keys, 0))
    batches = [batch(stream, step, keys, begun) for begun in range(0, records + step, step)]
    run.step(stream, batches[0])
    begun, written = time.process_time(), 0
    for rows in batches[1:]:
        written += run.step(stream, rows)
    took = time.process_time() - begun
    return records / took, written / took


_FIRST = """
import time
begun = time.perf_counter(), time.process_time()
from ottla.streams import App, TestDriver, int64, string
app = App("words")
words = app.stream("lines", value=string).flat_map_values(str.split, value=string)
words.group_by(lambda key, word: word).count(name="counts").to_stream().to("out", value=int64)
with TestDriver(app) as driver:
    driver.input("lines").pipe("hello world hello")
    assert driver.output("out").table() == {"hello": 2, "world": 1}
print(1000 * (time.perf_counter() - begun[0]), 1000 * (time.process_time() - begun[1]))
"""


def measure_driver(rounds: int = 100, records: int = 50) -> float:
    """Milliseconds of the processor that a record takes through a count: the median of many short runs."""
    app = App("count")
    app.stream("in", value=string).group_by_key().count(name="n").to_stream().to("out", value=int64)
    figures = []
    with TestDriver(app) as driver:
        source = driver.input("in")
        for _ in range(rounds):
            begun = time.process_time()
            for number in range(records):
                source.pipe("x", key=f"k{number % 20}")
            figures.append(1000 * (time.process_time() - begun) / records)
    return statistics.median(figures[1:])


_LIBRARIES = """
import time
begun = time.perf_counter(), time.process_time()
import numpy, pyarrow
print(1000 * (time.perf_counter() - begun[0]), 1000 * (time.process_time() - begun[1]))
"""


def measure_first(code: str = _FIRST, rounds: int = 9) -> tuple[float, float]:
    """Milliseconds from the import to the first result, on the clock and of the processor: the best of some."""
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(rounds)
    ]
    figures = [tuple(map(float, run.stdout.split())) for run in runs]
    return builtins.min(wall for wall, _ in figures), builtins.min(cpu for _, cpu in figures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--step", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--driver", action="store_true", help="TestDriver alone")
    options: Any = parser.parse_args()
    if options.driver:
        conditions.prepare()
        print(f"a record through TestDriver: {measure_driver():.3f} ms of the processor (goal 0.3)")
        wall, cpu = measure_first()
        print(f"import to first result: {wall:.0f} ms, {cpu:.0f} of the processor (goal 100)")
        wall, cpu = measure_first(_LIBRARIES)
        print(f"of which numpy and pyarrow, imported alone: {wall:.0f} ms, {cpu:.0f} of the processor")
        return
    for name in options.names or PROGRAMS:
        arguments = name, options.records, options.step, options.keys
        if options.profile:
            profile = cProfile.Profile()
            figures = profile.runcall(measure, *arguments)
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)
        else:
            figures = measure(*arguments)
        print(f"{name:20} {figures[0]:12,.0f} records/s in {figures[1]:12,.0f} records/s out")


if __name__ == "__main__":
    main()
