"""printf-like formats: kcat's and rpk's letters for printing records, and for reading them in."""

import base64
import re
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.cli.options import UsageError
from ottla.cli.times import utc
from ottla.client.values import ConsumerRecord

LETTERS = (
    "%t topic, %p partition, %o offset, %k key, %v or %s value, %h headers, %T timestamp in ms, "
    "%d{strftime[%F]} time (in ms beyond the year 9999), %K %V %S sizes, %H number of headers, %e leader epoch, "
    "%i count, %% percent; "
    "{hex} {base64} for bytes, {hex8} {big32} {little16} {byte} and so on for numbers; \\n \\t \\xff"
)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(
    r"%(?P<letter>.)(?:\{(?P<how>[^{}\[]*(?:\[[^\]]*\])?)\})?|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)",
    re.S,
)
_NUMBERS = {"8": "b", "16": "h", "32": "i", "64": "q"}
Part = bytes | Callable[[ConsumerRecord, int], bytes]


def compile_format(text: str) -> Callable[[ConsumerRecord, int], bytes]:
    """A function of (record, how many before it) to bytes."""
    parts: list[Part] = []
    for literal, letter, how in _tokens(text):
        parts.append(_printer(letter, how) if letter else literal)

    def render(record: ConsumerRecord, count: int) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record, count) for part in parts)

    return render


def _tokens(text: str) -> Iterator[tuple[bytes, str, str]]:
    """(literal, "", "") or (b"", letter, modifier)."""
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() > end:
            yield text[end : token.start()].encode(), "", ""
        end = token.end()
        if token["letter"] == "%":
            yield b"%", "", ""
        elif token["letter"]:
            yield b"", token["letter"], token["how"] or ""
        elif token["hex"]:
            yield bytes([int(token["hex"], 16)]), "", ""
        else:
            yield _ESCAPES.get(token["escape"], b"\\" + token["escape"].encode()), "", ""
    if end < len(text):
        yield text[end:].encode(), "", ""


def _printer(letter: str, how: str) -> Callable[[ConsumerRecord, int], bytes]:
    match letter:
        case "k":
            convert = _bytes_printer(how)
            return lambda r, _: convert(r.key)
        case "v" | "s":
            convert = _bytes_printer(how)
            return lambda r, _: convert(r.value)
        case "t":
            convert = _bytes_printer(how)
            return lambda r, _: convert(r.topic.encode())
        case "h":
            return lambda r, _: b",".join(name.encode() + b"=" + (value or b"") for name, value in r.headers)
        case "d":
            pattern = re.fullmatch(r"strftime\[(.*)\]", how)
            return lambda r, _: _time(r.timestamp, pattern[1] if pattern else "%Y-%m-%dT%H:%M:%S.%fZ")
    source = _NUMBER_OF.get(letter)
    if source is None:
        raise UsageError(f"%{letter} is unknown; there are {LETTERS}")
    number = _number_printer(how)
    return lambda r, count: number(source(r, count))


_NUMBER_OF: dict[str, Callable[[ConsumerRecord, int], int]] = {
    "p": lambda r, _: r.partition,
    "o": lambda r, _: r.offset,
    "T": lambda r, _: r.timestamp,
    "K": lambda r, _: -1 if r.key is None else len(r.key),
    "V": lambda r, _: -1 if r.value is None else len(r.value),
    "S": lambda r, _: -1 if r.value is None else len(r.value),
    "H": lambda r, _: len(r.headers),
    "e": lambda r, _: r.leader_epoch,
    "i": lambda _, count: count,
}


def _bytes_printer(how: str) -> Callable[[bytes | None], bytes]:
    match how:
        case "":
            return lambda data: data or b""
        case "hex":
            return lambda data: (data or b"").hex().encode()
        case "base64":
            return lambda data: base64.b64encode(data or b"")
    raise UsageError(f"{{{how}}} is unknown for bytes; there are {{hex}} and {{base64}}")


def _number_printer(how: str) -> Callable[[int], bytes]:
    if how in ("", "ascii", "number"):
        return lambda number: b"%d" % number
    if how == "byte":
        return lambda number: bytes([number & 0xFF])
    width = re.fullmatch(r"(hex|big|little)(8|16|32|64)", how)
    if width is None:
        raise UsageError(
            f"{{{how}}} is unknown for numbers; use {{ascii}}, {{hex8}}, {{big32}}, {{little64}} or {{byte}}"
        )
    bits = int(width[2])
    if width[1] == "hex":
        return lambda number: b"%0*x" % (bits // 4, number & ((1 << bits) - 1))
    layout = struct.Struct((">" if width[1] == "big" else "<") + _NUMBERS[width[2]].upper())
    return lambda number: layout.pack(number & ((1 << bits) - 1))


def _time(timestamp_ms: int, pattern: str) -> bytes:
    moment = utc(timestamp_ms)
    if moment is None:
        return b"%d" % timestamp_ms
    stamp = moment.strftime(pattern)
    return (stamp[:-4] + "Z" if pattern.endswith("%fZ") else stamp).encode()


class Parsed(NamedTuple):
    """A record read from input."""

    key: bytes | None = None
    value: bytes | None = None
    topic: str | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def compile_parser(text: str) -> tuple["re.Pattern[bytes]", bytes]:
    """A pattern for one record of input by letters (%k %v %t %p %T %h), and the bytes that end it."""
    tokens = list(_tokens(text))
    ending = b""
    while tokens and not tokens[-1][1]:
        ending = tokens.pop()[0] + ending
    if not tokens:
        raise UsageError(f"{text!r} reads nothing; use letters such as %k and %v")
    pattern = b""
    for i, (literal, letter, _) in enumerate(tokens):
        if not letter:
            pattern += re.escape(literal)
        elif letter in "kvsptTh":
            name = {"s": "v"}.get(letter, letter)
            pattern += f"(?P<{name}>".encode() + (b".*" if i == len(tokens) - 1 else b".*?") + b")"
        else:
            raise UsageError(f"%{letter} cannot be read; use %k %v %t %p %T %h")
    return re.compile(pattern, re.S), ending


def parse_line(pattern: "re.Pattern[bytes]", line: bytes) -> Parsed:
    match = pattern.fullmatch(line)
    if match is None:
        raise UsageError(f"{line[:80]!r} does not have the form that -f asks for")
    fields = {name: match[name] for name in pattern.groupindex}
    headers = tuple(
        (name.decode(), value)
        for name, _, value in (
            header.partition(b"=") for header in fields.get("h", b"").split(b",") if header
        )
    )
    return Parsed(
        fields.get("k"),
        fields.get("v"),
        fields["t"].decode() if "t" in fields else None,
        int(fields["p"]) if "p" in fields else None,
        int(fields["T"]) if "T" in fields else None,
        headers,
    )
