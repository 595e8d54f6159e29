"""Log files of several services become one topic, and the topic becomes a full-text index.

python log_aggregation.py ship  LOG_FOLDER        # again and again: only new lines are sent
python log_aggregation.py index INDEX.sqlite
python log_aggregation.py search INDEX.sqlite "timeout AND checkout"
"""

import argparse
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import ottla

TOPIC = "service-logs"


def ship(folder: Path, bootstrap: str) -> int:
    """Sends what the topic does not have yet; the number of lines. A file is `<service>.log`."""
    positions = shipped(bootstrap)
    count = 0
    with ottla.Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for path in sorted(folder.glob("*.log")):
            for end, line in _new_lines(path, positions.get(path.name, 0)):
                # The key keeps the lines of a service in order; the position says where to go on after a crash.
                event = json.dumps({"line": line, "file": path.name, "position": end})
                producer.send(TOPIC, event, key=path.stem)
                count += 1
        producer.flush()
    return count


def shipped(bootstrap: str) -> dict[str, int]:
    """How far each file is in the topic: the topic itself is the shipper's memory."""
    positions: dict[str, int] = {}
    for record in _all_records(bootstrap):
        event = json.loads(record.value)
        positions[event["file"]] = max(positions.get(event["file"], 0), event["position"])
    return positions


def _new_lines(path: Path, position: int) -> Iterator[tuple[int, str]]:
    """Whole lines only: the last one may still be written."""
    with path.open("rb") as file:
        if path.stat().st_size < position:
            position = 0  # the file was rotated
        file.seek(position)
        for line in file:
            if line.endswith(b"\n"):
                position += len(line)
                yield position, line.decode(errors="replace").rstrip("\n")


def _all_records(bootstrap: str) -> Iterator[ottla.ConsumerRecord]:
    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [ottla.TopicPartition(TOPIC, each) for each in consumer.partitions_for(TOPIC)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            yield from consumer.poll(1)


def index(database: Path, bootstrap: str) -> int:
    """Adds what is new; the number of lines. Lines and positions are one transaction: none is indexed twice."""
    store = sqlite3.connect(database)
    store.execute("CREATE VIRTUAL TABLE IF NOT EXISTS lines USING fts5(service, line, at UNINDEXED)")
    store.execute("CREATE TABLE IF NOT EXISTS positions (part INTEGER PRIMARY KEY, next INTEGER)")
    count = 0
    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [ottla.TopicPartition(TOPIC, each) for each in consumer.partitions_for(TOPIC)]
        consumer.assign(partitions)
        for number, offset in store.execute("SELECT part, next FROM positions"):
            consumer.seek((TOPIC, number), offset)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            records = consumer.poll(1)
            with store:
                rows = [(r.key.decode(), json.loads(r.value)["line"], r.timestamp) for r in records]
                store.executemany("INSERT INTO lines VALUES (?, ?, ?)", rows)
                nexts = [(record.partition, record.offset + 1) for record in records]
                store.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", nexts)
            count += len(records)
    store.close()
    return count


def search(database: Path, words: str, limit: int = 20) -> list[tuple[str, str]]:
    """Service and line, the best first. `words` is SQLite's full-text language: AND, OR, NOT, "a phrase"."""
    store = sqlite3.connect(database)
    found = store.execute(
        "SELECT service, line FROM lines WHERE lines MATCH ? ORDER BY rank LIMIT ?", (words, limit)
    ).fetchall()
    store.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="logs of all services, searchable")
    parser.add_argument("what", choices=("ship", "index", "search"))
    parser.add_argument("path", type=Path, help="the folder of log files, or the index")
    parser.add_argument("words", nargs="?", default="error")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments = parser.parse_args()
    if arguments.what == "search":
        for service, line in search(arguments.path, arguments.words):
            print(f"{service:12} {line}")
    else:
        count = (ship if arguments.what == "ship" else index)(arguments.path, arguments.bootstrap)
        print(f"{count} lines")


if __name__ == "__main__":
    main()
