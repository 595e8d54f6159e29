"""Bytes of a record as people read them: JSON, text, or hexadecimal; by a registry's schemas where there is one;
internal topics by their own formats."""

import base64
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ottla.console import internal, json_text
from ottla.console.masking import HIDDEN, Masks
from ottla.console.model import Message, Part
from ottla.console.schemas import Decoded, Schemas

SHOWN_MAX = 64 * 1024  # bytes of a key or value; a megabyte of text would stall a browser
HEX_MAX = 4 * 1024
DEPTH_SPARE = 200  # levels of JSON, or frames of the stack: Python counts them together
_NONE = Part("none", "", 0)


def message(
    record: Any,
    masks: Masks,
    *,
    shown_max: int | None = SHOWN_MAX,
    with_command: bool = True,
    schemas: Schemas | None = None,
) -> Message:
    """A consumer record, decoded and masked; whole if `shown_max` is None. With `schemas` it may wait for the
    registry: call it in a thread."""
    rules = masks.of(record.topic) if masks else masks
    key, value = internal.parts(record.topic, record.key, record.value) or (None, None)
    if key is None or value is None:
        key = part(record.key, rules, "key", shown_max, _decoded(schemas, record, "key"))
        value = part(record.value, rules, "value", shown_max, _decoded(schemas, record, "value"))
    headers = [(name, _header(name, data, rules, shown_max)) for name, data in record.headers]
    shown = Message(record.topic, record.partition, record.offset, record.timestamp, key, value, headers)
    return replace(shown, command=command(shown)) if with_command else shown


def _decoded(schemas: Schemas | None, record: Any, field: str) -> Decoded | None:
    data = record.key if field == "key" else record.value
    return None if schemas is None else schemas.decoded(data, record.headers, field)


def part(
    data: bytes | None,
    masks: Masks,
    name: str,
    shown_max: int | None = SHOWN_MAX,
    decoded: Decoded | None = None,
) -> Part:
    if data is None:
        return _NONE
    size = len(data)
    if decoded is not None and decoded.data is not None:
        data = decoded.data
    data, hidden = masks.masked(name, data) if masks else (data, False)
    shown = decode(data or b"", size, hidden, shown_max)
    return shown if decoded is None else replace(shown, schema=decoded.schema, trouble=decoded.trouble)


def decode(
    data: bytes, size: int | None = None, masked: bool = False, shown_max: int | None = SHOWN_MAX
) -> Part:
    """The kind is told by the bytes alone."""
    whole = len(data) if size is None else size
    if shown_max is None:
        return _whole(data, whole, masked)
    cut = len(data) > shown_max
    if data[:1] in (b"{", b"[") and not cut:
        try:
            value = json.loads(data)
            return Part("json", json_text.dumps(value, indent=2), whole, value, masked=masked)
        except (ValueError, RecursionError):
            pass
    shown = data[:shown_max]
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        # A text that was cut in the middle of a character is a text.
        if not (cut and error.start >= len(shown) - 3):
            return Part("hex", dump(data[:HEX_MAX]), whole, cut=len(data) > HEX_MAX, masked=masked)
        text = shown[: error.start].decode()
    if _is_binary(text):
        return Part("hex", dump(data[:HEX_MAX]), whole, cut=len(data) > HEX_MAX, masked=masked)
    return Part("text", text, whole, cut=cut, masked=masked)


def _whole(data: bytes, size: int, masked: bool) -> Part:
    """For files: nothing is cut, and bytes that are no text come as base64."""
    if data[:1] in (b"{", b"["):
        try:
            value = json.loads(data)
            _check(value)
            return Part("json", "", size, value, masked=masked)
        except (ValueError, RecursionError):
            pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _is_binary(text):
        return Part("base64", base64.b64encode(data).decode(), size, masked=masked)
    return Part("text", text, size, masked=masked)


def _check(value: Any) -> None:
    """Raises for a value that cannot be written as JSON again: one with NaN, or nested so deep that it would not fit
    where the download is written, inside a row and further up the stack."""
    for _ in range(DEPTH_SPARE):
        value = [value]
    json.dumps(value, allow_nan=False)


def dump(data: bytes) -> str:
    """Offsets, bytes and what of them is ASCII, as hexdump prints it."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:06x}  {row.hex(' '):<47}  {text}")
    return "\n".join(lines)


def command(message: Message) -> str:
    """The command line that sends this record again; empty if a part of it is no text or not whole."""
    parts = [message.key, message.value, *(part for _, part in message.headers)]
    if any(
        part.kind not in ("text", "json", "none") or part.cut or part.masked or part.schema for part in parts
    ):
        return ""
    line = {
        "topic": message.topic,
        "key": _line(message.key),
        "value": _line(message.value),
        "headers": [[name, _line(part)] for name, part in message.headers],
    }
    # JSON has escapes for what a terminal would obey (new lines, control characters).
    return f"printf '%s\\n' {shlex.quote(json.dumps(line))} | ottla produce --input json"


def _line(part: Part) -> str | None:
    if part.kind == "none":
        return None
    return json_text.dumps(part.data) if part.kind == "json" else part.text


def _header(name: str, data: bytes | None, masks: Masks, shown_max: int | None) -> Part:
    if data is None:
        return _NONE
    if masks and masks.hides_header(name):
        return Part("text", HIDDEN, len(data), masked=True)
    return decode(data, shown_max=shown_max)


def _is_binary(text: str) -> bool:
    return any(ord(letter) < 32 and letter not in "\n\r\t" for letter in text[:1000])


def headers_of(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    """`name=value` lines of a form."""
    headers = []
    for text in texts:
        if not text.strip():
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not of the form name=value")
        headers.append((name.strip(), value.encode()))
    return headers
