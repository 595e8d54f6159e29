"""Capture from a real PostgreSQL: what is read, where it goes on, and what is refused with a sentence."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from ottla.connect.errors import ConfigError, ConnectError, RetriableError
from ottla.connect.postgres.source import PostgresSource
from ottla.connect.spi import Config, Limit, SourceRecord
from tests.connect.databases import Postgres
from tests.connect.test_debezium import Capturing


class Clinic:
    """A database of its own, with a table."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.name = server.new_database(f"clinic_{uuid.uuid4().hex[:12]}")
        self.run("CREATE TABLE visit (id integer PRIMARY KEY, note text)")

    def run(self, *statements: str) -> None:
        with self.server.connect(self.name) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def capture(self, **more: str) -> Capturing:
        return Capturing(self.settings(**more))

    def settings(self, **more: str) -> dict[str, str]:
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.dbname": self.name,
            "topic.prefix": "p",
            "slot.name": self.name,
            "table.include.list": "public.visit",
            **{name.replace("_", "."): value for name, value in more.items()},
        }


@pytest.fixture
def clinic(postgres: Postgres) -> Iterator[Clinic]:
    made = Clinic(postgres)
    yield made
    for slot in (made.name, f"{made.name}_2"):
        postgres.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active",
            slot,
        )


def events(records: Sequence[SourceRecord]) -> list[tuple[str, int, str | None]]:
    """Op, key and note of every event; tombstones left out."""
    shown = []
    for record in records:
        if record.value is not None and "op" in record.value:
            row = record.value["after"] or {}
            shown.append((record.value["op"], record.key["id"], row.get("note")))
    return shown


def test_rows_come_first_and_changes_behind_them(clinic):
    clinic.run("INSERT INTO visit VALUES (1, 'a'), (2, 'b')")
    capture = clinic.capture()
    capture.until_quiet()
    clinic.run("UPDATE visit SET note = 'c' WHERE id = 1", "DELETE FROM visit WHERE id = 2")
    capture.until_quiet()
    assert events(capture.records) == [("r", 1, "a"), ("r", 2, "b"), ("u", 1, "c"), ("d", 2, None)]
    assert capture.records[-1].value is None  # the tombstone


@pytest.mark.parametrize(("mode", "expected"), [
    ("initial_only", [("r", 1, "a")]),
    ("never", [("c", 2, "b")]),
    ("no_data", [("c", 2, "b")]),
])  # fmt: skip
def test_the_snapshot_modes_take_rows_or_changes_alone(clinic, mode, expected):
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    capture = clinic.capture(snapshot_mode=mode)
    capture.until_quiet()
    clinic.run("INSERT INTO visit VALUES (2, 'b')")
    capture.until_quiet()
    assert events(capture.records) == expected


def test_a_chunk_of_the_snapshot_is_bounded_by_bytes_too(clinic):
    """Each row is a megabyte: the rest of the answer must not be read before the next chunk."""
    clinic.run(
        "ALTER TABLE visit ALTER note TYPE text",
        "INSERT INTO visit VALUES " + ", ".join(f"({i}, repeat('x', 1000000))" for i in range(1, 25)),
    )
    capture = clinic.capture()
    sizes, empty = [], 0
    while empty < 2:  # chunks and log take turns
        before = len(capture.records)
        batch = capture.source.read({}, capture.offset, Limit(bytes=4_500_000))
        is_read = batch is not None
        if batch is not None:
            capture.records += batch.records
            capture.offset = batch.offset
        empty = 0 if is_read else empty + 1
        sizes.append(len(capture.records) - before)
    assert [size for size in sizes if size] == [5, 5, 5, 5, 4]
    assert [(op, key) for op, key, _ in events(capture.records)] == [("r", key) for key in range(1, 25)]
    clinic.run("INSERT INTO visit VALUES (25, 'y')")
    capture.until_quiet()
    assert events(capture.records)[24:] == [("c", 25, "y")]


def test_a_long_transaction_is_cut_and_goes_on_at_its_place(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    clinic.run(
        "INSERT INTO visit SELECT i, 'x' FROM generate_series(1, 50) i", "INSERT INTO visit VALUES (51, 'y')"
    )
    batches = 0
    while len(capture.records) < 51:
        batch = capture.source.read({}, capture.offset, Limit(records=7))
        assert batch is not None
        capture.records += batch.records
        capture.offset = batch.offset
        batches += 1
        if batches % 2:
            capture.source.close()
            capture.source = PostgresSource(capture.source.config)  # another process goes on
        else:
            capture.source.committed([({}, capture.offset)])
    assert [key for _, key, _ in events(capture.records)] == list(range(1, 52))


def test_the_same_changes_come_again_until_they_are_committed(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    first = capture.source.read({}, capture.offset, Limit())
    again = PostgresSource(capture.source.config).read({}, capture.offset, Limit())
    assert events(first.records) == events(again.records) == [("c", 1, "a")]
    assert first.offset == again.offset
    capture.source.committed([({}, first.offset)])
    later = PostgresSource(capture.source.config).read({}, first.offset, Limit())
    assert later is None


def test_keys_of_texts_are_compared_as_the_database_does(clinic):
    """In this collation `a` stands between `A` and `B`: the order of bytes would lose rows, or bring them twice."""
    clinic.run(
        "CREATE COLLATION IF NOT EXISTS words (provider = icu, locale = 'en-US')",
        "CREATE TABLE word (id text COLLATE words PRIMARY KEY, note text)",
        "INSERT INTO word SELECT chr(65 + i % 26 + 32 * (i / 26)), 'x' FROM generate_series(0, 51) i",
    )
    capture = clinic.capture(table_include_list="public.word", snapshot_fetch_size="5")
    for i in range(400):
        batch = capture.source.read({}, capture.offset, Limit())
        if batch is not None:
            capture.records += batch.records
            capture.offset = batch.offset
        if i < 26:
            clinic.run(
                f"UPDATE word SET note = 'changed {i}' WHERE id = chr({97 + i})",
                f"DELETE FROM word WHERE id = chr({90 - i})",
            )
        elif batch is None and not capture.offset.get("snapshot"):
            break
    rows: dict[int, str | None] = {}
    for op, key, note in events(capture.records):
        assert (op in "ud") == (key in rows), (op, key)
        if op == "d":
            del rows[key]
        else:
            rows[key] = note
    assert rows == dict(clinic.server.execute("SELECT id, note FROM word", database=clinic.name))


def test_a_snapshot_goes_on_where_it_was_killed(clinic):
    clinic.run("INSERT INTO visit SELECT i, 'x' FROM generate_series(1, 25) i")
    settings = clinic.settings(snapshot_fetch_size="4")
    offset, records = None, []
    for _ in range(100):
        source = PostgresSource(Config(settings, PostgresSource.settings))  # every step in a new process
        batch = source.read({}, offset, Limit())
        source.close()
        if batch is None:
            break
        records += batch.records
        offset = batch.offset
    assert [key for _, key, _ in events(records)] == list(range(1, 26))


def test_columns_that_come_and_go_while_the_snapshot_is_read_do_no_harm(clinic):
    clinic.run("INSERT INTO visit SELECT i, 'x' FROM generate_series(1, 12) i")
    capture = clinic.capture(snapshot_fetch_size="3")
    statements = ["ALTER TABLE visit ADD COLUMN age integer DEFAULT 4", "UPDATE visit SET note = 'y' WHERE id > 6",
                  "ALTER TABLE visit DROP COLUMN age", "INSERT INTO visit VALUES (13, 'z')"]  # fmt: skip
    for _ in range(60):
        batch = capture.source.read({}, capture.offset, Limit())
        if batch is not None:
            capture.records += batch.records
            capture.offset = batch.offset
        if statements:
            clinic.run(statements.pop(0))
    rows = {key: note for _, key, note in events(capture.records)}
    assert rows == dict(clinic.server.execute("SELECT id, note FROM visit", database=clinic.name))


@pytest.mark.parametrize("more", [{}, {"transforms": ""}], ids=["records", "straight to JSON"])
def test_a_null_is_null_after_a_column_has_come_to_allow_it(clinic, more):
    clinic.run("ALTER TABLE visit ADD age integer NOT NULL")
    capture = clinic.capture(**more)
    capture.until_quiet()
    ages = []
    for statement in ("INSERT INTO visit VALUES (1, 'a', 7)", "INSERT INTO visit VALUES (2, 'b', NULL)"):
        clinic.run(statement)
        batch = capture.source.read({}, capture.offset, Limit())
        capture.offset = batch.offset
        ages += [record.value["after"]["age"] for record in batch.records]
        for _, rows in batch.encoded:
            ages += [
                json.loads(value)["payload"]["after"]["age"] for value in rows.column("value").to_pylist()
            ]
        clinic.run("ALTER TABLE visit ALTER age DROP NOT NULL")
    assert ages == [7, None]


def test_a_long_key_that_an_update_does_not_touch_stays_the_key(clinic):
    clinic.run(
        "CREATE TABLE page (id text PRIMARY KEY, note text)", "ALTER TABLE page ALTER id SET STORAGE EXTERNAL"
    )
    capture = clinic.capture(table_include_list="public.page")
    clinic.run("INSERT INTO page SELECT repeat(letter, 2600), 'a' FROM unnest(ARRAY['b', 'c']) letter")
    for _ in range(3):
        capture.offset = capture.source.read({}, capture.offset, Limit(records=1)).offset
    clinic.run("UPDATE page SET note = 'x'")  # beside the snapshot
    capture.until_quiet(Limit(records=1))
    capture.records.clear()
    clinic.run(
        "UPDATE page SET note = 'y'", "ALTER TABLE page REPLICA IDENTITY FULL", "UPDATE page SET note = 'z'"
    )
    capture.until_quiet()
    shown = [(op, str(key), note) for op, key, note in events(capture.records)]
    assert shown == [("u", letter * 2600, note) for note in "yz" for letter in "bc"]


def test_a_commit_that_readers_do_not_see_yet_is_not_lost(postgres, clinic):
    """With a synchronous replica that does not answer a commit is in the log, and not visible: it is decoded first."""
    clinic.run("INSERT INTO visit SELECT i, 'x' FROM generate_series(1, 10) i")
    capture = clinic.capture(snapshot_fetch_size="3")
    batch = capture.source.read({}, None, Limit())
    capture.offset = batch.offset
    postgres.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    postgres.execute("SELECT pg_reload_conf()")
    writer = psycopg.connect(postgres.dsn(clinic.name), autocommit=True, application_name="held back")
    hung = threading.Thread(
        target=_until_cancelled, args=(writer, "UPDATE visit SET note = 'late' WHERE id IN (2, 9)")
    )
    hung.start()
    try:
        deadline = time.monotonic() + 60
        while not postgres.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for _ in range(20):
            batch = capture.source.read({}, capture.offset, Limit())
            if batch is not None:
                capture.records += batch.records
                capture.offset = batch.offset
    finally:
        postgres.execute("ALTER SYSTEM RESET synchronous_standby_names")
        postgres.execute("SELECT pg_reload_conf()")
        hung.join(60)
        writer.close()
    capture.until_quiet()
    rows: dict[int, str | None] = {}
    for op, key, note in events(capture.records):
        assert (op == "r") == (key not in rows), (op, key)
        rows[key] = note
    assert rows == {key: "late" if key in (2, 9) else "x" for key in range(1, 11)}


def _until_cancelled(connection: psycopg.Connection, statement: str) -> None:
    connection.execute(statement.encode())


def test_emptied_tables_are_told_on_request(clinic):
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    capture = clinic.capture(skipped_operations="none")
    capture.until_quiet()
    clinic.run("TRUNCATE visit")
    capture.until_quiet()
    assert [record.value["op"] for record in capture.records] == ["r", "t"]
    assert capture.records[-1].key is None


def test_heartbeats_move_the_slot_although_nothing_of_ours_changes(clinic):
    capture = clinic.capture(heartbeat_interval_ms="1")
    batch = capture.source.read({}, None, Limit())
    capture.offset = batch.offset
    clinic.run(
        "CREATE TABLE other (x text)",
        "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 2000)",
    )
    before = capture.source.slot_state()
    deadline = time.monotonic() + 60
    beats = []
    while not beats:
        assert time.monotonic() < deadline
        batch = capture.source.read({}, capture.offset, Limit())
        if batch is not None:
            capture.offset = batch.offset
            capture.source.committed([({}, batch.offset)])
            beats += [record for record in batch.records if record.topic == "__debezium-heartbeat.p"]
    after = capture.source.slot_state()
    assert beats[0].key == {"serverName": "p"}
    assert after.confirmed_lsn > before.confirmed_lsn + 1_000_000
    assert after.behind_bytes < before.behind_bytes


def test_a_lost_slot_is_refused(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    capture.source.close()
    clinic.server.execute("SELECT pg_drop_replication_slot(%s)", clinic.name)
    with pytest.raises(
        ConfigError, match=r"slot .* is gone, and with it the changes since .*remove the connector's offsets"
    ):
        PostgresSource(capture.source.config).read({}, capture.offset, Limit())


def test_a_slot_that_somebody_else_has_moved_is_refused(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    clinic.server.execute(
        "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", clinic.name, database=clinic.name
    )
    with pytest.raises(ConfigError, match="somebody else has read from it, and changes are lost"):
        PostgresSource(capture.source.config).read({}, capture.offset, Limit())


def test_a_table_without_a_key_is_refused(clinic):
    clinic.run("CREATE TABLE loose (a integer)")
    with pytest.raises(ConfigError, match=r"public\.loose has no primary key.*table\.exclude\.list"):
        clinic.capture(table_include_list="public.loose").until_quiet()


INDEXED = (
    "ALTER TABLE visit ADD code text NOT NULL",
    "CREATE UNIQUE INDEX by_code ON visit (code)",
    "ALTER TABLE visit REPLICA IDENTITY USING INDEX by_code",
)


@pytest.mark.parametrize("more", [{}, {"transforms": ""}], ids=["records", "straight to JSON"])
@pytest.mark.parametrize("change", ["UPDATE visit SET id = 8", "DELETE FROM visit"])
def test_changes_whose_key_is_not_in_the_log_are_refused(clinic, change, more):
    capture = clinic.capture(**more)
    capture.until_quiet()
    clinic.run(*INDEXED, "INSERT INTO visit VALUES (7, 'a', 'x')")
    capture.until_quiet()
    clinic.run(change)
    with pytest.raises(ConnectError, match=r"public\.visit has an index without its key as REPLICA IDENTITY"):
        capture.until_quiet()


def test_a_table_whose_key_will_not_be_in_the_log_is_refused(clinic):
    clinic.run(*INDEXED)
    with pytest.raises(ConfigError, match=r"public\.visit has an index without its key as REPLICA IDENTITY"):
        clinic.capture().until_quiet()
    clinic.run(
        "CREATE UNIQUE INDEX by_both ON visit (code, id)",
        "ALTER TABLE visit REPLICA IDENTITY USING INDEX by_both",
    )
    capture = clinic.capture()
    capture.until_quiet()
    clinic.run("INSERT INTO visit VALUES (7, 'a', 'x')", "UPDATE visit SET code = 'y'", "DELETE FROM visit")
    capture.until_quiet()
    assert events(capture.records) == [("c", 7, "a"), ("u", 7, "a"), ("d", 7, None)]


def test_a_table_that_the_settings_take_later_is_captured_after_a_restart(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    capture.source.close()
    clinic.run("CREATE TABLE later (id integer PRIMARY KEY, note text)", "CREATE TABLE loose (a integer)")
    restarted = clinic.capture(table_include_list=r"public\.(visit|later|loose)")
    restarted.offset = capture.offset
    restarted.until_quiet()
    clinic.run("INSERT INTO later VALUES (1, 'a')", "INSERT INTO visit VALUES (2, 'b')")
    restarted.until_quiet()
    assert events(restarted.records) == [("c", 1, "a"), ("c", 2, "b")]


def test_a_second_connector_does_not_take_tables_out_of_the_publication_of_both(clinic):
    clinic.run("CREATE TABLE other (id integer PRIMARY KEY, note text)")
    first = clinic.capture()
    first.until_quiet()
    second = clinic.capture(table_include_list="public.other", slot_name=f"{clinic.name}_2")
    second.until_quiet()
    clinic.run("INSERT INTO visit VALUES (1, 'a')", "INSERT INTO other VALUES (2, 'b')")
    first.until_quiet()
    second.until_quiet()
    assert (events(first.records), events(second.records)) == ([("c", 1, "a")], [("c", 2, "b")])


def test_names_that_no_topic_may_have_become_names_of_topics(clinic):
    clinic.run("""CREATE TABLE "Größe 'x'" (id integer PRIMARY KEY, note text)""")
    capture = clinic.capture(table_include_list=r"public\.Gr.*")
    clinic.run("""INSERT INTO "Größe 'x'" VALUES (1, 'a')""")
    capture.until_quiet()
    clinic.run("""INSERT INTO "Größe 'x'" VALUES (2, 'b')""")
    capture.until_quiet()
    assert events(capture.records) == [("r", 1, "a"), ("c", 2, "b")]
    assert {record.topic for record in capture.records} == {"p.public.Gr__e__x_"}
    assert {record.value["source"]["table"] for record in capture.records} == {"Größe 'x'"}


def test_a_schema_whose_name_has_a_dot_is_captured(clinic):
    clinic.run('CREATE SCHEMA "a.b"', 'CREATE TABLE "a.b".visit (id text PRIMARY KEY, note text)')
    clinic.run("""INSERT INTO "a.b".visit SELECT i, 'x' FROM generate_series(1, 3) i""")
    capture = clinic.capture(table_include_list=r"a\.b\.visit")
    for _ in range(2):
        capture.offset = capture.source.read({}, capture.offset, Limit(records=1)).offset
    clinic.run("""UPDATE "a.b".visit SET note = 'y'""")  # beside the snapshot
    capture.until_quiet(Limit(records=1))
    assert sorted((str(key), note) for _, key, note in events(capture.records)) == [
        ("1", "y"), ("2", "y"), ("3", "y"),
    ]  # fmt: skip


def test_settings_that_capture_nothing_are_refused(clinic):
    with pytest.raises(ConfigError, match="no table is captured"):
        clinic.capture(table_include_list="nothing.at.all").until_quiet()
    with pytest.raises(ConfigError, match="not a regular expression"):
        clinic.capture(table_include_list="(").until_quiet()
    with pytest.raises(ConfigError, match="lower-case letters"):
        clinic.capture(slot_name="Slot!")


def test_a_server_that_is_away_may_come_back(clinic):
    capture = clinic.capture(database_port="1")
    with pytest.raises(RetriableError, match=r"PostgreSQL at 127\.0\.0\.1:1"):
        capture.until_quiet()


@pytest.mark.parametrize("dropped", ["TABLE s.gone", "SCHEMA s CASCADE"])
def test_a_table_that_is_dropped_while_its_snapshot_waits_is_passed_over(clinic, dropped):
    clinic.run("CREATE SCHEMA s", "CREATE TABLE s.gone (id integer PRIMARY KEY)")
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    capture = clinic.capture(table_include_list="s.gone,public.visit")
    batch = capture.source.read({}, None, Limit())
    capture.offset = batch.offset
    clinic.run(f"DROP {dropped}")
    capture.until_quiet()
    assert events(capture.records) == [("r", 1, "a")]


class Hasty(PostgresSource):
    """A planted bug: the slot moves on when changes are read, not when they are committed."""

    def read(self, partition, offset, limit):
        batch = super().read(partition, offset, limit)
        if batch is not None:
            super().committed([(partition, batch.offset)])
        return batch


def test_a_slot_that_moves_before_the_commit_is_caught(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    hasty = Hasty(capture.source.config)
    assert hasty.read({}, capture.offset, Limit()) is not None  # and then the process dies
    hasty.close()
    with pytest.raises(ConfigError, match="changes are lost"):
        PostgresSource(capture.source.config).read({}, capture.offset, Limit())
