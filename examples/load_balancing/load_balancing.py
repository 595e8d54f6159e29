"""The course's demo: more consumers share the work, each rebalance is seen, and one too many stands idle.

python load_balancing.py produce --rate 50      # in one terminal, or several
python load_balancing.py consume                # in as many as you like
"""

import argparse
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable

import ottla

TOPIC, GROUP = "load", "load-readers"
Say = Callable[[str], object]


def produce(bootstrap: str, ended: threading.Event, rate: float = 50, keys: int = 100) -> int:
    """Numbered messages under `keys` keys, `rate` a second; how many."""
    with ottla.Producer(bootstrap_servers=bootstrap) as producer:
        for number in itertools.count():
            if ended.wait(1 / rate):
                return number
            producer.send(TOPIC, str(number), key=f"key-{number % keys}")
    return 0


class Reader:
    """One member of the group. `partitions` is what it has now, `counts` what it read from each."""

    def __init__(self, name: str, say: Say = print) -> None:
        self.name, self._say = name, say
        self.partitions: set[int] = set()
        self.counts: Counter[int] = Counter()

    def run(self, bootstrap: str, ended: threading.Event) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "client.id": self.name}
        with ottla.Consumer(settings, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(TOPIC, on_assigned=self._on_assigned, on_revoked=self._on_revoked)
            while not ended.is_set():
                self.counts.update(record.partition for record in consumer.poll(0.1))

    def _on_assigned(self, partitions: frozenset[ottla.TopicPartition]) -> None:
        self.partitions |= {each.partition for each in partitions}
        self._tell("+", partitions)

    def _on_revoked(self, partitions: frozenset[ottla.TopicPartition]) -> None:
        self.partitions -= {each.partition for each in partitions}
        self._tell("-", partitions)

    def _tell(self, sign: str, partitions: frozenset[ottla.TopicPartition]) -> None:
        changed = " ".join(f"{sign}{each.partition}" for each in sorted(partitions))
        now = " ".join(map(str, sorted(self.partitions))) or "nothing: idle"
        self._say(f"{self.name}: {changed or 'no change'}; reads {now}")


def main() -> None:
    parser = argparse.ArgumentParser(description="watch a group share the work")
    parser.add_argument("what", choices=("produce", "consume"))
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--name", default=f"reader-{int(time.time()) % 1000}")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments, ended = parser.parse_args(), threading.Event()
    if arguments.what == "produce":
        produce(arguments.bootstrap, ended, arguments.rate)
        return
    reader = Reader(arguments.name)
    threading.Thread(target=reader.run, args=(arguments.bootstrap, ended), daemon=True).start()
    while True:
        time.sleep(5)
        counts = " ".join(f"{number}:{count}" for number, count in sorted(reader.counts.items()))
        print(f"{reader.name} has read {sum(reader.counts.values())} ({counts})", flush=True)


if __name__ == "__main__":
    main()
