"""Numbers of many machines go through a topic; rules over them raise alerts and take them back.

python operational_metrics.py agent   # this machine's load, once a second
python operational_metrics.py watch   # prints alerts, and writes them to a topic
"""

import argparse
import json
import os
import socket
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import ottla

METRICS, ALERTS, MINUTES = "metrics", "alerts", "metrics-by-minute"


@dataclass(frozen=True)
class Rule:
    """`metric` above `limit` for `hold_s` seconds without a break."""

    metric: str
    limit: float
    hold_s: int


RULES = (Rule("load", 4.0, 10), Rule("disk_used", 0.9, 60))
SILENT_S = 30


class Watch:
    """Takes samples in the order of time, gives alerts. Time is the samples' own, so a replay gives the same alerts."""

    def __init__(self, rules: tuple[Rule, ...] = RULES, silent_s: int = SILENT_S) -> None:
        self._rules, self._silent_s = rules, silent_s
        self._above_since: dict[tuple[str, Rule], float] = {}
        self._firing: set[tuple[str, object]] = set()
        self._last_seen: dict[str, float] = {}
        self._now = 0.0
        self._minutes: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._minute = 0

    def on_sample(self, host: str, metric: str, value: float, at: float) -> Iterator[str]:
        self._now = max(self._now, at)
        self._last_seen[host] = at
        yield from self._set(host, "silent", False, f"{host} is back")
        for rule in (each for each in self._rules if each.metric == metric):
            if value <= rule.limit:
                self._above_since.pop((host, rule), None)
                yield from self._set(host, rule, False, f"{host}: {metric} is fine again ({value:g})")
            elif at - self._above_since.setdefault((host, rule), at) >= rule.hold_s:
                text = f"{host}: {metric} above {rule.limit:g} for {rule.hold_s} s ({value:g})"
                yield from self._set(host, rule, True, text)
        for (
            silent,
            last,
        ) in self._last_seen.items():  # a dead machine sends nothing, so the others' time tells
            if self._now - last > self._silent_s:
                yield from self._set(silent, "silent", True, f"{silent} is silent")

    def _set(self, host: str, what: object, firing: bool, text: str) -> Iterator[str]:
        """Only changes are told."""
        if firing != ((host, what) in self._firing):
            self._firing ^= {(host, what)}
            yield f"{'ALERT' if firing else 'OK'} {text}"

    def closed_minutes(
        self, host: str, metric: str, value: float, at: float
    ) -> Iterator[tuple[str, dict[str, float]]]:
        """Means and maxima of a minute once the next one begins: small enough to keep for ever."""
        minute = int(at // 60)
        if minute > self._minute:
            for (name, kind), values in self._minutes.items():
                mean = sum(values) / len(values)
                yield f"{name}/{kind}", {"minute": self._minute, "mean": mean, "max": max(values)}
            self._minutes.clear()
            self._minute = minute
        self._minutes[host, metric].append(value)


def watch(bootstrap: str, watching: Watch, once: bool = False) -> Iterator[str]:
    """Alerts, for ever or up to the end of the topic. Each is in its topic before it is given out."""
    with (
        ottla.Producer(bootstrap_servers=bootstrap) as producer,
        ottla.Consumer(
            bootstrap_servers=bootstrap, group_id="watch", auto_offset_reset="earliest"
        ) as consumer,
    ):
        consumer.subscribe(METRICS)
        while not (once and _is_at_end(consumer)):
            for record in sorted(consumer.poll(1), key=lambda each: each.timestamp):  # several partitions
                sample = json.loads(record.value)
                host, at = record.key.decode(), record.timestamp / 1000
                for metric, value in sample.items():
                    for key, row in watching.closed_minutes(host, metric, value, at):
                        producer.send(MINUTES, json.dumps(row), key=key)
                    for text in watching.on_sample(host, metric, value, at):
                        producer.send(ALERTS, text, key=host).result(30)
                        yield text


def _is_at_end(consumer: ottla.Consumer) -> bool:
    ends = consumer.end_offsets()  # of the partitions that the group gave us
    return bool(ends) and all(consumer.position(place) >= end for place, end in ends.items())


def sample() -> dict[str, float]:
    disk = os.statvfs("/")
    return {"load": os.getloadavg()[0], "disk_used": 1 - disk.f_bavail / disk.f_blocks}


def main() -> None:
    parser = argparse.ArgumentParser(description="operational metrics with alerts")
    parser.add_argument("what", choices=("agent", "watch"))
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments = parser.parse_args()
    if arguments.what == "watch":
        for text in watch(arguments.bootstrap, Watch()):
            print(text, flush=True)
    with ottla.Producer(bootstrap_servers=arguments.bootstrap) as producer:
        while True:
            producer.send(METRICS, json.dumps(sample()), key=socket.gethostname())
            time.sleep(1)


if __name__ == "__main__":
    main()
