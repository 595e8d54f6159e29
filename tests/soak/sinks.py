"""Sinks killed in every way: at the end each holds exactly what its topic holds.

    python -m tests.soak.sinks [--records 300000] [--kills 30] [--seed N] [--runner process] [--bug skip]

A producer writes two topics: `changes` has rows by key and tombstones, `visits` has rows only. One worker of Connect
runs a sink of every kind that can be had here: tables are upserted and deleted from `changes`, everything else is
appended from `visits`. Worker, broker and databases get SIGKILL at random moments, the worker also between the commits
of a step at the sink and to the group. Then the topics are read, and each sink's rows are compared with them: a lost, a
double or an old row shows. `--bug` plants one (`tests.soak.dying_worker`): the run must not be clean then.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ottla
from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from tests.connect.databases import MariaDb, Postgres, why_no_mariadb, why_no_postgres
from tests.oracle.ottla import Ottla
from tests.soak.connect_worker import Worker
from tests.soak.sink_targets import CHANGES, VISITS, Row, Target, targets

PARTITIONS = 3
PATIENCE_S = 180.0  # for a sink whose rows do not become more equal
_CHANGES_A_KEY = 2  # few: a change that was left out must not be hidden by the next one of its key
_WRITE = 500
_BETWEEN_S = 30.0  # for a step of the sink that is to die in it
Say = Callable[[str], None]


@dataclass(slots=True)
class Report:
    records: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    sinks: list[str] = field(default_factory=list)
    wrong_rows: dict[str, int] = field(default_factory=dict)
    seconds_behind: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return bool(self.sinks) and self.records > 0 and not (self.wrong_rows or self.failures)


# -- what is written, and what the topics hold ---------------------------------------------------------

_VALUE = {
    "type": "struct",
    "fields": [{"field": "id", "type": "string"}, {"field": "n", "type": "int64"}],
}


def _value(key: str, number: int) -> bytes:
    return json.dumps({"schema": _VALUE, "payload": {"id": key, "n": number}}).encode()


def _key(key: str) -> bytes:
    return json.dumps({"schema": {"type": "string"}, "payload": key}).encode()


def produce(bootstrap: str, count: int, chance: random.Random, report: Report) -> None:
    with ottla.Producer(
        bootstrap_servers=bootstrap, delivery_timeout_ms=300_000, max_block_ms=120_000, retry_backoff_ms=20,
        reconnect_backoff_ms=20, reconnect_backoff_max_ms=200,
    ) as producer:  # fmt: skip
        keys = max(1, count // _CHANGES_A_KEY)
        for number in range(count):
            key = f"K{chance.randrange(keys):06}"
            producer.send(VISITS, _value(key, number), key=_key(key))
            is_deleted = chance.random() < 0.1
            producer.send(CHANGES, None if is_deleted else _value(key, number), key=_key(key))
            if number % _WRITE == _WRITE - 1:
                producer.flush()
                report.records = 2 * (number + 1)


def truth(bootstrap: str, topic: str) -> Counter[Row]:
    """All rows of a topic of rows; the last one of each key of the changes."""
    consumer = ottla.Consumer(
        bootstrap_servers=bootstrap, group_id=f"audit-{random.randrange(10**9)}", auto_offset_reset="earliest"
    )
    last: dict[str, Row | None] = {}
    rows: Counter[Row] = Counter()
    with consumer:
        consumer.subscribe([topic])
        while records := consumer.poll(5.0):
            for record in records:
                key = json.loads(record.key)["payload"]
                row = json.loads(record.value)["payload"] if record.value else None
                last[key] = row and (row["id"], row["n"])
                if row:
                    rows[row["id"], row["n"]] += 1
    return rows if topic == VISITS else Counter(row for row in last.values() if row)


# -- the run -------------------------------------------------------------------------------------------


def run(
    records: int,
    kills: int,
    seed: int,
    say: Say = lambda _: None,
    runner: str = "process",
    bug: str = "none",
) -> Report:
    report = Report()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Ottla())
        postgres = None if why_no_postgres() else stack.enter_context(Postgres())
        mariadb = None if why_no_mariadb() else stack.enter_context(MariaDb())
        sinks = targets(folder, postgres, mariadb, runner)
        report.sinks = sorted(sinks)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (CHANGES, VISITS)])
        connectors = {name: dict(sink.config) for name, sink in sinks.items()}
        # Spark runs the steps in processes of its own.
        worker = Worker(
            folder, broker.bootstrap, connectors, runner, bug=bug if runner == "process" else None
        )
        worker.start()
        parts = {"worker": worker, "broker": broker, "PostgreSQL": postgres, "MariaDB": mariadb}
        try:
            _write_and_kill(
                records,
                kills,
                seed,
                broker.bootstrap,
                worker,
                parts,
                report,
                say,
                between=runner == "process",
            )
            _compare(sinks, broker.bootstrap, worker, report, say)
        finally:
            if not report.is_clean:
                report.failures.append(f"connectors: {worker.states()}")
                report.failures.append(worker.log.read_text(errors="replace")[-3000:])
            worker.kill()
    return report


def _write_and_kill(
    records: int, kills: int, seed: int, bootstrap: str, worker: Worker, parts: Mapping[str, Any], report: Report,
    say: Say, *, between: bool,
) -> None:  # fmt: skip
    """Kills are spread over the work of the sinks: one that has nothing to do, or is just starting, is not harmed.
    `between`: every second kill of the worker falls between the commits of a step, the first one too."""
    chance, there = random.Random(seed + 1), [name for name, part in parts.items() if part is not None]
    failed: list[BaseException] = []

    def write() -> None:
        try:
            produce(bootstrap, records // 2, random.Random(seed), report)
        except BaseException as error:
            failed.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    for i in range(kills):
        wanted = records // 2 * len(report.sinks) * (i + chance.random()) / kills
        written = _until_written(wanted, report.sinks, bootstrap, worker)
        name = moment = there[i % len(there)]
        working = [sink for sink, count in written.items() if count < records // 2]
        if between and name == "worker" and i // len(there) % 2 == 0 and working:
            if worker.kill_between(chance.choice(working), _BETWEEN_S):
                moment = "worker between commits"
        else:
            parts[name].kill()
        time.sleep(chance.random())
        parts[name].start()
        report.kills[moment] = report.kills.get(moment, 0) + 1
        say(f"killed the {moment} when the sinks had written {wanted:.0f} records")
    writing.join()
    if failed:
        raise failed[0]
    worker.revive()


def _until_written(wanted: float, sinks: Sequence[str], bootstrap: str, worker: Worker) -> dict[str, int]:
    """So many records by all sinks together, or nothing more comes; the records of each."""
    written, deadline = -1, 0.0
    with Admin(bootstrap_servers=bootstrap) as admin:
        while True:
            worker.revive()
            groups = {name: admin.group_offsets(f"connect-{name}") for name in sinks}
            counts = {name: sum(told.offset for told in group.values()) for name, group in groups.items()}
            now = sum(counts.values())
            if now != written:
                written, deadline = now, time.monotonic() + PATIENCE_S
            if now >= wanted or time.monotonic() > deadline:
                return counts
            time.sleep(0.02)


def _compare(sinks: Mapping[str, Target], bootstrap: str, worker: Worker, report: Report, say: Say) -> None:
    """Until all are equal; a sink that is stuck does not become more equal. DuckDB's file opens without the worker."""
    expected = {topic: truth(bootstrap, topic) for topic in (CHANGES, VISITS)}
    say(f"{expected[VISITS].total()} rows were appended, {expected[CHANGES].total()} keys are left")
    begun = time.monotonic()
    open_while_running = {name: sink for name, sink in sinks.items() if name != "duckdb"}
    wrong = _until_equal(open_while_running, expected, begun + PATIENCE_S, say)
    report.seconds_behind = round(time.monotonic() - begun, 1)
    if "duckdb" in sinks:
        _until_committed("connect-duckdb", bootstrap)
        worker.kill()
        wrong |= _until_equal({"duckdb": sinks["duckdb"]}, expected, time.monotonic() + 10, say)
    report.wrong_rows = wrong


def _until_equal(
    sinks: Mapping[str, Target], expected: Mapping[str, Counter[Row]], deadline: float, say: Say
) -> dict[str, int]:
    wrong: dict[str, int] = {}
    while True:
        now = {name: _different(sink, expected[sink.topic]) for name, sink in sinks.items()}
        if now != wrong:
            wrong, deadline = now, max(deadline, time.monotonic() + PATIENCE_S / 3)
            say(f"rows that are missing or too many: {wrong}")
        if not any(wrong.values()) or time.monotonic() > deadline:
            return {name: count for name, count in wrong.items() if count}
        time.sleep(1)


def _different(sink: Target, expected: Counter[Row]) -> int:
    try:
        rows = sink.rows()
    except Exception:  # no table yet, or a file that is just being replaced
        return expected.total()
    return (rows - expected).total() + (expected - rows).total()


def _until_committed(group: str, bootstrap: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with Admin(bootstrap_servers=bootstrap) as admin:
        while time.monotonic() < deadline:
            committed = admin.group_offsets(group)
            ends = admin.list_offsets(dict.fromkeys(committed, -1))
            if committed and all(ends[where].offset <= told.offset for where, told in committed.items()):
                return
            time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=("process", "spark"), default="process")
    parser.add_argument("--bug", default="none", help="of tests.soak.dying_worker: repeat or skip")
    options = parser.parse_args()
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s: {line}", flush=True)

    report = run(options.records, options.kills, options.seed, say, options.runner, options.bug)
    print(report)
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
