"""A mirror killed in every way: the copy equals its source record for record, and groups go on at the right one.

    python -m tests.soak.mirror [--records 1000000] [--kills 20] [--seed N] [--route ottla-kafka] [--exact] [--spark]

Producers, one of them with transactions of which some are aborted, write to the source. The mirror's process, both
brokers and the connections to both are killed and cut at random moments. All connections go through a proxy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client import Admin, Producer
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.producer import ColumnarProducer
from ottla.client.columnar.ranges import Range
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror.link import Link
from ottla.mirror.status import status
from tests.cluster.proxy import Proxies
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic
from tests.soak.processes import descendants, kill

TOPIC, COPY, PARTITIONS = "in", "A.in", 4
ROUTES = (("ottla", "ottla"), ("kafka", "ottla"), ("ottla", "kafka"))
_STUCK_S = 400
_KINDS = ("driver", "source", "target", "cut source", "cut target")


@dataclass(slots=True)
class Report:
    route: str = ""
    mode: str = "compatible"
    kills: dict[str, int] = field(default_factory=dict)
    records: int = 0
    wrong_partitions: int = 0
    positions: int = 0
    wrong_positions: int = 0
    seconds: float = 0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.wrong_partitions or self.wrong_positions or self.failures) and self.records > 0


class Side:
    """A broker behind a proxy: clients know no other way to it."""

    def __init__(self, kind: str, proxies: Proxies) -> None:
        made: Any = Ottla() if kind == "ottla" else Oracle(heap="512M")
        self.proxy = proxies.add(made.port)
        listener = "PLAINTEXT" if kind == "ottla" else "CLIENT"
        address = f"{listener}://127.0.0.1:{self.proxy.port}"
        if kind == "ottla":
            made._settings["advertised.listeners"] = address
        else:
            made._options += ["--set", f"advertised.listeners={address}"]
        self.broker = made
        self.bootstrap = f"127.0.0.1:{self.proxy.port}"

    def strike(self, chance: random.Random) -> None:
        self.broker.kill()
        time.sleep(chance.uniform(0, 0.5))
        self.broker.restart()

    def cut(self, chance: random.Random) -> None:
        self.proxy.cut()
        time.sleep(chance.uniform(0.2, 4))
        self.proxy.heal()


class Load(threading.Thread):
    """Plain records quickly, and transactions, until so many are written."""

    def __init__(self, bootstrap: str, records: int, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._address, self._chance, self._records = bootstrap, random.Random(seed), records
        self.over = threading.Event()  # enough was struck: the rest may come at once
        self._chunk = max(50, records // max(1, 20 * kills))
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.error = error

    def _run(self) -> None:
        settings = {
            "bootstrap.servers": self._address,
            "delivery.timeout.ms": 300_000,
            "compression.type": "lz4",
        }
        written = 0
        with ColumnarProducer(settings) as plain:
            while written < self._records or not self.over.is_set():
                count = min(self._chunk, max(50, self._records - written))  # a trickle until the last blow
                plain.write(_rows(written, count, self._chance), TOPIC)
                with contextlib.suppress(OttlaError):
                    self._transaction(written)
                plain.flush()
                written += count
                if not self.over.is_set():
                    time.sleep(0.2)

    def _transaction(self, number: int) -> None:
        """It may fail with the broker: what was not committed must not cross."""
        settings = {
            "bootstrap.servers": self._address,
            "transactional.id": "load",
            "delivery.timeout.ms": 300_000,
        }
        producer = Producer(settings)
        try:
            producer.init_transactions()
            producer.begin_transaction()
            for i in range(self._chance.randint(1, 30)):
                producer.send(
                    TOPIC, b"t%d-%d" % (number, i), b"k", partition=i % PARTITIONS, headers=[("h", b"v")]
                )
            producer.commit_transaction() if self._chance.random() < 0.7 else producer.abort_transaction()
        finally:
            producer.close(0)


def _rows(first: int, count: int, chance: random.Random) -> pa.RecordBatch:
    numbers = np.arange(first, first + count)
    values = pa.array([b"%012d" % number + b"x" * chance.randint(60, 120) for number in numbers], pa.binary())
    partitions = pa.array((numbers % PARTITIONS).astype(np.int32))
    return pa.RecordBatch.from_arrays([values, partitions], names=["value", "partition"])


class Mirror:
    """`ottla mirror` as a process."""

    def __init__(self, link: Link, folder: Path, *, spark: bool) -> None:
        command = [
            str(Path(sys.executable).with_name("ottla")), "mirror",
            "--from", f"A={link.source_client['bootstrap.servers']}",
            "--to", f"B={link.target_client['bootstrap.servers']}",
            "--topics", TOPIC, "-X", f"mode={link.mode}", *([] if spark else ["--local"]),
        ]  # fmt: skip
        self.log = folder / "mirror.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            kill(pid)
        self.process.wait()

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


def run(
    records: int,
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    route: tuple[str, str] = ("ottla", "ottla"),
    *,
    mode: str = "compatible",
    spark: bool = False,
) -> Report:
    """`kills` in all, evenly of each kind."""
    begun, chance, report = time.monotonic(), random.Random(seed), Report("->".join(route), mode)
    folder = Path(tempfile.mkdtemp(prefix="ottla-mirror-soak-"))
    proxies = Proxies()
    with contextlib.ExitStack() as stack:
        stack.callback(proxies.close)
        source, target = (Side(kind, proxies) for kind in route)
        stack.enter_context(source.broker)
        stack.enter_context(target.broker)
        client = {"default.api.timeout.ms": 120_000}
        link = Link(
            "A", "B",
            {"bootstrap.servers": source.bootstrap, **client},
            {"bootstrap.servers": target.bootstrap, **client},
            mode=mode,
        )  # fmt: skip
        make_topic(source.bootstrap, TOPIC, PARTITIONS)
        load = Load(source.bootstrap, records, kills, seed)
        load.start()
        mirror = Mirror(link, folder, spark=spark)
        try:
            for kind in _order(kills, chance):
                _wait_for_progress(link, mirror)
                time.sleep(chance.uniform(0, 0.7))
                if kind == "driver":
                    mirror.kill()
                    mirror = Mirror(link, folder, spark=spark)
                else:
                    side = source if kind.endswith("source") else target
                    side.cut(chance) if kind.startswith("cut") else side.strike(chance)
                report.kills[kind] = report.kills.get(kind, 0) + 1
                say(f"{kind} {report.kills[kind]}")
            load.over.set()
            load.join()
            if load.error is not None:
                raise RuntimeError(f"the load failed: {load.error}")
            _drain(link, mirror)
            groups = _commit_somewhere(source.bootstrap, chance)
            _judge(report, source.bootstrap, target.bootstrap)
            _judge_groups(report, link, groups, mirror)
        except (RuntimeError, OttlaError) as error:
            report.failures.append(
                f"{type(error).__name__}: {error}; the mirror's log ends with {mirror.tail()}"
            )
        finally:
            mirror.kill()
    report.seconds = round(time.monotonic() - begun, 1)
    if report.is_clean:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _order(kills: int, chance: random.Random) -> list[str]:
    order = [_KINDS[i % len(_KINDS)] for i in range(kills)]
    chance.shuffle(order)
    return order


def _seen(link: Link) -> Any:
    with contextlib.suppress(OttlaError):
        return status(link, timeout_ms=5_000)
    return None


def _wait_for_progress(link: Link, mirror: Mirror) -> None:
    """Something new was copied since the last blow."""
    before = _copied(link)
    _until(mirror, lambda: _copied(link) > before)


def _copied(link: Link) -> int:
    seen = _seen(link)
    return 0 if seen is None else sum(each.position.source for each in seen.partitions)


def _drain(link: Link, mirror: Mirror) -> None:
    _until(mirror, lambda: (seen := _seen(link)) is not None and seen.lag == 0)


def _until(mirror: Mirror, check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _STUCK_S
    while not check():
        if mirror.process.poll() is not None:
            raise RuntimeError(f"the mirror ended with {mirror.process.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeError("the mirror is stuck")
        time.sleep(0.1)


def _everything(bootstrap: str, topic: str, partition: int) -> pa.Table:
    where = TopicPartition(topic, partition)
    with Admin(bootstrap_servers=bootstrap) as admin:
        begin = admin.list_offsets({where: -2})[where].offset
        end = admin.list_offsets({where: -1}, committed_only=True)[where].offset
    with ColumnarReader(bootstrap_servers=bootstrap) as reader:
        return pa.Table.from_batches(list(reader.read([Range(*where, begin, end)], headers=True)))


def _judge(report: Report, source: str, target: str) -> None:
    for partition in range(PARTITIONS):
        columns = ["key", "value", "timestamp", "headers"]
        if report.mode == "exact":
            columns.append("offset")
        here = _everything(source, TOPIC, partition).select(columns).combine_chunks()
        there = _everything(target, COPY, partition).select(columns).combine_chunks()
        report.records += there.num_rows
        report.wrong_partitions += not here.equals(there)


def _commit_somewhere(bootstrap: str, chance: random.Random) -> dict[str, dict[TopicPartition, int]]:
    """Groups that have read to random places."""
    found: dict[str, dict[TopicPartition, int]] = {}
    with Admin(bootstrap_servers=bootstrap) as admin:
        wheres = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        ends = admin.list_offsets(dict.fromkeys(wheres, -1), committed_only=True)
        for number in range(20):
            offsets = {where: chance.randint(0, ends[where].offset) for where in wheres}
            admin.alter_group_offsets(f"g{number}", {w: OffsetAndMetadata(at) for w, at in offsets.items()})
            found[f"g{number}"] = offsets
    return found


def _judge_groups(
    report: Report, link: Link, groups: dict[str, dict[TopicPartition, int]], mirror: Mirror
) -> None:
    """The number of records that are left to read is the same on both sides."""
    source, target = link.source_client["bootstrap.servers"], link.target_client["bootstrap.servers"]
    deadline = time.monotonic() + _STUCK_S
    with Admin(bootstrap_servers=target) as admin:
        while any(len(admin.group_offsets(group)) < PARTITIONS for group in groups):
            if time.monotonic() > deadline or mirror.process.poll() is not None:
                raise RuntimeError("positions of groups do not arrive")
            time.sleep(0.2)
        translated = {group: admin.group_offsets(group) for group in groups}
    for partition in range(PARTITIONS):
        here = _everything(source, TOPIC, partition)["offset"].to_numpy()
        there = _everything(target, COPY, partition)["offset"].to_numpy()
        for group, offsets in groups.items():
            at = np.searchsorted(here, offsets[TopicPartition(TOPIC, partition)])
            copied = np.searchsorted(there, translated[group][TopicPartition(COPY, partition)].offset)
            report.positions += 1
            report.wrong_positions += int(at != copied)


def every(records: int, kills: int, seed: int, say: Callable[[str], None]) -> Iterator[Report]:
    """All routes share the records and the kills."""
    for number, route in enumerate(ROUTES):
        yield run(records // 4, kills // 4, seed + number, say, route)
    yield run(records // 4, kills - 3 * (kills // 4), seed + 3, say, mode="exact")
    yield run(records // 100, 5, seed + 4, say, spark=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--route", choices=["-".join(route) for route in ROUTES], default="ottla-ottla")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--spark", action="store_true")
    options = parser.parse_args()
    source, target = options.route.split("-")
    mode = "exact" if options.exact else "compatible"
    say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    report = run(
        options.records, options.kills, options.seed, say, (source, target), mode=mode, spark=options.spark
    )
    print(
        json.dumps(
            {
                "seed": options.seed,
                "clean": report.is_clean,
                **{n: getattr(report, n) for n in report.__slots__},
            }
        )
    )
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
