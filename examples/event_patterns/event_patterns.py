"""Complex event processing: patterns over several events of one key, and over events that do not come.

python event_patterns.py          # reads `card-events`, writes `card-alerts`
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ottla

EVENTS, ALERTS = "card-events", "card-alerts"
Event = dict[str, Any]
Test = Callable[[Event, list[Event]], bool]
"""Whether an event is the next step, given the events of the steps before."""


@dataclass(frozen=True)
class Pattern:
    """Steps in this order, with anything in between, all within `within_s` seconds. With `missing`, the alarm is that
    this event did not follow."""

    name: str
    steps: tuple[Test, ...]
    within_s: int
    missing: Test | None = None


def _kind(kind: str) -> Test:
    return lambda event, _: event["kind"] == kind


def _payment(low: float, high: float) -> Test:
    return lambda event, _: event["kind"] == "payment" and low <= event["amount"] < high


def _elsewhere(event: Event, before: list[Event]) -> bool:
    return event["kind"] == "payment" and event["country"] != before[0]["country"]


small, large = _payment(0, 2), _payment(500, float("inf"))
PATTERNS = (
    Pattern("card testing: three small payments, then a large one", (small, small, small, large), 600),
    Pattern("two countries within an hour", (_payment(0, float("inf")), _elsewhere), 3600),
    Pattern("no receipt for a withdrawal", (_kind("withdrawal"),), 120, missing=_kind("receipt")),
)


@dataclass
class Attempt:
    """A pattern that has begun for one key."""

    pattern: Pattern
    seen: list[Event] = field(default_factory=list)

    @property
    def deadline(self) -> float:
        return float(self.seen[0]["at"]) + self.pattern.within_s


class Matcher:
    """Attempts of every key. Time is that of the events: it also ends waiting for what is missing."""

    def __init__(self, patterns: tuple[Pattern, ...] = PATTERNS, attempts_max: int = 1000) -> None:
        self._patterns, self._attempts_max = patterns, attempts_max
        self._attempts: dict[str, list[Attempt]] = {}

    def on_event(self, key: str, event: Event) -> Iterator[tuple[str, str, list[Event]]]:
        """The key, the pattern's name and the events that matched."""
        yield from self._on_time(float(event["at"]))
        attempts = self._attempts.setdefault(key, [])
        attempts += [Attempt(pattern) for pattern in self._patterns]
        for attempt in list(attempts):
            pattern, seen = attempt.pattern, attempt.seen
            if len(seen) == len(pattern.steps):
                if pattern.missing is not None and pattern.missing(event, seen):
                    attempts.remove(attempt)  # it came
            elif pattern.steps[len(seen)](event, seen):
                seen.append(event)
                if len(seen) == len(pattern.steps) and pattern.missing is None:
                    attempts.remove(attempt)
                    yield key, pattern.name, seen
        del attempts[: -self._attempts_max]
        self._attempts[key] = [each for each in attempts if each.seen]

    def _on_time(self, now: float) -> Iterator[tuple[str, str, list[Event]]]:
        for key, attempts in self._attempts.items():
            for attempt in [each for each in attempts if each.deadline < now]:
                attempts.remove(attempt)
                if len(attempt.seen) == len(attempt.pattern.steps):
                    yield key, attempt.pattern.name, attempt.seen


def watch(bootstrap: str, once: bool = False) -> int:
    """For ever, or up to the end of the topic; the number of alerts.

    Alerts and positions are one transaction. State is in memory: a start reads the topic again and stays silent up to
    the committed position, so each alert is written once.
    """
    matcher, count = Matcher(), 0
    with (
        ottla.Producer(bootstrap_servers=bootstrap, transactional_id="card-patterns") as producer,
        ottla.Consumer(
            bootstrap_servers=bootstrap,
            group_id="card-patterns",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        producer.init_transactions()
        places = [ottla.TopicPartition(EVENTS, number) for number in consumer.partitions_for(EVENTS)]
        consumer.assign(places)
        done = {place: found.offset for place, found in consumer.committed(places).items()}
        consumer.seek_to_beginning(places)
        ends = consumer.end_offsets(places)
        while not once or any(consumer.position(place) < end for place, end in ends.items()):
            records = consumer.poll(0.5)
            alerts = []
            for record in records:
                matches = list(matcher.on_event(record.key.decode(), json.loads(record.value)))
                if record.offset >= done.get((record.topic, record.partition), 0):
                    alerts += matches
            if not records:
                continue
            producer.begin_transaction()
            for key, name, events in alerts:
                producer.send(ALERTS, json.dumps({"pattern": name, "events": events}), key=key)
            positions = {place: max(consumer.position(place), done.get(place, 0)) for place in places}
            producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            producer.commit_transaction()
            count += len(alerts)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description="patterns over card events")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    watch(parser.parse_args().bootstrap)


if __name__ == "__main__":
    main()
