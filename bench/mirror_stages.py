"""Where the time of a mirrored record goes: the delay of single records, stage by stage.

    python -m bench.mirror_stages [--rate 200] [--seconds 20] [--busy 0] [--slowest 0]

Two Ottla brokers, and `ottla mirror --local` as a process of its own that notes the time of each stage of a step. A
record's delay is from the send at the source to a reader of committed records at the target. `--busy N` keeps N
processes busy meanwhile; `--slowest N` shows the slowest records one by one.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.mirror import PARTITIONS, TOPIC, Reader, cpu_seconds, end, fill, follow
from ottla.client import Producer
from ottla.client.values import ConsumerRecord, RecordMetadata
from tests.oracle.ottla import Ottla

STAGES = ("sent", "acknowledged", "fetched", "positions", "written", "ended", "visible")
FILLED = 20_000


# -- the mirror, which takes notes -------------------------------------------------------------------


def run_noting(notes: Path, arguments: list[str]) -> int:
    """`ottla mirror` in this process; a line for each step in the file `notes`."""
    from ottla.cli.main import main as ottla
    from ottla.mirror.clusters import SourceLog, TargetLog

    output = notes.open("w", buffering=1)
    steps = threading.local()  # a task stays on its loop's thread
    fetch, take = SourceLog.follow, SourceLog.take_held

    async def noted_fetch(self: SourceLog, positions: Any, timeout_s: float) -> Any:
        ends = await fetch(self, positions, timeout_s)
        if ends:
            steps.note = {"fetched": time.monotonic(), "cpu": time.thread_time()}
        return ends

    def noted_take(self: SourceLog, *, tolerate: bool) -> Any:
        chunks = take(self, tolerate=tolerate)
        steps.note["copied"] = [
            (chunk.partition.partition, chunk.fetch_offset, chunk.end()[0])
            for chunk in chunks
            if chunk.partition.topic == TOPIC
        ]
        return chunks

    def noting(stage: str, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def noted(self: TargetLog, *arguments: Any) -> Any:
            answer = await work(self, *arguments)
            note = getattr(steps, "note", None)
            if note is not None:
                note[stage] = time.monotonic()
                if stage == "ended":
                    note["cpu"] = time.thread_time() - note["cpu"]
                    steps.note = None
                    output.write(json.dumps(note) + "\n")
            return answer

        return noted

    SourceLog.follow, SourceLog.take_held = noted_fetch, noted_take  # type: ignore[method-assign]
    TargetLog.add_positions = noting("positions", TargetLog.add_positions)  # type: ignore[method-assign, assignment]
    TargetLog.take_written = noting("written", TargetLog.take_written)  # type: ignore[method-assign, assignment]
    TargetLog.end = noting("ended", TargetLog.end)  # type: ignore[method-assign, assignment]
    return ottla(arguments)


# -- beside it ---------------------------------------------------------------------------------------


class Visible:
    """When each record became visible, by the number in its value."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}

    def take(self, records: Sequence[ConsumerRecord]) -> None:
        self.times |= dict.fromkeys((int(record.value) for record in records), time.monotonic())


def send(bootstrap: str, rate: float, seconds: float) -> list[dict[str, Any]]:
    """Each record with the time it was sent and acknowledged, and where it went."""
    sent: list[dict[str, Any]] = []

    def noting(note: dict[str, Any]) -> Callable[[RecordMetadata | None, Exception | None], None]:
        def acknowledged(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is not None:
                note.update(
                    acknowledged=time.monotonic(), partition=metadata.partition, offset=metadata.offset
                )

        return acknowledged

    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        begun = time.monotonic()
        for number in range(int(rate * seconds)):
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))
            note: dict[str, Any] = {"sent": time.monotonic()}
            sent.append(note)
            producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS, callback=noting(note))
        producer.flush()
    return sent


def join(sent: list[dict[str, Any]], visible: dict[int, float], notes: Iterable[str]) -> list[dict[str, Any]]:
    """Records with the stages of the step that copied them."""
    steps: dict[tuple[int, int], dict[str, Any]] = {}
    for line in notes:
        step = json.loads(line)
        for partition, begin, end_offset in step.get("copied", ()):
            for offset in range(begin, end_offset):
                steps[partition, offset] = step
    whole = []
    for number, record in enumerate(sent):
        step = steps.get((record.get("partition", -1), record.get("offset", -1)), {})
        record = {**step, **record, "number": number}
        if number in visible:
            record["visible"] = visible[number]
        if all(stage in record for stage in STAGES):
            whole.append(record)
    return whole


def show(records: list[dict[str, Any]], slowest: int) -> None:
    print("| stage | p50 ms | p90 | p99 | largest |\n|---|---|---|---|---|")
    pairs = [*itertools.pairwise(STAGES), ("sent", "visible")]
    for begin, stage in pairs:
        spans = [(record[stage] - record[begin]) * 1000 for record in records]
        shown = " | ".join(f"{value:.1f}" for value in np.percentile(spans, [50, 90, 99, 100]))
        print(f"| {begin} to {stage} | {shown} |")
    cpu = [record["cpu"] * 1000 for record in records]
    shown = " | ".join(f"{value:.1f}" for value in np.percentile(cpu, [50, 90, 99, 100]))
    print(f"| processor time of the step's thread | {shown} |")
    for record in sorted(records, key=lambda record: record["sent"] - record["visible"])[:slowest]:
        spans = [f"{stage} {(record[stage] - record['sent']) * 1000:.1f}" for stage in STAGES[1:]]
        print(f"record {record['number']}: {', '.join(spans)}, processor {record['cpu'] * 1000:.1f} ms")


def measure(rate: float, seconds: float, busy: int, slowest: int) -> None:
    with contextlib.ExitStack() as stack:
        source, target = stack.enter_context(Ottla()), stack.enter_context(Ottla())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fill(source, FILLED)
        notes, log = folder / "notes", stack.enter_context((folder / "log").open("w"))
        command = [
            sys.executable, "-m", "bench.mirror_stages", "--notes", str(notes), "mirror", "--local", "--topics", TOPIC,
            "--from", f"A={source.bootstrap}", "--to", f"B={target.bootstrap}",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
        stack.callback(end, process)
        follow(target, FILLED, process, time.monotonic())
        for _ in range(busy):
            idle = subprocess.Popen([sys.executable, "-c", "while True: pass"], text=True)
            stack.callback(end, idle)
        visible = Visible()
        reader = Reader(target, visible.take)
        reader.start()
        cpu_before = cpu_seconds(process.pid)
        sent = send(source.bootstrap, rate, seconds)
        reader.wait_for(len(sent))
        cpu_s = cpu_seconds(process.pid) - cpu_before
        reader.stop()
        lines = notes.read_text().splitlines()
    records = join(sent, visible.times, lines)
    print(
        f"\n{rate:g} records/s for {seconds:g} s, {busy} busy processes: {len(records)} of {len(sent)} records, "
        f"{len(lines)} steps, the mirror used {cpu_s:.1f} s of the processor"
    )
    show(records, slowest)


def main() -> int:
    if sys.argv[1:2] == ["--notes"]:
        return run_noting(Path(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, nargs="+", default=[200.0], help="records a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--busy", type=int, default=0, help="processes that keep the processors busy")
    parser.add_argument("--slowest", type=int, default=0, help="so many records are shown one by one")
    options = parser.parse_args()
    for rate in options.rate:
        measure(rate, options.seconds, options.busy, options.slowest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
