"""Tables and changes that are captured by Debezium and by us: every type, every kind of change.

`CREATE` and `ROWS` come before the capture starts, so the snapshot brings them; `CHANGES` come while it runs, each a
transaction of one or more statements. The last change writes to `visit`, so a reader knows when it has seen all.
"""

from __future__ import annotations

from typing import LiteralString

SCHEMA = "clinic"
TABLES = ("everything", "visit", "wide", "plain", "moved", "odd")
DIFFERENT = (
    "far_day",
    "since",
)  # an infinite date: Debezium's numbers differ between snapshot and log; now()
LAST_NOTE = "the last change"

CREATE: tuple[LiteralString, ...] = (
    "CREATE SCHEMA clinic",
    "CREATE TYPE clinic.mood AS ENUM ('calm', 'worried', 'in pain')",
    """
    CREATE TABLE clinic.everything (
        id integer PRIMARY KEY,
        small smallint, whole integer, big bigint NOT NULL DEFAULT 7,
        single real, twice double precision,
        exact numeric(10, 2), loose numeric, round numeric(6),
        flag boolean DEFAULT true, words text NOT NULL DEFAULT 'none', short varchar(20), fixed char(5),
        bytes bytea, day date, clock time, fine_clock time(3), zone_clock timetz,
        moment timestamp, coarse_moment timestamp(3), second_moment timestamp(0), zone_moment timestamptz,
        span interval, uid uuid, doc json, docb jsonb, markup xml, address inet, net cidr, card macaddr,
        one_bit bit(1), bits bit(5), some_bits bit varying(20), coin money, place point, feeling clinic.mood,
        numbers integer[], texts text[], days date[], exacts numeric(8, 3)[], flags boolean[], range int4range,
        number_oid oid, vector tsvector
    )
    """,
    "CREATE TABLE clinic.visit (patient text, number integer, note text, PRIMARY KEY (patient, number))",
    "CREATE TABLE clinic.wide (id bigint PRIMARY KEY, body text, counter integer NOT NULL)",
    "CREATE TABLE clinic.plain (id serial PRIMARY KEY, name varchar(30) NOT NULL, age integer)",
    "ALTER TABLE clinic.plain REPLICA IDENTITY FULL",
    "CREATE TABLE clinic.moved (id integer PRIMARY KEY, name text, extra integer)",
    "CREATE DOMAIN clinic.age AS smallint CHECK (VALUE >= 0)",
    "CREATE TYPE clinic.pair AS (a integer, b text)",
    """
    CREATE TABLE clinic.odd (
        id uuid PRIMARY KEY, age clinic.age, duo clinic.pair, since timestamp NOT NULL DEFAULT now(),
        price numeric(6, 2) NOT NULL DEFAULT 9.90, rate double precision NOT NULL DEFAULT -1.5,
        code char(3) NOT NULL DEFAULT 'abc', day date NOT NULL DEFAULT '2020-02-02', far_day date,
        far timestamp, far_zone timestamptz, milli_zone timestamptz(3), not_a_number numeric, no_number numeric(5, 1),
        doubled integer GENERATED ALWAYS AS (3 * 2) STORED, moods clinic.mood[], grid integer[][], uids uuid[],
        span interval NOT NULL DEFAULT '1 hour', bits bit varying, zone_clock timetz, "Mixed Case" text
    )
    """,
)

_EVERYTHING: LiteralString = """
    INSERT INTO clinic.everything VALUES (
        {id}, -3, 2147483647, -9223372036854775808, 1.5, -2.25e100, 12345.60, 3.14159265358979, 123456,
        false, 'Zoë says "hi"', 'short', 'ab', '\\x00ff10', '2024-02-29', '23:59:59.123456', '01:02:03.456',
        '10:11:12.345678+02', '2024-02-29 12:34:56.789012', '1969-12-31 23:59:59.999', '2001-01-01 00:00:00',
        '2024-07-01 12:00:00.5+02', '1 year 2 mons 3 days 04:05:06.789', '5c1d9a0e-7a1c-4d53-9a8b-0d6f6a4d2f11',
        '{{"a": [1, 2]}}', '{{"b": null, "a": 1.50}}', '<p>x</p>', '10.0.0.1', '10.1.0.0/16', '08:00:2b:01:02:03',
        B'1', B'10110', B'1100110011', 1234.56, '(1.5,-2)', 'in pain',
        ARRAY[1, NULL, 3], ARRAY['a', 'b,"c"', NULL], ARRAY['2024-01-01'::date], ARRAY[1.5, 2.25], ARRAY[true, false],
        '[1,5)', 4000000000, 'a fat cat'
    )
"""
_NULLS: LiteralString = "INSERT INTO clinic.everything (id) VALUES ({id})"
_EXTREME: LiteralString = """
    INSERT INTO clinic.everything (id, small, single, twice, exact, loose, round, moment, zone_moment, day, span,
        clock, zone_clock, texts, numbers, bytes, some_bits, coin)
    VALUES ({id}, 0, 'NaN', 'Infinity', -0.01, -1200, -5, '0001-01-01 00:00:00', '1900-01-01 00:00:00+00',
        '1582-10-15', '-1 day -00:00:01', '00:00:00', '24:00:00+00', '{{}}', '{{}}', '', B'', -0.05)
"""
_ODD: LiteralString = """
    INSERT INTO clinic.odd (id, age, duo, far_day, far, far_zone, milli_zone, moods, grid, uids, bits, zone_clock,
        "Mixed Case")
    VALUES ('{id}', 40, '(1,x)', 'infinity', 'infinity', '-infinity', '2024-01-01 00:00:00.12+00',
        '{{calm,"in pain"}}', '{{1,2}}', '{{{id}}}', B'101', '10:00:00.5-03:30', 'x')
"""


def _rows(first: int) -> tuple[LiteralString, ...]:
    one, two, three = str(first), str(first + 1), str(first + 2)
    return (_EVERYTHING.format(id=one), _NULLS.format(id=two), _EXTREME.format(id=three))


ROWS: tuple[LiteralString, ...] = (
    *_rows(1),
    "INSERT INTO clinic.visit VALUES ('ann', 1, 'first'), ('ann', 2, NULL), ('bob', 1, 'x')",
    "INSERT INTO clinic.wide SELECT 1, string_agg(md5(i::text), ''), 0 FROM generate_series(1, 500) i",
    "INSERT INTO clinic.plain (name, age) VALUES ('Eva', 40), ('Jo', NULL)",
    "INSERT INTO clinic.moved VALUES (1, 'one', 1)",
    _ODD.format(id="00000000-0000-0000-0000-000000000001"),
)

CHANGES: tuple[tuple[LiteralString, ...], ...] = (
    *((statement,) for statement in _rows(11)),
    ("UPDATE clinic.everything SET words = 'changed', exact = 0.10 WHERE id = 11",),
    ("DELETE FROM clinic.everything WHERE id = 12",),
    (
        "INSERT INTO clinic.visit VALUES ('cleo', 1, 'in a transaction')",
        "UPDATE clinic.visit SET note = 'again' WHERE patient = 'ann'",
        "DELETE FROM clinic.visit WHERE patient = 'bob'",
        "INSERT INTO clinic.plain (name, age) VALUES ('Tim', 3)",
    ),
    ("UPDATE clinic.visit SET number = 9 WHERE patient = 'cleo'",),  # the key changes
    ("UPDATE clinic.wide SET counter = 1 WHERE id = 1",),  # the long value is not in the log
    ("UPDATE clinic.wide SET id = 2 WHERE id = 1",),
    ("UPDATE clinic.plain SET age = 41 WHERE name = 'Eva'",),
    ("DELETE FROM clinic.plain WHERE name = 'Jo'",),
    ("ALTER TABLE clinic.moved ADD COLUMN born date",),
    ("INSERT INTO clinic.moved VALUES (2, 'two', 2, '2020-01-02')",),
    ("ALTER TABLE clinic.moved DROP COLUMN extra", "ALTER TABLE clinic.moved RENAME COLUMN name TO label"),
    ("INSERT INTO clinic.moved VALUES (3, 'three', NULL)",),
    ("ALTER TABLE clinic.moved ALTER COLUMN id TYPE bigint",),
    ("UPDATE clinic.moved SET label = 'drei' WHERE id = 3",),
    ("TRUNCATE clinic.moved, clinic.plain",),
    ("INSERT INTO clinic.plain (name, age) VALUES ('after', 1)",),
    (_ODD.format(id="00000000-0000-0000-0000-000000000002"),),
    ("DELETE FROM clinic.odd WHERE age = 40",),
    ("INSERT INTO clinic.visit VALUES ('zoe', 1, 'the last change')",),
)
