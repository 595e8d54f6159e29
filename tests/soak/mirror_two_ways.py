"""Two links with prefixed names, there and back, for minutes: no record goes round, none is lost.

    python -m tests.soak.mirror_two_ways [--seconds 600] [--seed N]

Both brokers are written to all the time; the mirror's process is killed now and then.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ottla.client import Admin, Producer
from ottla.mirror.link import Link
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic
from tests.soak.mirror import PARTITIONS, TOPIC, _drain, _everything
from tests.soak.processes import descendants, kill

_RATE = 400  # records a second to each side
_KILL_EVERY_S = 60.0
_FILE = """clusters = A, B
A.bootstrap.servers = {a}
B.bootstrap.servers = {b}
A->B.enabled = true
B->A.enabled = true
topics = .*
"""


@dataclass(slots=True)
class Report:
    route: str = "A->B and B->A"
    seconds: float = 0
    kills: int = 0
    records: int = 0
    wrong_partitions: int = 0
    topics: list[str] = field(default_factory=list)
    circles: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.wrong_partitions or self.circles or self.failures) and self.records > 0


class Mirror:
    """`ottla mirror` with both links in one process."""

    def __init__(self, file: Path) -> None:
        command = [str(Path(sys.executable).with_name("ottla")), "mirror", "--config", str(file), "--local"]
        self.log = file.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            kill(pid)
        self.process.wait()

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


class Load(threading.Thread):
    def __init__(self, name: str, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._side, self._address = name.encode(), bootstrap
        self.over = threading.Event()

    def run(self) -> None:
        number = 0
        with Producer(bootstrap_servers=self._address) as producer:
            while not self.over.wait(0.05):
                for _ in range(_RATE // 20):
                    producer.send(TOPIC, b"%s-%d" % (self._side, number), partition=number % PARTITIONS)
                    number += 1


def run(seconds: float, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    chance, report, begun = random.Random(seed), Report(), time.monotonic()
    with Ottla() as a, Ottla() as b, tempfile.TemporaryDirectory(prefix="ottla-two-ways-") as folder:
        sides = {"A": a.bootstrap, "B": b.bootstrap}
        file = Path(folder) / "mm2.properties"
        file.write_text(_FILE.format(a=a.bootstrap, b=b.bootstrap))
        for bootstrap in sides.values():
            make_topic(bootstrap, TOPIC, PARTITIONS)
        loads = [Load(name, bootstrap) for name, bootstrap in sides.items()]
        for load in loads:
            load.start()
        mirror = Mirror(file)
        try:
            while time.monotonic() - begun < seconds:
                time.sleep(min(_KILL_EVERY_S, seconds / 4) * chance.uniform(0.5, 1))
                mirror.kill()
                mirror = Mirror(file)
                report.kills += 1
                say(f"mirror killed {report.kills} times, {time.monotonic() - begun:.0f} s")
            for load in loads:
                load.over.set()
                load.join()
            clients = {name: {"bootstrap.servers": bootstrap} for name, bootstrap in sides.items()}
            for here, there in (("A", "B"), ("B", "A")):
                _drain(Link(here, there, clients[here], clients[there]), mirror)  # type: ignore[arg-type]
                _judge(report, sides, here, there)
        except RuntimeError as error:
            report.failures.append(f"{error}; the mirror's log ends with {mirror.tail()}")
        finally:
            mirror.kill()
    report.seconds = round(time.monotonic() - begun, 1)
    return report


def _judge(report: Report, sides: dict[str, str], here: str, there: str) -> None:
    for partition in range(PARTITIONS):
        columns = ["key", "value", "timestamp", "headers"]
        sent = _everything(sides[here], TOPIC, partition).select(columns).combine_chunks()
        copied = _everything(sides[there], f"{here}.{TOPIC}", partition).select(columns).combine_chunks()
        report.records += copied.num_rows
        report.wrong_partitions += not sent.equals(copied)
    with Admin(bootstrap_servers=sides[there]) as admin:
        names = sorted(admin.list_topics())
    report.topics = sorted({*report.topics, *(name for name in names if not name.startswith("_"))})
    # A name with both prefixes is a record that has come home.
    report.circles += [name for name in names if name.startswith(("A.B.", "B.A.", f"{there}."))]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    report = run(options.seconds, options.seed, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps({"clean": report.is_clean, **{n: getattr(report, n) for n in report.__slots__}}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
