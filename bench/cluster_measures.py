"""What is measured of a cluster. Each function gets one that was just started and gives figures of one round."""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench import conditions, load
from bench.cluster_peers import (
    Cluster,
    controller,
    create,
    describe,
    elections,
    give_back,
    move,
    spread,
    until_in_sync,
    written,
)
from bench.cluster_probe import At, Probe
from bench.direct_probe import DirectProbe

PROBED = 12
PROBE_RATE = 2000.0
LOAD_RATE, LOAD_BYTES = 5000.0, 1000
PAIRS = [(1, 2), (2, 1), (2, 3), (3, 2), (3, 1), (1, 3)]
BUSY_PROCESSES = 8
_AFTER_S = 2.0
_DIRECT_PAUSE_S = 0.005


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table. `of` says what is taken of the rounds: the median, the most, or the sum."""

    name: str
    unit: str
    target: str = ""
    of: str = "median"


@dataclass(frozen=True, slots=True)
class Round:
    """`quick` shows that it runs and no more."""

    number: int
    quick: bool

    def seconds(self, wanted: float) -> float:
        return min(wanted, 3.0) if self.quick else wanted

    def records(self, wanted: int) -> int:
        return wanted // 10 if self.quick else wanted


Measured = dict[Figure, float]


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    run: Callable[[Cluster, Round], Measured]
    brokers: int = 3
    rounds: int = conditions.ROUNDS_MIN


# -- a leader goes -----------------------------------------------------------------------------------


def failover_with(partitions: int) -> Callable[[Cluster, Round], Measured]:
    """A broker is stopped cleanly; it comes back; then it is killed. In the first round it is the controller."""
    label = f"{partitions:,} partitions"

    def run(cluster: Cluster, round: Round) -> Measured:
        create(cluster, "t", spread(partitions))
        create(cluster, "pairs", list(PAIRS), min_insync_replicas="1")
        probed = [At("t", index) for index in range(min(partitions, PROBED))]
        pairs = [At("pairs", index) for index in range(len(PAIRS))]
        with Probe(cluster.bootstrap, [probed, *([at] for at in pairs)], PROBE_RATE) as probe:
            time.sleep(_AFTER_S)  # the client warms up
            before = time.monotonic()
            time.sleep(round.seconds(5))
            calm = probe.silence(probed + pairs, before)
            victim = _victim(cluster, round)
            stopped = _without(cluster, victim, signal.SIGTERM, probe)
            _come_back(cluster, victim, probe)
            victim = _victim(cluster, round)
            killed = _without(cluster, victim, signal.SIGKILL, probe)
        cluster.start(victim)
        until_in_sync(cluster, "t", "pairs")
        found = probe.read_back()
        return {
            Figure(f"leader killed, {label}: those it led", "s", "<= 0.4"): killed.led,
            Figure(f"leader killed, {label}: those it led, worst", "s", "<= 0.4", "most"): killed.led,
            Figure(f"leader killed, {label}: led by others", "s", "<= 0.4"): killed.followed,
            Figure(f"leader killed, {label}: not held by it", "s"): killed.not_held,
            Figure(f"leader stopped, {label}: those it led", "s"): stopped.led,
            Figure(f"leader stopped, {label}: led by others", "s"): stopped.followed,
            Figure(f"leader stopped, {label}: not held by it", "s"): stopped.not_held,
            Figure(f"nothing happens, {label}: all", "s"): calm,
            Figure(f"stopped and killed, {label}: client errors", "", "0", "sum"): len(probe.errors),
            Figure(f"stopped and killed, {label}: lost", "records", "0", "sum"): found.lost,
            Figure(f"stopped and killed, {label}: twice", "records", "0", "sum"): found.twice,
        }

    return run


def _victim(cluster: Cluster, round: Round) -> int:
    decides = controller(cluster)
    return decides if round.number == 0 else 1 + decides % 3


@dataclass(frozen=True, slots=True)
class Silences:
    led: float
    followed: float
    not_held: float


def _without(cluster: Cluster, victim: int, number: signal.Signals, probe: Probe) -> Silences:
    """The longest silence of every kind of partition, from the signal until all goes well again."""
    leaders = describe(cluster, "t")
    probed = range(min(len(leaders), PROBED))
    began = time.monotonic()
    cluster.end(victim, number)
    time.sleep(1.5)
    probe.until_flowing()
    time.sleep(_AFTER_S)
    return Silences(
        led=probe.silence([At("t", i) for i in probed if leaders[i].leader == victim], began),
        followed=probe.silence([At("t", i) for i in probed if leaders[i].leader != victim], began),
        not_held=probe.silence([At("pairs", i) for i, pair in enumerate(PAIRS) if victim not in pair], began),
    )


def _come_back(cluster: Cluster, broker_id: int, probe: Probe) -> None:
    cluster.start(broker_id)
    until_in_sync(cluster, "t", "pairs")
    give_back(cluster)
    probe.until_flowing()
    time.sleep(_AFTER_S)


# -- a clean stop, without what clients wait for themselves ----------------------------------------


def stop_with(partitions: int, target: str) -> Callable[[Cluster, Round], Measured]:
    """Every broker is stopped cleanly once. A client that asks the next leader at once sees what brokers cost."""
    label = f"clean stop, {partitions:,} partitions"
    probed = range(min(partitions, PROBED))

    def run(cluster: Cluster, round: Round) -> Measured:
        create(cluster, "t", spread(partitions))
        calm, silences = 0.0, []
        for victim in (1, 2, 3):
            with DirectProbe(cluster.bootstrap, "t", probed, _DIRECT_PAUSE_S) as probe:
                since = time.monotonic()
                time.sleep(round.seconds(5))
                calm = max(calm, *(probe.silence(index, since) for index in probed))
                led = [index for index in probed if describe(cluster, "t")[index].leader == victim]
                began = time.monotonic()
                cluster.end(victim, signal.SIGTERM)
                probe.until_flowing()
                time.sleep(_AFTER_S)
                silences += [probe.silence(index, began) for index in led]
            cluster.start(victim)
            until_in_sync(cluster, "t")
            give_back(cluster)
        return {
            Figure(f"{label}: those it led, direct client", "s", target): statistics.median(silences),
            Figure(f"{label}: those it led, direct client, worst", "s", target, "most"): max(silences),
            Figure(f"{label}: nothing happens, direct client", "s"): calm,
        }

    return run


# -- throughput --------------------------------------------------------------------------------------


def throughput(cluster: Cluster, round: Round) -> Measured:
    partitions, measured = 6, {}
    for size, count, label in ((100, 1_000_000, "100 B"), (1000, 300_000, "1 KB")):
        records = round.records(count)
        for topic, share in ((f"warm-{size}", records // 2), (f"measured-{size}", records)):
            create(cluster, topic, spread(partitions))
            took = load.produce(cluster.bootstrap, topic, share, size, partitions)
            if (there := written(cluster, topic)) != share:
                raise RuntimeError(f"{there} of {share} records are there")
        measured[Figure(f"produce {label}, three replicas", "k msg/s", ">= 1.0")] = records / took / 1000
    return measured


# -- brokers come and go under load ------------------------------------------------------------------


def rolling(cluster: Cluster, round: Round) -> Measured:
    """Every broker is stopped cleanly and started again, one after another."""
    create(cluster, "t", spread(PROBED))
    places = [At("t", index) for index in range(PROBED)]
    with Probe(cluster.bootstrap, [places], LOAD_RATE, LOAD_BYTES) as probe:
        before, began = _calm(round)
        for broker_id in (1, 2, 3):
            cluster.end(broker_id, signal.SIGTERM)
            cluster.start(broker_id)
            until_in_sync(cluster, "t")
        ended = time.monotonic()
        time.sleep(_AFTER_S)
    found = probe.read_back()
    return {
        Figure("rolling restart: client errors", "", "0", "sum"): len(probe.errors),
        Figure("rolling restart: lost", "records", "0", "sum"): found.lost,
        Figure("rolling restart: twice", "records", "0", "sum"): found.twice,
        Figure("rolling restart: throughput before", "msg/s"): probe.throughput(before, began),
        Figure("rolling restart: throughput meanwhile", "msg/s"): probe.throughput(began, ended),
        Figure("rolling restart: its lowest second", "msg/s"): probe.lowest_second(began, ended),
        Figure("rolling restart: longest silence of a partition", "s"): probe.silence(places, began, ended),
        Figure("rolling restart: until all are back in sync", "s"): ended - began,
    }


def joining(cluster: Cluster, round: Round) -> Measured:
    """A fourth broker, that had nothing before, takes its quarter: replicas first, then leaders."""
    cluster.end(4, signal.SIGTERM)
    create(cluster, "t", spread(PROBED))
    create(cluster, "bulk", spread(PROBED))
    load.produce(cluster.bootstrap, "bulk", round.records(600_000), LOAD_BYTES, PROBED)
    places = [At("t", index) for index in range(PROBED)]
    with Probe(cluster.bootstrap, [places], LOAD_RATE, LOAD_BYTES) as probe:
        before, began = _calm(round)
        cluster.start(4)
        for topic in ("t", "bulk"):
            move(cluster, topic, spread(PROBED, brokers=4))
        give_back(cluster)
        until_in_sync(cluster, "t", "bulk")
        ended = time.monotonic()
        time.sleep(round.seconds(5))
        after = time.monotonic()
    led = [each for each in describe(cluster, "t").values() if each.leader == 4]
    if len(led) != PROBED // 4:
        raise RuntimeError(f"the fourth broker leads {len(led)} of {PROBED} partitions")
    found = probe.read_back()
    return {
        Figure("a fourth broker joins: client errors", "", "0", "sum"): len(probe.errors),
        Figure("a fourth broker joins: lost", "records", "0", "sum"): found.lost,
        Figure("a fourth broker joins: twice", "records", "0", "sum"): found.twice,
        Figure("a fourth broker joins: throughput before", "msg/s"): probe.throughput(before, began),
        Figure("a fourth broker joins: throughput meanwhile", "msg/s"): probe.throughput(began, ended),
        Figure("a fourth broker joins: its lowest second", "msg/s"): probe.lowest_second(began, ended),
        Figure("a fourth broker joins: throughput after", "msg/s"): probe.throughput(ended, after),
        Figure("a fourth broker joins: longest silence of a partition", "s"): probe.silence(
            places, began, ended
        ),
        Figure("a fourth broker joins: until it has its quarter", "s"): ended - began,
    }


def _calm(round: Round) -> tuple[float, float]:
    time.sleep(_AFTER_S)
    began = time.monotonic()
    time.sleep(round.seconds(5))
    return began, time.monotonic()


# -- nothing goes, and nobody may believe so ---------------------------------------------------------


def false_alarms(cluster: Cluster, round: Round) -> Measured:
    create(cluster, "t", spread(PROBED))
    places = [At("t", index) for index in range(PROBED)]
    lost, elected = cluster.sessions_lost(), elections(cluster, "t")
    with Probe(cluster.bootstrap, [places], PROBE_RATE) as probe:
        began = time.monotonic()
        with _busy(BUSY_PROCESSES):
            time.sleep(round.seconds(60))
        silence = probe.silence(places, began)
    label = f"{BUSY_PROCESSES} busy processes for 60 s"
    return {
        Figure(f"{label}: sessions lost", "", "0", "sum"): cluster.sessions_lost() - lost,
        Figure(f"{label}: needless elections", "", "0", "sum"): elections(cluster, "t") - elected,
        Figure(f"{label}: longest silence of a partition", "s"): silence,
    }


@contextmanager
def _busy(count: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


MEASURES = (
    Measure("failover", failover_with(10)),
    Measure("stop", stop_with(10, "<= 0.05")),
    Measure("stop-1000", stop_with(1000, "<= 0.5")),
    Measure("throughput", throughput),
    Measure("failover-1000", failover_with(1000)),
    Measure("rolling", rolling),
    Measure("joining", joining, brokers=4),
    Measure("alarms", false_alarms),
)
