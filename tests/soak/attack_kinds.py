"""What each kind of attack alone does to a healthy client, and what a busy process in its place does.

    python -m tests.soak.attack_kinds [--seconds 8] [--brokers 3] [--nice 10] [--only KIND ...]

Prints a line for each: the healthy client's latency, and how many cores the attackers and the brokers used.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time

from tests.soak.attacks import Attacker
from tests.soak.fuzz import NICE, Report, Siege, Target, p99, prepare, started
from tests.soak.healthy import Healthy

QUIET, BUSY = "quiet", "busy"


def measure(target: Target, healthy: Healthy, kind: str, seconds: float, nice: int) -> str:
    report = Report()
    healthy.latencies_ms()
    used_before, begun = target.cpu_seconds(), time.monotonic()
    if kind == QUIET:
        time.sleep(seconds)
        used = 0.0
    elif kind == BUSY:
        used = _burnt(seconds, nice)
    else:
        used = _attacked(target, healthy, kind, report, seconds, nice)
    times_ms, took = healthy.latencies_ms(), time.monotonic() - begun
    return (
        f"{kind:26} {report.attacks:6} attacks, p50 {times_ms[len(times_ms) // 2]:6.2f}, p99 {p99(times_ms):7.2f}, "
        f"longest {times_ms[-1]:7.2f} ms; cores: attackers {used / took:4.2f}, "
        f"brokers {(target.cpu_seconds() - used_before) / took:4.2f}; {target.memory_mb()} MB"
    )


def _attacked(
    target: Target, healthy: Healthy, kind: str, report: Report, seconds: float, nice: int
) -> float:
    chance = random.Random(1)
    attackers = [Attacker(each, chance, kind) for each in target.bootstraps]
    siege = Siege(attackers, target, healthy, report, time.monotonic() + seconds, lambda _: None, nice)
    siege.start()
    siege.join()
    for attacker in attackers:
        attacker.close()
    return siege.cpu_seconds


def _burnt(seconds: float, nice: int) -> float:
    """A process keeps a core busy as far as it is let; how much it computed."""
    begin = f"import os, time; os.nice({nice}); end = time.monotonic() + {seconds}"
    busy = f"{begin}\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", busy], check=True, capture_output=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--nice", type=int, default=NICE, help=f"the priority of attackers ({NICE})")
    parser.add_argument("--only", nargs="*", metavar="KIND")
    options = parser.parse_args()
    with started(options.brokers) as target:
        prepare(target, options.brokers)
        kinds = options.only or Attacker(target.bootstraps[0], random.Random(1)).kinds
        with Healthy(target.bootstrap) as healthy:
            time.sleep(3)
            for kind in (QUIET, BUSY, *kinds, QUIET):
                print(measure(target, healthy, kind, options.seconds, options.nice), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
