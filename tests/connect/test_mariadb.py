"""Capture from a real MariaDB: what is read, where it goes on, and what is refused with a sentence."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ottla.connect.errors import ConfigError, ConnectError, RetriableError
from ottla.connect.mysql.source import MariaDbSource
from ottla.connect.spi import Config, Limit, SourceRecord
from tests.connect.databases import MariaDb


class Capturing:
    """A source as the framework drives it, with the offset through JSON."""

    def __init__(self, settings: dict[str, str], kind: type[MariaDbSource] = MariaDbSource) -> None:
        self.source = kind(Config(settings, kind.settings))
        self.offset: Any = None
        self.records: list[SourceRecord] = []

    def step(self, limit: Limit | None = None) -> bool:
        batch = self.source.read({}, self.offset, limit or Limit())
        if batch is not None:
            self.records += batch.records
            self.offset = json.loads(json.dumps(batch.offset))
        return batch is not None

    def until_quiet(self, limit: Limit | None = None) -> None:
        """Chunks and log take turns: two empty reads in a row are the end."""
        empty = 0
        while empty < 2:
            empty = 0 if self.step(limit) else empty + 1

    def in_another_process(self) -> None:
        self.source.close()
        self.source = MariaDbSource(self.source.config)


class Clinic:
    """A database of its own, with a table."""

    def __init__(self, server: MariaDb) -> None:
        self.server = server
        self.name = server.new_database(f"clinic_{uuid.uuid4().hex[:12]}")
        self.run("CREATE TABLE visit (id int PRIMARY KEY, note varchar(100))")
        self._captures: list[Capturing] = []

    def run(self, *statements: str) -> None:
        with self.server.connect(self.name) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, table: str = "visit") -> dict[Any, Any]:
        return dict(self.server.execute(f"SELECT id, note FROM {table}", database=self.name))

    def capture(self, tables: str = "visit", **more: str) -> Capturing:
        names = ",".join(f"{self.name}.{table}" for table in tables.split(","))
        settings = {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "topic.prefix": "p",
            "table.include.list": names,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        self._captures.append(Capturing(settings))
        return self._captures[-1]

    def close(self) -> None:
        for capture in self._captures:
            capture.source.close()


@pytest.fixture
def clinic(mariadb: MariaDb) -> Iterator[Clinic]:
    made = Clinic(mariadb)
    yield made
    made.close()


def events(records: Sequence[SourceRecord]) -> list[tuple[str, Any, str | None]]:
    """Op, key and note of every event; tombstones left out."""
    shown = []
    for record in records:
        if record.value is not None and "op" in record.value:
            row = record.value["after"] or {}
            shown.append((record.value["op"], record.key and record.key["id"], row.get("note")))
    return shown


def applied(records: Sequence[SourceRecord]) -> dict[Any, Any]:
    """The table that the events give; each must follow from those before."""
    rows: dict[Any, Any] = {}
    for op, key, note in events(records):
        assert (op in "ud") == (key in rows), (op, key)
        if op == "d":
            del rows[key]
        else:
            rows[key] = note
    return rows


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
        "ALTER TABLE visit MODIFY note LONGTEXT",
        "INSERT INTO visit VALUES " + ", ".join(f"({i}, repeat('x', 1000000))" for i in range(1, 25)),
    )
    capture = clinic.capture()
    sizes, empty = [], 0
    while empty < 2:  # chunks and log take turns
        before = len(capture.records)
        is_read = capture.step(Limit(bytes=4_500_000))
        empty = 0 if is_read else empty + 1
        sizes.append(len(capture.records) - before)
    assert [size for size in sizes if size] == [5, 5, 5, 5, 4]
    assert [(op, key) for op, key, _ in events(capture.records)] == [("r", key) for key in range(1, 25)]
    clinic.run("INSERT INTO visit VALUES (25, 'y')")
    capture.until_quiet()
    assert events(capture.records)[24:] == [("c", 25, "y")]


def test_a_long_transaction_is_cut_and_goes_on_at_its_place(clinic):
    capture = clinic.capture(provide_transaction_metadata="true")
    capture.until_quiet()
    clinic.run("BEGIN", *(f"INSERT INTO visit VALUES ({i}, 'x')" for i in range(1, 51)), "COMMIT")
    clinic.run("INSERT INTO visit VALUES (51, 'y')")
    steps = 0
    while capture.step(Limit(records=7)):
        capture.in_another_process()
        steps += 1
    assert steps > 5
    assert [key for _, key, _ in events(capture.records)] == list(range(1, 52))
    blocks = [
        record.value["transaction"]["total_order"] for record in capture.records if "op" in record.value
    ]
    assert blocks == [*range(1, 51), 1]
    ends = [record.value for record in capture.records if record.value.get("status") == "END"]
    assert [end["event_count"] for end in ends] == [50, 1]


def test_changes_behind_a_cut_xa_transaction_are_not_lost(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    inserts = [f"INSERT INTO visit VALUES ({i}, 'x')" for i in (1, 2)]
    clinic.run("XA START 'x'", *inserts, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")
    clinic.run("INSERT INTO visit VALUES (3, 'y'), (4, 'y')", "INSERT INTO visit VALUES (5, 'z')")
    capture.until_quiet(Limit(records=1))
    assert [key for _, key, _ in events(capture.records)] == [1, 2, 3, 4, 5]


def test_the_same_changes_come_again_until_they_are_committed(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    first = capture.source.read({}, capture.offset, Limit())
    again = capture.source.read({}, capture.offset, Limit())
    assert events(first.records) == events(again.records) == [("c", 1, "a")]
    assert first.offset == again.offset
    assert capture.source.read({}, first.offset, Limit()) is None


@pytest.mark.parametrize("locking", ["none", "minimal"])
def test_changes_beside_the_snapshot_are_neither_lost_nor_doubled(clinic, locking):
    clinic.run("INSERT INTO visit SELECT seq, 'x' FROM seq_1_to_60")
    capture = clinic.capture(snapshot_fetch_size="7", snapshot_locking_mode=locking)
    for i in range(40):
        capture.step(Limit(records=5))
        capture.in_another_process()
        clinic.run(
            f"INSERT INTO visit VALUES ({61 + i}, 'new')",
            f"UPDATE visit SET note = 'changed {i}' WHERE id IN ({1 + i}, {60 - i})",
            f"DELETE FROM visit WHERE id = {2 + 3 * i % 60}",
        )
    capture.until_quiet()
    assert applied(capture.records) == clinic.rows()


def test_keys_of_texts_are_compared_as_the_database_does(clinic):
    """In this collation `a` stands beside `A`, before `B`: the order of bytes would lose rows, or bring them twice."""
    clinic.run(
        "CREATE TABLE word (id varchar(5) COLLATE utf8mb4_uca1400_as_cs PRIMARY KEY, note varchar(20))",
        "INSERT INTO word SELECT CHAR(65 + seq % 26 + 32 * (seq DIV 26) USING utf8mb4), 'x' FROM seq_0_to_51",
    )
    capture = clinic.capture("word", snapshot_fetch_size="5")
    for i in range(26):
        capture.step()
        clinic.run(
            f"UPDATE word SET note = 'changed {i}' WHERE id = CHAR({97 + i} USING utf8mb4)",
            f"DELETE FROM word WHERE id = CHAR({90 - i} USING utf8mb4)",
        )
    capture.until_quiet()
    assert applied(capture.records) == clinic.rows("word")


def test_labels_are_read_in_the_character_set_of_their_column(clinic):
    words = "('é', 'ü')"
    clinic.run(
        f"CREATE TABLE kinds (id int PRIMARY KEY, one ENUM{words} CHARACTER SET latin1, many SET{words} CHARACTER SET"
        f" latin2, plain ENUM('é', 'ж') CHARACTER SET utf8mb4)",
        "INSERT INTO kinds VALUES (1, 'é', 'é,ü', 'ж')",
    )
    capture = clinic.capture("kinds")
    capture.until_quiet()
    clinic.run("INSERT INTO kinds VALUES (2, 'é', 'é,ü', 'ж')")
    capture.until_quiet()
    rows = [record.value["after"] for record in capture.records]
    assert [row | {"id": 0} for row in rows] == [{"id": 0, "one": "é", "many": "é,ü", "plain": "ж"}] * 2
    shown = {field.name: field.schema for field in capture.records[1].value_schema.fields[0].schema.fields}
    assert shown["one"].parameters == {"allowed": "é,ü"}


def test_texts_that_are_not_valid_do_not_stop_the_capture(clinic):
    clinic.run(
        "CREATE TABLE texts (id int PRIMARY KEY, half varchar(9) CHARACTER SET utf8mb4,"
        " odd varchar(9) CHARACTER SET cp1251)",
        "INSERT INTO texts VALUES (1, CONVERT(X'61EDA08062' USING utf8mb4), 'x')",
    )
    capture = clinic.capture("texts")
    capture.until_quiet()
    clinic.run("INSERT INTO texts VALUES (2, CONVERT(X'61EDA08062' USING utf8mb4), X'98')")
    capture.until_quiet()
    rows = [record.value["after"] for record in capture.records]
    replaced = "a\ufffd\ufffd\ufffdb"
    assert [(row["half"], row["odd"]) for row in rows] == [(replaced, "x"), (replaced, "\ufffd")]


def test_a_key_of_a_snapshot_that_is_not_valid_text_is_refused(clinic):
    clinic.run(
        "CREATE TABLE texts (id varchar(9) CHARACTER SET utf8mb4 PRIMARY KEY)",
        "INSERT INTO texts VALUES (CONVERT(X'EDA080' USING utf8mb4))",
    )
    with pytest.raises(ConnectError, match=r"the key id of .*texts has a value that is not UTF-8"):
        clinic.capture("texts").until_quiet()


def test_a_snapshot_goes_on_where_it_was_killed(clinic):
    clinic.run("INSERT INTO visit SELECT seq, 'x' FROM seq_1_to_25")
    capture = clinic.capture(snapshot_fetch_size="4")
    while capture.step():
        capture.in_another_process()
    assert [key for _, key, _ in events(capture.records)] == list(range(1, 26))


def test_columns_that_come_and_go_while_the_snapshot_is_read_do_no_harm(clinic):
    clinic.run("INSERT INTO visit SELECT seq, 'x' FROM seq_1_to_12")
    capture = clinic.capture(snapshot_fetch_size="3")
    statements = ["ALTER TABLE visit ADD COLUMN age int DEFAULT 4", "UPDATE visit SET note = 'y' WHERE id > 6",
                  "ALTER TABLE visit DROP COLUMN age", "INSERT INTO visit VALUES (13, 'z')"]  # fmt: skip
    while statements:
        capture.step()
        clinic.run(statements.pop(0))
    capture.until_quiet()
    assert applied(capture.records) == clinic.rows()


def test_keys_of_many_types_cut_the_snapshot_at_the_right_place(clinic):
    clinic.run(
        "CREATE TABLE mixed (a decimal(10, 2), b datetime(3), c varbinary(5), note varchar(9), PRIMARY KEY (a, b, c))",
        "INSERT INTO mixed SELECT seq DIV 10 - 0.5, TIMESTAMP'2024-01-01 00:00:00.125' + INTERVAL seq DIV 5 SECOND,"
        " CHAR(250 - seq % 5), 'x' FROM seq_1_to_40",
    )
    capture = clinic.capture("mixed", snapshot_fetch_size="3")
    for i in range(12):
        capture.step()
        clinic.run(f"UPDATE mixed SET note = 'y{i}' WHERE a = {i} DIV 4 - 0.5 LIMIT 3")
    capture.until_quiet()
    rows = {}
    for record in capture.records:
        key = tuple(record.key.values())
        assert (record.value["op"] == "r") == (key not in rows), record
        rows[key] = record.value["after"]["note"]
    assert sorted(rows.values()) == sorted(
        row[0] for row in clinic.server.execute("SELECT note FROM mixed", database=clinic.name)
    )


def test_a_killed_server_comes_back_and_nothing_is_lost_or_doubled():
    with MariaDb() as server:
        clinic = Clinic(server)
        clinic.run("INSERT INTO visit VALUES (1, 'a')")
        capture = clinic.capture()
        capture.until_quiet()
        clinic.run("INSERT INTO visit VALUES (2, 'b')")
        server.kill()
        with pytest.raises(RetriableError, match=r"the server at 127\.0\.0\.1"):
            capture.step()
        server.start()  # with a new file of the log
        clinic.run("INSERT INTO visit VALUES (3, 'c')")
        capture.until_quiet()
        server.execute("SET GLOBAL log_bin_compress = ON, log_bin_compress_min_len = 10")
        clinic.run("INSERT INTO visit VALUES (4, REPEAT('d', 100))")
        capture.until_quiet()
        assert events(capture.records) == [("r", 1, "a"), ("c", 2, "b"), ("c", 3, "c"), ("c", 4, "d" * 100)]
        _leave_half_an_event(server)
        capture.in_another_process()
        clinic.run("INSERT INTO visit VALUES (5, 'e')")
        capture.until_quiet()
        assert events(capture.records)[4:] == [("c", 5, "e")]
        server.execute("PURGE BINARY LOGS TO 'changes.000003'")
        old = {**capture.offset, "file": "changes.000001", "pos": 4}
        with pytest.raises(ConfigError, match=r"does not have the changes since changes\.000001:4 any more"):
            MariaDbSource(capture.source.config).read({}, old, Limit())
        clinic.close()


def _leave_half_an_event(server: MariaDb) -> None:
    """As a server that is killed while it writes: the beginning of a transaction, and half of its next event."""
    (last,) = server.execute("SHOW MASTER STATUS")
    server.kill()
    file = server.folder / "data" / last[0]
    data = file.read_bytes()
    begin = data.rindex(
        b"\xa2\x01\x00\x00\x00"
    )  # the type of the last transaction's first event, and the server
    whole = data[begin - 4 :]
    size = int.from_bytes(whole[9:13], "little")
    moved = bytearray(whole[: size + 30])
    with file.open("ab") as log:
        log.write(bytes(moved))
    server.start()


def test_names_that_no_topic_may_have_become_names_of_topics(clinic):
    clinic.run("CREATE TABLE `order``s items` (id int PRIMARY KEY, note text)")
    capture = clinic.capture("order`s items")
    clinic.run("INSERT INTO `order``s items` VALUES (1, 'a')")
    capture.until_quiet()
    clinic.run("INSERT INTO `order``s items` VALUES (2, 'b')")
    capture.until_quiet()
    assert events(capture.records) == [("r", 1, "a"), ("c", 2, "b")]
    assert {record.topic for record in capture.records} == {f"p.{clinic.name}.order_s_items"}


def test_a_database_whose_name_has_a_dot_is_captured(mariadb):
    name = mariadb.new_database(f"clinic.{uuid.uuid4().hex[:12]}")
    with mariadb.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE visit (id varchar(9) PRIMARY KEY, note text)")
        cursor.execute("INSERT INTO visit VALUES ('1', 'x'), ('2', 'x')")
        settings = {
            "database.hostname": "127.0.0.1",
            "database.port": str(mariadb.port),
            "topic.prefix": "p",
            "table.include.list": f"{name}.visit",
        }
        capture = Capturing(settings)
        for _ in range(2):
            capture.step(Limit(records=1))
        cursor.execute("UPDATE visit SET note = 'y'")  # beside the snapshot
        capture.until_quiet(Limit(records=1))
        capture.source.close()
    shown = sorted((op, str(key), note) for op, key, note in events(capture.records))
    assert shown == [("r", "1", "x"), ("r", "2", "y"), ("u", "1", "y")]


def test_emptied_tables_are_told_on_request(clinic):
    clinic.run("INSERT INTO visit VALUES (1, 'a')")
    capture = clinic.capture(skipped_operations="none")
    capture.until_quiet()
    clinic.run("TRUNCATE visit", f"TRUNCATE TABLE `{clinic.name}`.`visit`")
    capture.until_quiet()
    assert [record.value["op"] for record in capture.records] == ["r", "t", "t"]
    assert capture.records[-1].key is None


def test_heartbeats_move_the_offset_although_nothing_of_ours_changes(clinic):
    capture = clinic.capture(heartbeat_interval_ms="1")
    capture.step()
    while "snapshot" in capture.offset:
        capture.step()
    place = capture.offset["pos"]
    clinic.run("CREATE TABLE other (x text)", "INSERT INTO other VALUES ('x')")
    assert capture.step()
    assert capture.records[-1].topic == "__debezium-heartbeat.p"
    assert capture.offset["pos"] > place


def test_what_cannot_be_captured_is_refused(clinic, mariadb):
    clinic.run(
        "CREATE TABLE loose (a int)",
        "CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TABLE felt (id enum('a') PRIMARY KEY)",
    )
    for table, sentence in {
        "loose": r"loose has no primary key.*table\.exclude\.list",
        "old": r"old has the engine MyISAM.*ENGINE=InnoDB",
        "felt": r"key of table .*felt has column id of the type enum",
        "nothing": "no table is captured",
    }.items():
        with pytest.raises(ConfigError, match=sentence):
            clinic.capture(table).step()
    mariadb.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        with pytest.raises(
            ConfigError, match="binlog_row_metadata is MINIMAL, and change capture needs FULL"
        ):
            clinic.capture().step()
    finally:
        mariadb.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_a_log_without_names_or_with_parts_of_rows_is_refused(clinic, mariadb):
    capture = clinic.capture()
    capture.until_quiet()
    for setting, wrong, sentence in (
        ("binlog_row_metadata", "MINIMAL", r"no names for the columns of .*\.visit"),
        ("binlog_row_image", "MINIMAL", r"only parts of the rows of .*\.visit"),
    ):
        mariadb.execute(f"SET GLOBAL {setting} = '{wrong}'")
        try:
            clinic.run(f"INSERT INTO visit VALUES ({len(wrong)}, 'a') ON DUPLICATE KEY UPDATE note = 'b'")
        finally:
            mariadb.execute(f"SET GLOBAL {setting} = 'FULL'")
        with pytest.raises(Exception, match=sentence):
            capture.step()
        capture.offset = {**capture.offset, "pos": int(mariadb.execute("SHOW MASTER STATUS")[0][1])}


def test_an_offset_of_another_server_or_of_debezium_is_refused(clinic):
    capture = clinic.capture()
    capture.until_quiet()
    with pytest.raises(ConfigError, match="the connector's place is one of server 7"):
        capture.source.read({}, {**capture.offset, "server_id": 7}, Limit())
    theirs = {"ts_sec": 1, "file": "changes.000001", "pos": 4, "server_id": 1, "event": 2}
    with pytest.raises(ConfigError, match="not written by this connector"):
        capture.source.read({}, theirs, Limit())


def test_a_server_that_is_away_may_come_back(clinic):
    with pytest.raises(RetriableError, match=r"the server at 127\.0\.0\.1:1"):
        clinic.capture(database_port="1").step()


def test_a_table_that_is_dropped_while_its_snapshot_waits_is_passed_over(clinic):
    clinic.run("CREATE TABLE gone (id int PRIMARY KEY)", "INSERT INTO visit VALUES (1, 'a')")
    capture = clinic.capture("gone,visit")
    capture.step()
    clinic.run("DROP TABLE gone")
    capture.until_quiet()
    assert events(capture.records) == [("r", 1, "a")]


def test_writers_that_never_rest_do_no_harm(clinic):
    """Commits run beside every chunk: a commit can be in the log before readers see it."""
    clinic.run("INSERT INTO visit SELECT seq, '0' FROM seq_1_to_200")
    stopped = threading.Event()

    def write() -> None:
        with clinic.server.connect(clinic.name) as connection, connection.cursor() as cursor:
            i = 0
            while not stopped.is_set():
                i += 1
                cursor.execute(
                    f"UPDATE visit SET note = '{i}' WHERE id IN ({1 + i * 7 % 200}, {1 + i * 13 % 200})"
                )

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    capture = clinic.capture(snapshot_fetch_size="20")
    try:
        capture.step()
        while "snapshot" in capture.offset:
            capture.step()
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
    capture.until_quiet()
    last: dict[int, str] = {}
    for record in capture.records:
        value = record.value
        if value["op"] == "r":
            assert record.key["id"] not in last
        else:
            assert value["before"]["note"] == last[record.key["id"]], (
                "each change follows from the one before"
            )
        last[record.key["id"]] = value["after"]["note"]
    assert last == clinic.rows()
