"""A table of a database becomes a compacted topic, and the topic becomes the same table elsewhere.

python change_capture.py capture shop.sqlite     # again and again, or --follow
python change_capture.py apply copy.sqlite
"""

import argparse
import json
import sqlite3
import time
from pathlib import Path

import ottla

TOPIC = "shop.customers"
TABLE = "CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)"
# Triggers write each change in the same transaction as the change itself: none is missed, none is invented.
CAPTURE = """
CREATE TABLE IF NOT EXISTS changes (number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER, row TEXT);
CREATE TRIGGER IF NOT EXISTS inserted AFTER INSERT ON customers BEGIN
  INSERT INTO changes (id, row) VALUES (new.id, json_object('id', new.id, 'name', new.name, 'city', new.city)); END;
CREATE TRIGGER IF NOT EXISTS updated AFTER UPDATE ON customers BEGIN
  INSERT INTO changes (id, row) VALUES (new.id, json_object('id', new.id, 'name', new.name, 'city', new.city)); END;
CREATE TRIGGER IF NOT EXISTS deleted AFTER DELETE ON customers BEGIN
  INSERT INTO changes (id, row) VALUES (old.id, NULL); END;
"""


def prepare(database: Path) -> None:
    """Rows that are there already count as changes, once."""
    with sqlite3.connect(database) as store:
        is_new = not store.execute("SELECT 1 FROM sqlite_master WHERE name = 'changes'").fetchone()
        store.executescript(TABLE + ";" + CAPTURE)
        if is_new:
            store.execute("UPDATE customers SET id = id")
    store.close()


def create_topic(bootstrap: str) -> None:
    """Compacted: it keeps the last row of every customer, so that a new copy needs nothing else."""
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:
        if TOPIC not in admin.list_topics():
            admin.create_topic(TOPIC, partitions=3, configs={"cleanup.policy": "compact"})


def capture(database: Path, bootstrap: str, batch: int = 1000) -> int:
    """Sends the changes so far; how many. They are removed from the database when they are acknowledged: after a crash
    in between they are sent again, which changes nothing in a copy."""
    store = sqlite3.connect(database)
    count = 0
    with ottla.Producer(bootstrap_servers=bootstrap) as producer:
        while rows := store.execute(
            "SELECT number, id, row FROM changes ORDER BY number LIMIT ?", (batch,)
        ).fetchall():
            sent = [
                producer.send(TOPIC, row, key=str(key), headers=[("change", str(number).encode())])
                for number, key, row in rows
            ]
            for future in sent:
                future.result(30)
            with store:
                store.execute("DELETE FROM changes WHERE number <= ?", (rows[-1][0],))
            count += len(rows)
    store.close()
    return count


def apply(database: Path, bootstrap: str) -> int:
    """Brings a copy up to date; how many changes that were. Rows and positions are one transaction of the copy."""
    store = sqlite3.connect(database)
    store.execute(TABLE)
    store.execute("CREATE TABLE IF NOT EXISTS positions (part INTEGER PRIMARY KEY, next INTEGER)")
    count = 0
    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        places = [ottla.TopicPartition(TOPIC, number) for number in consumer.partitions_for(TOPIC)]
        consumer.assign(places)
        for number, offset in store.execute("SELECT part, next FROM positions"):
            consumer.seek((TOPIC, number), offset)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            with store:
                for record in consumer.poll(1):
                    _apply(store, record)
                    count += 1
    store.close()
    return count


def _apply(store: sqlite3.Connection, record: ottla.ConsumerRecord) -> None:
    if record.value is None:  # a tombstone
        store.execute("DELETE FROM customers WHERE id = ?", (int(record.key),))
    else:
        row = json.loads(record.value)
        store.execute("INSERT OR REPLACE INTO customers VALUES (:id, :name, :city)", row)
    store.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (record.partition, record.offset + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description="change capture from one SQLite database into others")
    parser.add_argument("what", choices=("capture", "apply"))
    parser.add_argument("database", type=Path)
    parser.add_argument("--follow", action="store_true", help="go on for ever, once a second")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments = parser.parse_args()
    create_topic(arguments.bootstrap)
    if arguments.what == "capture":
        prepare(arguments.database)
    while True:
        count = (capture if arguments.what == "capture" else apply)(arguments.database, arguments.bootstrap)
        print(f"{count} changes")
        if not arguments.follow:
            return
        time.sleep(1)


if __name__ == "__main__":
    main()
