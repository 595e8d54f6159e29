import re

import pytest

from ottla.cli import transactions
from ottla.cli.formats import Parsed, compile_format, compile_parser, parse_line
from ottla.cli.options import UsageError
from ottla.client.values import ConsumerRecord

RECORD = ConsumerRecord(
    "top", 3, 258, 1_600_000_000_123, b"k\xff", b"value", (("h", b"1"), ("n", None)), 0, 5
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t-%p@%o %k=%s\\n", b"top-3@258 k\xff=value\n"),
        ("%v %V %S %K %H %e %i %%", b"value 5 5 2 2 5 7 %"),
        ("%h", b"h=1,n="),
        ("%T", b"1600000000123"),
        ("%k{hex} %k{base64}", b"6bff a/8="),
        ("%o{big16}%o{little16}%o{hex16}%p{byte}", b"\x01\x02\x02\x010102\x03"),
        ("%d{strftime[%Y-%m-%d]}", b"2020-09-13"),
        ("%d", b"2020-09-13T12:26:40.123Z"),
        ("\\t\\x41\\\\\\r", b"\tA\\\r"),
        ("", b""),
    ],
)
def test_letters_of_kcat_and_rpk(text: str, expected: bytes) -> None:
    assert compile_format(text)(RECORD, 7) == expected


def test_null_keys_and_values_print_as_nothing_with_size_minus_one() -> None:
    record = RECORD._replace(key=None, value=None)
    assert compile_format("[%k|%v|%K|%V]")(record, 0) == b"[||-1|-1]"


@pytest.mark.parametrize("stamp_ms", [2**63 - 1, -(2**63), 253_402_300_800_000])
def test_a_time_beyond_all_calendars_is_printed_in_milliseconds(stamp_ms: int) -> None:
    record = RECORD._replace(timestamp=stamp_ms)
    assert compile_format("%d %d{strftime[%F]}")(record, 0) == b"%d %d" % (stamp_ms, stamp_ms)
    assert transactions._time(abs(stamp_ms)) == str(abs(stamp_ms))


@pytest.mark.parametrize("text", ["%q", "%k{rot13}", "%o{big12}"])
def test_unknown_letters_are_refused_with_the_list(text: str) -> None:
    with pytest.raises(UsageError, match="unknown"):
        compile_format(text)


def test_input_is_read_by_the_same_letters() -> None:
    pattern, ending = compile_parser("%t:%p %k=%v\\n")
    assert ending == b"\n"
    assert parse_line(pattern, b"top:2 key=a=b") == Parsed(b"key", b"a=b", "top", 2)
    with pytest.raises(UsageError, match="form"):
        parse_line(pattern, b"nonsense")


@pytest.mark.parametrize("text", ["\\n", "%o %v\\n"])
def test_input_formats_that_read_nothing_useful_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        compile_parser(text)


def test_headers_are_read_too() -> None:
    pattern, _ = compile_parser("%h|%v")
    assert isinstance(pattern, re.Pattern)
    assert parse_line(pattern, b"a=1,b=2|x").headers == (("a", b"1"), ("b", b"2"))
