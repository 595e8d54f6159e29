"""The parts that need no server: escaping, exports, series, masks, decoding, sessions."""

from __future__ import annotations

import csv
import io
import json
import shlex
import struct
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from ottla import errors
from ottla.client.errors import ConnectionLost, TimedOut
from ottla.console import (
    decoding,
    export,
    internal,
    layout,
    live,
    reading,
    rendering,
    scrapes,
    sessions,
    svg,
    words,
)
from ottla.console.app import failure
from ottla.console.board import Board
from ottla.console.connectors import ConnectRefused, without_logins, without_secrets
from ottla.console.context import BadRequest
from ottla.console.doorway import Config, Doorway
from ottla.console.markup import escape, join, tag
from ottla.console.masking import HIDDEN, Masks
from ottla.console.model import (
    Cell,
    Column,
    Figure,
    Message,
    Messages,
    Notice,
    Notices,
    Page,
    Part,
    Row,
    Table,
)
from ottla.console.router import find
from ottla.console.schemas import Schemas, split_login
from ottla.console.series import COARSE, FINE, History, Series
from ottla.console.views.messages import time_ms
from ottla.console.views.overview import throttling
from ottla.console.views.tables import matcher, ordered
from ottla.errors import OttlaError
from ottla.security import passwords
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient, RegistryRefused

# -- markup ----------------------------------------------------------------------------------------------


@given(st.text())
def test_a_text_never_becomes_markup(text):
    shown = tag("p", text, title=text)
    inner = shown.removeprefix("<p title=").removesuffix("</p>")
    assert "<" not in inner
    assert inner.count(">") == 1  # of the opening tag
    assert shown.count('"') == 2


def test_markup_is_not_escaped_twice():
    assert join([tag("b", "a & b")]) == "<b>a &amp; b</b>"
    assert escape(escape("<")) == "&lt;"


def test_characters_that_reorder_or_hide_text_are_shown():
    assert escape("a\u202eb\x00\x1b[31m") == "a\\u202eb\\x00\\x1b[31m"


# -- exports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2", "@sum", "\t=1", "\r=1", "\n=1"])
def test_a_formula_is_a_text_in_csv(text):
    assert export.safe_cell(text) == f"'{text}"


def test_numbers_stay_numbers_in_csv():
    assert export.safe_cell(-5) == "-5"
    assert export.safe_cell(None) == ""


def _table(*rows: Row) -> Table:
    return Table(
        "t", [Column("name", "Name"), Column("lag", "Lag", "number"), Column("minute", "", "spark")], rows
    )


def test_json_and_csv_have_the_values_and_not_the_words():
    page = Page(
        "T", "topics", blocks=[_table(Row("a", [Cell("a"), Cell(12_400, "12.4k"), Cell(points=(1.0, 2.0))]))]
    )
    assert json.loads(export.to_json(page))["blocks"][0]["rows"] == [
        {"name": "a", "lag": 12400, "minute": [1.0, 2.0]}
    ]
    assert list(csv.reader(io.StringIO(export.to_csv(page)))) == [["name", "lag"], ["a", "12400"]]


# -- series ----------------------------------------------------------------------------------------------


def test_an_hour_is_kept_and_no_more():
    series = Series()
    for second in range(3 * 3600):
        series.add(float(second), float(second))
    now = 3 * 3600 - 1
    hour = series.last(3600, now)
    assert hour[0][0] >= now - 3600 and hour[-1] == (now, now)
    assert [at for at, _ in hour] == sorted(at for at, _ in hour)
    assert len(series._fine) <= 4 * FINE and len(series._coarse) <= 4 * COARSE
    assert len(series.last(60, now)) == 61
    assert series.values(3) == (now - 2, now - 1, now)


def test_names_are_bounded_and_forgotten():
    history = History(names_max=3)
    for name in "abcd":
        history.add("topic", name, 1.0, 1.0)
    assert history.get("topic", "a").values(1) == ()  # the oldest went
    assert history.get("topic", "d").values(1) == (1.0,)
    history.keep("topic", {"d"})
    assert history.get("topic", "c").values(1) == ()


# -- words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (9_999, "9,999"),
        (12_400, "12.4k"),
        (999_999, "1.0M"),
        (3_100_000, "3.1M"),
        (None, "-"),
    ],
)
def test_counts(value, text):
    assert words.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (5 * 2**30, "5.0 GB"), (-1, "-")]
)
def test_sizes(value, text):
    assert words.size(value) == text


def test_a_time_outside_of_the_calendar_is_a_number():
    assert words.moment(2**62) == f"{2**62} ms"
    assert words.moment(-1) == "no time"
    assert words.moment(0) == "1970-01-01 00:00:00.000"


@pytest.mark.parametrize("text", ["²", "1" * 30, "9" * 5_000, str(2**63), "yesterday"])
def test_a_time_that_is_none_is_a_bad_request(text):
    with pytest.raises(BadRequest, match="time="):
        time_ms(text)


def test_a_time_is_milliseconds_or_a_date():
    assert time_ms(str(2**63 - 1)) == 2**63 - 1
    assert time_ms(" 17 ") == 17
    assert time_ms("1970-01-01T00:00:01") == 1000
    assert time_ms("1969-12-31T23:59:59.999") == 0  # -1 would mean the end of the topic


@pytest.mark.parametrize("text", ["²:1", "0:²", "0:" + "9" * 19, "0:" + "9" * 5_000, "9999999999:0", "0", ""])
def test_positions_that_are_none_are_refused_with_the_form_that_they_have(text):
    with pytest.raises(ValueError, match="is not of the form"):
        reading.parse_positions("t", text)


def test_a_digit_that_is_no_number_is_no_trouble_elsewhere():
    assert words.meaning("retention.ms", "²") == "" == words.meaning("retention.ms", "9" * 5_000)
    page = 'ottla_mirror_lag_records{link="l",topic="t",partition="²"} 5\n'
    series = {"page": scrapes.parsed(page)}
    assert scrapes.rates(series, series, 1.0).links == {"l": {}}


def test_names_with_slashes_stay_whole_in_addresses():
    assert words.group_address("a/b?c&d") == "/group?id=a%2Fb%3Fc%26d"
    _, names = find("/topics/a%2Fb/messages")
    assert names == ["a/b"]
    assert layout.split("/group?id=%2E%2E&x=")[1] == {"id": "..", "x": ""}


# -- decoding --------------------------------------------------------------------------------------------


def test_bytes_are_decoded_by_what_they_are():
    assert decoding.decode(b'{"a": 1}').kind == "json"
    assert decoding.decode(b"{broken").kind == "text"
    assert decoding.decode("grüße".encode()).text == "grüße"
    assert decoding.decode(b"\xff\xfe\x00").kind == "hex"
    assert decoding.decode(b"\x00\x01").kind == "hex"
    assert decoding.decode(b"").kind == "text"


def test_a_large_value_is_cut_also_in_the_middle_of_a_character():
    part = decoding.decode("ä".encode() * 500_000, shown_max=101)
    assert (part.kind, part.cut, part.size) == ("text", True, 1_000_000)
    assert part.text == "ä" * 50


def test_json_that_is_nested_too_deep_is_text():
    assert decoding.decode(b"[" * 30_000 + b"]" * 30_000).kind == "text"


@given(st.binary(max_size=200))
def test_whatever_the_bytes_are_they_are_shown(data):
    part = decoding.decode(data)
    rendering.message(Message("t", 0, 0, 0, part, part, [("h", part)]))


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_broken_internal_records_are_no_trouble(key, value):
    for topic in ("__consumer_offsets", "__transaction_state"):
        internal.parts(topic, key, value)


def test_committed_offsets_are_read():
    key = struct.pack(">hh5sh6si", 1, 5, b"group", 6, b"orders", 2)
    value = struct.pack(">hqih2sq", 3, 42, 7, 2, b"md", 1000)
    shown_key, shown_value = internal.parts("__consumer_offsets", key, value)
    assert shown_key.data == {"group": "group", "topic": "orders", "partition": 2}
    assert shown_value.data == {"offset": 42, "leaderEpoch": 7, "metadata": "md", "commitTimestamp": 1000}


def test_the_command_sends_the_same_record():
    text = '{"a": "it\'s"}'
    record = SimpleNamespace(
        topic="t",
        partition=0,
        offset=1,
        timestamp=0,
        key=b"k\n$(x)",
        value=text.encode(),
        headers=[("h", b"v")],
    )
    shown = decoding.message(record, Masks())
    told = json.loads(shlex.split(shown.command)[2])
    assert told == {"topic": "t", "key": "k\n$(x)", "value": text, "headers": [["h", "v"]]}


HALF = b'{"x": "\\ud83d", "name": "Ada"}'  # valid JSON; half a character that no encoding takes


def _record(data: bytes) -> SimpleNamespace:
    return SimpleNamespace(
        topic="t", partition=0, offset=1, timestamp=0, key=data, value=data, headers=[("h", data)]
    )


@pytest.mark.parametrize("data", [HALF, b'{"x": "\xed\xa0\xbd", "name": "Ada"}'])
@pytest.mark.parametrize("rules", [[], ["t:value.name"]])
def test_half_a_character_in_a_record_is_shown_and_exported(data, rules):
    shown = decoding.message(_record(data), Masks.parse(rules))
    page = Page("T", "topics", blocks=[Messages("records", [shown])])
    assert b"\\ud83d" in rendering.message(shown).encode()
    assert b"\\ud83d" in export.messages_csv([shown]).encode()
    rows = [
        json.loads(export.messages_jsonl([shown]).encode()),
        json.loads(export.to_json(page).encode())["blocks"][0]["messages"][0],
    ]
    for row in rows:
        assert [row["key"]["x"], row["value"]["x"], row["headers"][0]["value"]["x"]] == ["\ud83d"] * 3


def test_the_command_sends_half_a_character_as_its_escape():
    line = json.loads(shlex.split(decoding.message(_record(HALF), Masks()).command)[2])
    assert line["value"].encode() == HALF


def test_a_field_is_hidden_beside_half_a_character():
    shown, hidden = Masks.parse(["t:value.name"]).masked("value", HALF)
    assert hidden and json.loads(shown) == {"x": "\ud83d", "name": HIDDEN}


def test_half_a_character_in_any_text_of_a_page_is_sent():
    page = Page("T", "topics", blocks=[_table(Row("a", [Cell("\ud83d"), Cell(1), Cell(points=())]))])
    assert json.loads(export.to_json(page).encode())["blocks"][0]["rows"][0]["name"] == "\ud83d"
    assert b"\\ud83d" in export.to_csv(page).encode()
    assert tag("p", "\ud83d").encode() == b"<p>\\ud83d</p>"
    assert live._event("html", {"html": "\ud83d"}).encode()


# -- masks -----------------------------------------------------------------------------------------------


def test_fields_are_hidden_at_any_depth_and_in_lists():
    masks = Masks.parse(["patient-*:value.person.name", "patient-*:value.items.price"])
    data = b'{"person": {"name": "Ada", "ward": 3}, "items": [{"price": 1}, {"price": 2}]}'
    shown, hidden = masks.of("patient-vitals").masked("value", data)
    assert hidden
    assert json.loads(shown) == {
        "person": {"name": HIDDEN, "ward": 3},
        "items": [{"price": HIDDEN}, {"price": HIDDEN}],
    }
    assert masks.of("other").masked("value", data) == (data, False)


def test_what_cannot_be_parsed_is_hidden_whole():
    masks = Masks.parse(["t:value.name"])
    assert masks.masked("value", b'{"name": "Ada"') == (HIDDEN.encode(), True)


def test_keys_and_headers_are_hidden():
    masks = Masks.parse(["t:key", "t:header.auth*"])
    record = SimpleNamespace(
        topic="t",
        partition=0,
        offset=1,
        timestamp=0,
        key=b"secret",
        value=b"v",
        headers=[("authorization", b"x"), ("trace", b"y")],
    )
    shown = decoding.message(record, masks)
    assert shown.key.text == HIDDEN and shown.key.masked
    assert [part.text for _, part in shown.headers] == [HIDDEN, "y"]
    assert shown.command == ""  # it would send what is hidden, or not the same record


@pytest.mark.parametrize("text", ["", "topic", "topic:", "topic:body", "topic:value.", ":key"])
def test_a_rule_that_says_nothing_is_refused(text):
    with pytest.raises(ValueError, match="is not a mask"):
        Masks.parse([text])


# -- sessions --------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_token_lets_one_browser_in():
    known = sessions.Sessions()
    token = known.issue_token("ada")
    session = known.redeem(token)
    assert session.viewer == "ada" and known.get(session.id) is session
    assert known.redeem(token) is None
    assert known.redeem("guess") is None


def test_a_session_ends_when_it_is_idle():
    clock = Clock()
    known = sessions.Sessions(clock)
    session = known.open("ada")
    clock.now = sessions.IDLE_S - 1
    assert known.get(session.id) is session
    clock.now += sessions.IDLE_S + 1
    assert known.get(session.id) is None


def test_sessions_are_bounded():
    known = sessions.Sessions()
    first = known.open("a")
    for _ in range(sessions.SESSIONS_MAX):
        known.open("b")
    assert known.get(first.id) is None


def test_guessing_ends():
    clock = Clock()
    known = sessions.Sessions(clock)
    for _ in range(sessions.FAILURES_MAX):
        assert known.may_try("10.0.0.1")
        known.on_failure("10.0.0.1")
    assert not known.may_try("10.0.0.1") and known.may_try("10.0.0.2")
    clock.now = sessions.FAILURES_S + 1
    assert known.may_try("10.0.0.1")


@pytest.mark.parametrize(
    ("token", "origin", "site", "forged"),
    [
        ("right", "http://127.0.0.1:8181", "same-origin", False),
        ("right", None, None, False),
        ("wrong", "http://127.0.0.1:8181", "same-origin", True),
        (None, "http://127.0.0.1:8181", "same-origin", True),
        ("right", "http://evil.example", None, True),
        ("right", "null", None, True),
        ("right", None, "cross-site", True),
    ],
)
def test_a_change_comes_from_our_own_pages(token, origin, site, forged):
    session = sessions.Session("id", "ada", "right", 0.0)
    assert sessions.is_forged(session, token, origin, "127.0.0.1:8181", site) is forged


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8181", True),
        ("LOCALHOST:8181", True),
        ("[::1]:8181", True),
        ("127.0.0.1", True),
        ("evil.example:8181", False),
        ("127.0.0.1:9999", False),
        ("127.0.0.1.evil.example:8181", False),
        ("", False),
        (None, False),
    ],
)
def test_only_our_own_names_are_answered(host, ours):
    assert sessions.is_ours(host, ("127.0.0.1", "localhost", "[::1]"), 8181) is ours


@pytest.mark.parametrize(
    ("config", "headers", "secure"),
    [
        ({"tls": True}, {"host": "localhost:1"}, True),
        ({}, {"host": "localhost:1"}, False),
        ({}, {"host": "localhost:1", "x-forwarded-proto": "https"}, False),
        ({"login_https": True}, {"host": "console.example", "x-forwarded-proto": "https"}, True),
        ({"login_https": True}, {"host": "console.example"}, False),
    ],
)
def test_the_cookie_is_secure_where_the_browser_has_tls_also_of_a_proxy(config, headers, secure):
    doorway = Doorway(Config({"bootstrap.servers": "127.0.0.1:1"}, 1, **config))
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = Request(
        {"type": "http", "method": "GET", "path": "/", "query_string": b"", "scheme": "http", "headers": sent}
    )
    entered = doorway.redeem(request, doorway.sessions.issue_token("me"))
    assert entered.status_code == 303
    assert ("; secure" in entered.headers["set-cookie"].lower()) == secure


def test_passwords_are_kept_as_hashes():
    hashed = passwords.hash_password("open sesame", b"salt")
    assert "sesame" not in hashed
    assert passwords.is_password("open sesame", hashed)
    assert not passwords.is_password("open barley", hashed)
    assert not passwords.is_password("", "scrypt$00$00")
    assert passwords.read_users(f"# staff\nada:{hashed}\n") == {"ada": hashed}
    with pytest.raises(ValueError, match="line 1"):
        passwords.read_users("ada:plain")


# -- tables ----------------------------------------------------------------------------------------------


def test_a_filter_is_a_part_of_the_name_or_a_pattern():
    assert matcher("ORD")("orders") and not matcher("x")("orders")
    assert matcher("/^ord.*s$/")("orders") and not matcher("/^x/")("orders")
    with pytest.raises(BadRequest, match="not a pattern"):
        matcher("/(/")


def test_a_pattern_that_would_take_for_ever_elsewhere_ends():
    assert not matcher("/(a+)+$/")("a" * 5000 + "b")


def test_what_has_no_value_goes_last_in_both_orders():
    keys = {"lag": lambda each: each}
    assert ordered([3, None, 5], "lag", keys) == [3, 5, None]
    assert ordered([3, None, 5], "-lag", keys) == [5, 3, None]


# -- live ------------------------------------------------------------------------------------------------


def _blocks() -> rendering.Blocks:
    return rendering.Blocks("csrf", "/", lambda key: f"/?sort={key}")


def test_only_what_has_changed_is_sent():
    def page(lag: int, names: str = "ab", notice: str = "fine") -> Page:
        rows = [
            Row(name, [Cell(name), Cell(lag if name == "a" else 0), Cell(points=(1.0,))]) for name in names
        ]
        return Page(
            "T",
            "t",
            figures=[Figure("f", "F", 1)],
            blocks=[_table(*rows), Notices("n", [Notice("good", notice)])],
        )

    shown = live.Shown()
    assert set(live.differences(shown, page(1), _blocks())) == {"cells", "blocks", "rows", "order"}
    assert live.differences(shown, page(1), _blocks()) == {}
    assert live.differences(shown, page(2), _blocks()) == {"cells": {"t/a/lag": "2"}}
    other_rows = live.differences(shown, page(2, "abc"), _blocks())
    assert list(other_rows) == ["blocks"] and list(other_rows["blocks"]) == ["block/t"]
    told = live.differences(shown, page(2, "abc", "not <fine>"), _blocks())
    assert "not &lt;fine&gt;" in told["blocks"]["block/n"]


def test_a_sparkline_stays_in_its_frame():
    drawn = svg.sparkline((0.0, 5.0, 1e9))
    numbers = [
        float(each)
        for path in drawn.split(' d="')[1:]
        for each in path.split('"')[0].replace("M", "").replace("L", "").replace("Z", "").split()
    ]
    assert all(0 <= each <= svg.WIDTH for each in numbers)
    assert svg.sparkline(()).count("path") == 0


# -- pages of metrics ------------------------------------------------------------------------------------

PAGE = """# TYPE kafka_server_brokertopicmetrics_bytesout_total counter
kafka_server_brokertopicmetrics_bytesout_total 300.0
kafka_server_brokertopicmetrics_bytesout_total{topic="a"} 100.0
kafka_server_brokertopicmetrics_bytesout_total{topic="b"} 200.0
ottla_throttles_total{api="Produce"} 7
ottla_throttle_seconds_total{api="Produce"} 1.5
ottla_mirror_lag_records{link="A->B",topic="t \\"x\\"",partition="3"} 42
ottla_mirror_lag_seconds{link="A->B",topic="t \\"x\\"",partition="3"} 2.5
ottla_mirror_running{link="A->B"} 1
something_else 9
"""


def test_the_total_of_a_metrics_page_is_counted_once():
    assert scrapes.bytes_out(scrapes.parsed(PAGE)) == 300.0
    assert scrapes.bytes_out(scrapes.parsed("\n".join(PAGE.splitlines()[2:]))) == 300.0
    assert scrapes.bytes_out(scrapes.parsed("")) == 0.0
    assert scrapes.check_address("localhost:9100") == "http://localhost:9100/metrics"
    with pytest.raises(ValueError, match="is not the address"):
        scrapes.check_address("file:///etc/passwd")


def test_throttles_and_lags_are_read_from_metrics_pages():
    before = scrapes.parsed(PAGE)
    after = scrapes.parsed(PAGE.replace('Produce"} 7', 'Produce"} 17').replace("} 1.5", "} 4.0"))
    told = scrapes.rates({"page": before}, {"page": after}, 5.0)
    assert told.bytes_out == 0.0
    assert told.throttles == {"Produce": 2.0} and told.throttle_s == {"Produce": 0.5}
    assert told.links == {"A->B": {('t "x"', 3): {"lag_records": 42.0, "lag_seconds": 2.5}}}
    # The first look knows no rates; a counter that is smaller belongs to a broker that was started again.
    assert scrapes.rates({}, {"page": after}, 5.0).throttles == {}
    assert scrapes.rates({"page": after}, {"page": before}, 5.0).throttles == {}
    (notice,) = throttling(told)
    assert notice.text.startswith("Producers are slowed down by quotas: 2.0 answers a second")


# -- schemas and connectors ------------------------------------------------------------------------------


class FakeRegistry(RegistryClient):
    """Refuses, and counts how often it is asked."""

    def __init__(self, error):
        super().__init__("http://nowhere")
        self.error, self.asked = error, 0

    def schema(self, schema_id, *, form=""):
        self.asked += 1
        raise self.error


def test_a_number_that_is_no_schema_is_asked_about_once_in_a_while():
    now = [0.0]
    client = FakeRegistry(RegistryRefused(404, 40403, "Schema not found"))
    schemas = Schemas(client, clock=lambda: now[0])
    for _ in range(100):
        assert schemas.decoded(b"\0\0\0\0\7abc", [], "value") is None
    assert client.asked == 1 and not schemas.is_away
    now[0] = 31.0
    assert schemas.decoded(b"\0\0\0\0\7abc", [], "value") is None
    assert client.asked == 2


def test_a_registry_that_does_not_answer_is_left_alone_for_a_while():
    now = [0.0]
    client = FakeRegistry(OttlaError("no schema registry answers"))
    schemas = Schemas(client, clock=lambda: now[0])
    for number in range(50):
        assert schemas.decoded(b"\0\0\0\0" + bytes([number]), [], "key") is None
    assert client.asked == 1 and schemas.is_away and "no schema registry" in schemas.trouble
    now[0] = 11.0
    assert not schemas.is_away


@pytest.mark.parametrize("data", [b"", None, b"\0\0\0", b"text", b"\1\0\0\0\7abc", b"\0" * (2 << 20)])
def test_bytes_without_a_schema_are_not_asked_about(data):
    client = FakeRegistry(AssertionError("asked"))
    assert Schemas(client).decoded(data, [("__value_schema_id", b"short")], "value") is None


class OneSchema(RegistryClient):
    """Has one schema, under every id."""

    def __init__(self, schema):
        super().__init__("http://nowhere")
        self.text = json.dumps(schema)

    def schema(self, schema_id, *, form=""):
        return RegisteredSchema(schema_id, self.text)


EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "nothing", "type": "null"}]}
CHAIN = {
    "type": "record",
    "name": "Chain",
    "namespace": "a",
    "fields": [{"name": "next", "type": ["null", "Chain"]}],
}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\x01\0"),
        ({"type": "array", "items": EMPTY}, b"\xfe\xff\xff\xff\xff\xff\x01\0"),
        ({"type": "map", "values": {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}},
         b"\2\0\xfe\xff\xff\xff\xff\xff\x01\0\0"),
        ({"type": "record", "name": "R", "fields": [
            {"name": "e", "type": EMPTY}, {"name": "l", "type": {"type": "array", "items": "Empty"}}]},
         b"\xfe\xff\xff\xff\xff\xff\x01\0"),
        (CHAIN, b"\2" * 5_000 + b"\0"),
    ],
)  # fmt: skip
def test_an_avro_value_that_costs_more_than_its_bytes_is_not_decoded(schema, payload):
    """Eight bytes would become a list of a hundred billion; a few thousand levels crash fastavro, and the process."""
    decoded = Schemas(OneSchema(schema)).decoded(b"\0\0\0\0\1" + payload, [], "value")
    assert decoded.data is None and (
        "more items than bytes" in decoded.trouble or "too deep" in decoded.trouble
    )


def test_avro_values_that_refer_to_their_own_kind_are_decoded_while_they_are_small():
    decoded = Schemas(OneSchema(CHAIN)).decoded(b"\0\0\0\0\1\2\2\0", [], "value")
    assert json.loads(decoded.data) == {"next": {"next": {"next": None}}}
    listed = {
        "type": "array",
        "items": {"type": "record", "name": "R", "fields": [{"name": "i", "type": "int"}]},
    }
    decoded = Schemas(OneSchema(listed)).decoded(b"\0\0\0\0\1\2\4\0", [], "value")
    assert json.loads(decoded.data) == [{"i": 2}]


def test_half_a_character_in_a_value_with_a_schema_is_decoded():
    class JsonSchema(OneSchema):
        def schema(self, schema_id, *, form=""):
            return RegisteredSchema(schema_id, self.text, "JSON")

    decoded = Schemas(JsonSchema({"type": "object"})).decoded(b"\0\0\0\0\1" + HALF, [], "value")
    assert not decoded.trouble and json.loads(decoded.data)["x"] == "\ud83d"


def test_logins_are_taken_out_of_addresses():
    assert split_login("http://me:pass@host:8081/") == ("http://host:8081", ("me", "pass"))
    assert split_login("host:8081") == ("http://host:8081", None)
    with pytest.raises(ValueError, match="is not an address"):
        split_login("file:///etc/passwd")


def test_secrets_of_connectors_are_hidden():
    settings = {
        "connection.password": "hunter2",
        "aws.secret.access.key": "s3",
        "api.key": "k",
        "sasl.jaas.config": "password=x",
        "declared": "also",
        "connection.url": "jdbc:postgresql://me:pw@host/db",
        "key.converter": "StringConverter",
        "message.key.columns": "id",
        "topics": "orders",
        "database.password": "${file:/run/secrets:pw}",
    }
    shown = without_secrets(settings, frozenset({"declared"}))
    hidden = {name for name, value in shown.items() if value == "•••"}
    assert hidden == {
        "connection.password",
        "aws.secret.access.key",
        "api.key",
        "sasl.jaas.config",
        "declared",
    }
    assert shown["connection.url"] == "jdbc:postgresql://•••@host/db"
    assert (
        shown["database.password"] == "${file:/run/secrets:pw}"
        and shown["key.converter"] == "StringConverter"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("value.converter.basic.auth.user.info", "APIKEY:hunter2"),
        ("schema.registry.basic.auth.user.info", "k:hunter2"),
        ("connection.url", "jdbc:mysql://h/db?user=u&password=hunter2"),
        ("connection.url", "jdbc:sqlserver://h;user=u;Password=hunter2;encrypt=true"),
        ("connection.url", "postgres://u:p/hunter2@h/db"),
        ("connection.url", "postgres://u:p@hunter2@h/db"),
        ("http.headers", "Authorization: Bearer hunter2"),
        ("http.headers.additional", "Authorization: Bearer hunter2"),
        ("http.authorization", "Bearer hunter2"),
        ("producer.override.options", 'username="u" password="my hunter2";'),
        ("options", '{"password": "hunter2"}'),
    ],
)
def test_secrets_within_settings_and_traces_are_hidden(name, value):
    assert "hunter2" not in json.dumps(without_secrets({name: value}, frozenset()))


def test_a_trace_is_shown_without_the_logins_in_it():
    trace = (
        "at jdbc:mysql://h/db?password=hunter2&ssl=true\n\tvia http://u:a/hunter2@h:80/x\n"
        "Authorization: Basic hunter2"
    )
    assert without_logins(trace) == (
        "at jdbc:mysql://h/db?password=•••&ssl=true\n\tvia http://•••@h:80/x\nAuthorization: Basic •••"
    )


def test_settings_without_secrets_are_shown_as_they_are():
    settings = {
        "connection.url": "jdbc:mysql://h/db?user=u&password=${env:PW}",
        "errors.deadletterqueue.context.headers.enable": "true",
        "header.converter": "StringConverter",
        "topics": "a@b",
        "url": "http://host:80/a?b=c",
    }
    assert without_secrets(settings, frozenset()) == settings


def test_a_trace_of_many_addresses_is_searched_for_logins_in_linear_time():
    trace = "://" * 300_000
    assert without_logins(trace) == trace


# -- the board of home care ------------------------------------------------------------------------------


def test_the_board_knows_who_is_offline_and_who_needs_a_nurse():
    board = Board()
    board.on_record("device-event", b'{"at": 1, "device": "d1", "state": "offline"}')
    board.on_record("device-event", b'{"at": 2, "device": "d2", "state": "offline"}')
    board.on_record("device-event", b'{"at": 3, "device": "d1", "state": "online"}')
    alert = {"patient": "p1", "level": "critical", "since": 5, "at": 6, "nurse": "n", "ward": "w"}
    board.on_record("nurse-alert", json.dumps(alert).encode())
    board.on_record("nurse-alert", b"not json")
    board.on_record("device-event", None)
    assert list(board.offline) == ["d2"]
    assert board.alerting["p1"].level == "critical"
    board.on_record("nurse-alert", json.dumps({**alert, "level": "clear"}).encode())
    assert not board.alerting
    assert board.recent[0][1] == "p1: all clear"


def test_an_empty_list_of_records_is_rendered():
    assert "No records here." in rendering.content(Messages("m", []))
    assert "null" in rendering.message(Message("t", 0, 0, -1, Part("none", "", 0), Part("none", "", 0), []))


@pytest.mark.parametrize(
    ("setting", "value", "meaning"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "-1", ""),
        ("segment.bytes", "1073741824", "1 GB"),
        ("flush.messages", "9223372036854775807", "no limit"),
        ("linger.ms", "5", ""),
        ("cleanup.policy", "delete", ""),
        ("retention.bytes", None, ""),
    ],
)
def test_a_setting_says_what_its_number_means(setting, value, meaning):
    assert words.meaning(setting, value) == meaning


@pytest.mark.parametrize(
    ("action", "error", "known"),
    [
        ("create-topic", BadRequest("name is missing"), "Nothing was changed"),
        ("create-topic", errors.TopicAlreadyExists(), "The change was refused"),
        ("create-topic", errors.RequestTimedOut(), "It is not known what was changed"),
        ("create-topic", TimedOut("no answer"), "It is not known what was changed"),
        ("delete-topic", ConnectionLost("closed"), "It is not known what was changed"),
        ("elect-leaders", BadRequest("t-1: no replica in sync"), "Not everything was changed"),
        ("elect-leaders", TimedOut("no answer"), "It is not known what was changed"),
        ("truncate", BadRequest("to confirm, type t exactly"), "Nothing was changed"),
        ("truncate", errors.PolicyViolation(), "Not everything was changed"),
        ("connector", ConnectRefused("no such connector", 404), "The change was refused"),
        ("connector", ConnectRefused("no worker answers"), "It is not known what was changed"),
        ("set-level", RegistryRefused(422, 42203, "no such level"), "The change was refused"),
        ("register-schema", RegistryRefused(500, 50002, "timed out"), "It is not known what was changed"),
    ],
)
def test_a_change_that_failed_is_told_with_what_is_known_of_it(action, error, known):
    assert failure(action, error) == f"{known}: {error}"
