"""Tables of MariaDB and their changes, captured by Debezium and by us: every type, every kind of change.

`CREATE` and `ROWS` come before the capture starts, so the snapshot brings them; `CHANGES` come while it runs, each a
transaction of one or more statements. The last change writes to `visit`, so a reader knows when it has seen all.
"""

from __future__ import annotations

SCHEMA = "clinic"
TABLES = ("everything", "visit", "plain", "moved", "odd")
LAST_NOTE = "the last change"

CREATE = (
    """
    CREATE TABLE everything (
        id int PRIMARY KEY,
        tiny tinyint, tiny_u tinyint unsigned, flag boolean DEFAULT true, small smallint, small_u smallint unsigned,
        medium mediumint, medium_u mediumint unsigned, whole int, whole_u int unsigned,
        big bigint NOT NULL DEFAULT 7, big_u bigint unsigned, single float, twice double,
        exact decimal(10, 2), loose decimal(30, 12), round decimal(6),
        words text NOT NULL DEFAULT 'none', short varchar(20), fixed char(5), latin varchar(20) CHARACTER SET latin1,
        bytes varbinary(20), fixed_bytes binary(4), long_bytes blob, long_words longtext,
        day date, clock time, fine_clock time(6), moment datetime, milli_moment datetime(3), fine_moment datetime(6),
        stamp timestamp NULL, fine_stamp timestamp(6) NULL, twelvemonth year,
        one_bit bit(1), bits bit(20), feeling enum('calm', 'worried', 'in pain'), tags set('a', 'b', 'c'),
        doc json, place point, area polygon
    )
    """,
    "CREATE TABLE visit (patient varchar(30), number int, note text, PRIMARY KEY (patient, number))",
    "CREATE TABLE plain (id int AUTO_INCREMENT PRIMARY KEY, name varchar(30) NOT NULL, age int)",
    "CREATE TABLE moved (id int PRIMARY KEY, name varchar(20), extra int)",
    """
    CREATE TABLE odd (
        id binary(3) PRIMARY KEY, price decimal(6, 2) NOT NULL DEFAULT 9.90, rate double NOT NULL DEFAULT -1.5,
        code char(3) NOT NULL DEFAULT 'abc', day date NOT NULL DEFAULT '2020-02-02',
        at datetime NOT NULL DEFAULT '2020-02-02 03:04:05',
        feeling enum('calm', 'it''s') NOT NULL DEFAULT 'calm', small tinyint(1) NOT NULL DEFAULT 0,
        since timestamp NOT NULL DEFAULT current_timestamp, nothing varchar(5) DEFAULT NULL,
        doubled int GENERATED ALWAYS AS (3 * 2) STORED, imagined int GENERATED ALWAYS AS (4 * 2) VIRTUAL,
        bits bit(3) NOT NULL DEFAULT b'101', `Mixed Case` varchar(10), clock time NOT NULL DEFAULT '01:02:03'
    )
    """,
)

_EVERYTHING = """
    INSERT INTO everything VALUES (
        {id}, -128, 255, false, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -9223372036854775808,
        18446744073709551615, 1.1, -2.25e100, 12345.60, 123456789012345678.123456789012, 123456,
        'Zoë says "hi"', 'short', 'ab', 'Zoë', x'00ff10', x'0102', x'00ff', 'long',
        '2024-02-29', '23:59:59', '-838:59:58.123456', '2024-02-29 12:34:56', '1969-12-31 23:59:59.999',
        '2024-02-29 12:34:56.789012', '2024-07-01 12:00:00', '2024-07-01 12:00:00.500001', 2024,
        b'1', b'10110011001100110011', 'in pain', 'a,c', '{{"a": [1, 2]}}', ST_GeomFromText('POINT(1.5 -2)'),
        ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')
    )
"""
_NULLS = "INSERT INTO everything (id) VALUES ({id})"
_EXTREME = """
    INSERT INTO everything (id, tiny, big_u, exact, loose, round, fixed, fixed_bytes, bytes, day, moment, fine_clock,
        clock, fine_stamp, twelvemonth, bits, tags, words, single)
    VALUES ({id}, 0, 0, -0.01, -1200, -5, '', x'', x'', '0001-01-01', '9999-12-31 23:59:59', '00:00:00.000001',
        '00:00:00', '1970-01-01 00:00:01.1', 1901, b'0', '', '', -16777216)
"""
_ODD = "INSERT INTO odd (id, `Mixed Case`) VALUES (x'{id}', 'x')"


def _rows(first: int) -> tuple[str, ...]:
    return tuple(text.format(id=first + i) for i, text in enumerate((_EVERYTHING, _NULLS, _EXTREME)))


ROWS = (
    *_rows(1),
    "INSERT INTO visit VALUES ('ann', 1, 'first'), ('ann', 2, NULL), ('bob', 1, 'x')",
    "INSERT INTO plain (name, age) VALUES ('Eva', 40), ('Jo', NULL)",
    "INSERT INTO moved VALUES (1, 'one', 1)",
    _ODD.format(id="000001"),
)

CHANGES = (
    *((statement,) for statement in _rows(11)),
    ("UPDATE everything SET words = 'changed', exact = 0.10 WHERE id = 11",),
    ("DELETE FROM everything WHERE id = 12",),
    (
        "INSERT INTO visit VALUES ('cleo', 1, 'in a transaction')",
        "UPDATE visit SET note = 'again' WHERE patient = 'ann'",
        "DELETE FROM visit WHERE patient = 'bob'",
        "INSERT INTO plain (name, age) VALUES ('Tim', 3)",
    ),
    ("UPDATE visit SET number = 9 WHERE patient = 'cleo'",),  # the key changes
    ("UPDATE plain SET age = 41 WHERE name = 'Eva'",),
    ("DELETE FROM plain WHERE name = 'Jo'",),
    ("ALTER TABLE moved ADD COLUMN born date",),
    ("INSERT INTO moved VALUES (2, 'two', 2, '2020-01-02')",),
    ("ALTER TABLE moved DROP COLUMN extra, CHANGE name label varchar(20)",),
    ("INSERT INTO moved VALUES (3, 'three', NULL)",),
    ("ALTER TABLE moved MODIFY id bigint",),
    ("UPDATE moved SET label = 'drei' WHERE id = 3",),
    ("TRUNCATE TABLE moved",),
    ("INSERT INTO moved VALUES (4, 'after', NULL)",),
    (_ODD.format(id="0000ff"),),
    ("DELETE FROM odd WHERE id = x'000001'",),
    ("INSERT INTO visit VALUES ('zoe', 1, 'the last change')",),
)
