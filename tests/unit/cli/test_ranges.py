import pytest

from ottla.cli.options import UsageError
from ottla.cli.ranges import END, START, STORED, Bound, Range, parse, parse_all, resolve

NOW = 1_000_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Range(START)),
        ("beginning", Range(START)),
        ("end", Range(END)),
        ("stored", Range(STORED)),
        ("17", Range(Bound("offset", 17))),
        ("+3", Range(Bound("from_start", 3))),
        ("-3", Range(Bound("from_end", 3))),
        ("5:9", Range(Bound("offset", 5), Bound("offset", 9))),
        (":end", Range(START, END)),
        ("start:end", Range(START, END)),
        ("-10:end", Range(Bound("from_end", 10), END)),
        ("5:", Range(Bound("offset", 5))),
        ("@1600000000000", Range(Bound("time", 1_600_000_000_000))),
        ("@1600000000", Range(Bound("time", 1_600_000_000_000))),
        ("@-2h:-1h", Range(Bound("time", NOW - 2 * HOUR), Bound("time", NOW - HOUR))),
        ("@2020-01-01:2020-01-02", Range(Bound("time", 1_577_836_800_000), Bound("time", 1_577_923_200_000))),
        (
            "@2020-01-01T00:00:00Z:2020-01-01T01:00:00Z",
            Range(Bound("time", 1_577_836_800_000), Bound("time", 1_577_836_800_000 + HOUR)),
        ),
        ("@-2h:end", Range(Bound("time", NOW - 2 * HOUR), END)),
        ("s@5000000000000", Range(Bound("time", 5_000_000_000_000))),
        ("e@5000000000000", Range(START, Bound("time", 5_000_000_000_000))),
    ],
)
def test_the_grammar_of_rpk_and_kcat_is_understood(text: str, expected: Range) -> None:
    assert parse(text, NOW) == expected


@pytest.mark.parametrize("text", ["middle", "5:x", "@yesterday", "@-2q", "--3", "1.5"])
def test_anything_else_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text, NOW)


def test_kcats_two_options_are_one_range() -> None:
    assert parse_all(["s@5000000000000", "e@6000000000000"], NOW) == Range(
        Bound("time", 5_000_000_000_000), Bound("time", 6_000_000_000_000)
    )


def test_bounds_become_offsets_within_each_partition() -> None:
    starts, ends = {("t", 0): 10, ("t", 1): 0}, {("t", 0): 20, ("t", 1): 2}
    assert resolve(Bound("from_end", 5), starts, ends, {}) == {("t", 0): 15, ("t", 1): 0}
    assert resolve(Bound("from_start", 1), starts, ends, {}) == {("t", 0): 11, ("t", 1): 1}
    assert resolve(Bound("time", 7), starts, ends, {7: {("t", 0): 12}}) == {("t", 0): 12, ("t", 1): 2}
