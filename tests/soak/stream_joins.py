"""A stream application killed in every way: counts, windows and joins are exact.

    python -m tests.soak.stream_joins [--kills 50] [--seed N] [--kafka] [--seconds 1800]

The kills are those of tests.soak.pipelines; the application is tests.soak.stream_driver.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Producer

from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.soak import pipelines
from tests.soak.kills import read_all
from tests.soak.pipelines import Load, Report, Story
from tests.soak.stream_driver import CLASSES, COUNTS, JOINED, NAME, PAIRS, WINDOWS, WORDS


def run(
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[[], Ottla | Oracle] = Ottla,
    seconds: float = math.inf,
) -> Report:
    """`kills` of each kind, or as many as the seconds allow."""
    return pipelines.run(kills, seed, say, server, story(), seconds)


def story() -> Story:
    topics = (WORDS, CLASSES, COUNTS, WINDOWS, JOINED, PAIRS)
    return Story(NAME, "tests.soak.stream_driver", WORDS, topics, _judge, _classes)


def _classes(bootstrap: str) -> None:
    """Every word has its class before the first word comes, where Java and we would put it. Their time is before that
    of all words, and not so long ago that retention would delete them."""
    at = int(time.time() * 1000) - 3_600_000
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "partitioner": "murmur2_random"})
    for number in range(300):
        producer.produce(CLASSES, b"%d" % (number % 7), f"w{number}".encode(), timestamp=at)
    assert not producer.flush(60), "the classes were not written"


def _judge(report: Report, bootstrap: str, load: Load) -> None:
    counts = _histories(bootstrap, COUNTS)
    windows = _histories(bootstrap, WINDOWS)
    report.results = sum(map(len, counts.values()))
    sums: Counter[str] = Counter()
    for window, seen in windows.items():
        sums[window.partition("@")[0]] += seen[-1]
    ids = Counter(f"i{number}" for number in range(load.sent.total()))
    _compare(report, "counts", Counter({word: seen[-1] for word, seen in counts.items()}), load.sent)
    _compare(report, "windows", sums, load.sent)
    _compare(report, "joined", Counter(_values(bootstrap, JOINED)), load.sent)
    _compare(report, "pairs", Counter(_values(bootstrap, PAIRS)), ids)
    report.went_back = sum(seen != sorted(set(seen)) for seen in [*counts.values(), *windows.values()])


def _compare(report: Report, what: str, found: Counter[str], sent: Counter[str]) -> None:
    wrong = {each: (found[each], sent[each]) for each in found | sent if found[each] != sent[each]}
    report.wrong += len(wrong)
    if wrong:
        report.failures.append(
            f"{what}: {len(wrong)} wrong, as {dict(list(wrong.items())[:5])} (found, sent)"
        )


def _histories(bootstrap: str, topic: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for value in _values(bootstrap, topic):
        name, count = value.split()
        found.setdefault(name, []).append(int(count))
    return found


def _values(bootstrap: str, topic: str) -> list[str]:
    settings = {"isolation.level": "read_committed"}
    return [
        value.decode()
        for partition in range(3)
        for value in read_all(bootstrap, topic, partition, **settings)
    ]


if __name__ == "__main__":
    sys.exit(pipelines.main(run, __doc__))
