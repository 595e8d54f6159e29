"""The query that the Spark harness kills: copies a topic exactly once, and can be told to die or to fail.

    python -m tests.soak.spark_driver BOOTSTRAP INPUT OUTPUT CHECKPOINT

Prints `jvm PID` when the session is there, then reads one line: `[--die MOMENT] [--at BATCH] [--fail SHARE] [--drain]`.
From then on it copies, and prints `batch N` for every micro-batch. So the next driver can start while one still runs.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from ottla.client.exactly_once import Marker
from ottla.spark.format import OttlaFormat
from ottla.spark.options import WriteOptions
from ottla.spark.sink import StreamWriter, Written, end_transactions

MOMENTS = ("before", "between", "after")


class FaultyFormat(OttlaFormat):
    """The real sink, with faults at the moments that matter."""

    @classmethod
    def name(cls) -> str:
        return "ottla_faulty"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        options = {name: value for name, value in self.options.items() if not name.startswith("soak")}
        faults = {name: value for name, value in self.options.items() if name.startswith("soak")}
        return FaultyWriter(WriteOptions.parse(options, streaming=True), schema, faults)


class FaultyWriter(StreamWriter):
    def __init__(self, options: WriteOptions, schema: Any, faults: dict[str, str]) -> None:
        super().__init__(options, schema)
        self._faults = faults

    def write(self, iterator: Iterator[Any]) -> Written:
        chance = random.random()
        fail = float(self._faults.get("soakfail", "0"))
        if chance < fail / 2:
            raise RuntimeError("a task that fails before it writes")
        written = super().write(iterator)
        if chance < fail:
            raise RuntimeError("a task that fails after it wrote")
        return written

    def commit(self, messages: list[Any], batchId: int) -> None:  # type: ignore[override]
        moment = self._faults.get("soakdie", "") if batchId >= int(self._faults.get("soakat", "0")) else ""
        if moment == "before":
            self._die()
        if moment == "between":
            some = [each for each in messages if each.transaction is not None]
            marker = Marker(batchId + 1, messages[0].query, len(messages))
            end_transactions(self._options, some[: len(some) // 2], marker)
            self._die()
        super().commit(messages, batchId)
        if moment == "after":
            self._die()

    def _die(self) -> None:
        for pid in map(int, self._faults["soakpids"].split(",")):
            os.kill(pid, signal.SIGKILL)
        time.sleep(60)  # the JVM is gone: this worker will be, too


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "input", "output", "checkpoint"):
        parser.add_argument(name)
    asked = parser.parse_args()
    from ottla.spark import session

    # Lives are short: code compiled once is good enough.
    quick = "-XX:TieredStopAtLevel=1"
    spark = session(cores=2, settings={"spark.master": "local[2,4]"}, memory="768m", java_options=quick)
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    print(f"jvm {jvm}", flush=True)
    spark.dataSource.register(FaultyFormat)
    line = sys.stdin.readline()
    if line:
        _copy(spark, asked, _orders(line), f"{jvm},{os.getpid()}")
    spark.stop()


def _orders(line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--die", choices=MOMENTS, default="")
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--fail", default="0")
    parser.add_argument("--drain", action="store_true")
    parser.add_argument("--limit", type=int, default=2000)
    return parser.parse_args(line.split())


def _copy(spark: Any, asked: argparse.Namespace, orders: argparse.Namespace, pids: str) -> None:
    copied = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", asked.bootstrap)
        .option("subscribe", asked.input)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", orders.limit)
        .option("kafka.group.id", f"copy-{asked.input}")
        .load()
        .select("key", "value")
        .writeStream.format("ottla_faulty")
        .option("kafka.bootstrap.servers", asked.bootstrap)
        .option("topic", asked.output)
        .option("checkpointLocation", asked.checkpoint)
        .option("soakdie", orders.die)
        .option("soakat", orders.at)
        .option("soakfail", orders.fail)
        .option("soakpids", pids)
    )
    query = copied.trigger(availableNow=True).start() if orders.drain else copied.start()
    told = -1
    while not query.awaitTermination(0.05):
        progress = query.lastProgress
        if progress and progress["batchId"] != told:
            told = progress["batchId"]
            print(f"batch {told}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
