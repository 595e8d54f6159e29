"""Pages for programs: JSON of everything, CSV of a table."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ottla.console import json_text
from ottla.console.model import Cell, Form, Message, Messages, Page, Part, Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # a spreadsheet would run what begins so
FILES = ("jsonl", "csv")  # formats that have nothing but records or rows: no notice, no link to the next page
_RECORD = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "value",
    "headers",
    "key_encoding",
    "value_encoding",
    "truncated",
)
_ENCODINGS = {"none": None, "json": "json", "base64": "base64", "hex": "hexdump"}
_LEFT_OUT = {"blocks", "tabs", "crumbs", "filter", "pager", "links", "live", "section"}


def to_json(page: Page) -> str:
    """The values behind the page. Forms are for browsers and left out."""
    document = {
        field.name: _plain(getattr(page, field.name)) for field in fields(page) if field.name not in _LEFT_OUT
    }
    document["blocks"] = [_block(block) for block in page.blocks if not isinstance(block, Form)]
    if page.pager is not None:
        document["before"], document["after"] = page.pager.before, page.pager.after
    return json_text.dumps(document)


def to_csv(page: Page, table: str = "") -> str:
    """One table: the named one, else the first; or the records of a page of records."""
    for block in page.blocks:
        if isinstance(block, Table) and table in ("", block.key):
            names = [column.key for column in block.columns if column.kind not in ("spark", "action")]
            shown = [i for i, column in enumerate(block.columns) if column.kind not in ("spark", "action")]
            return _csv(names, ([row.cells[i].value for i in shown] for row in block.rows))
        if isinstance(block, Messages) and table in ("", block.key):
            return messages_csv(block.messages)
    return ""


def messages_csv(messages: Iterable[Message]) -> str:
    rows = map(message_row, messages)
    return _csv(_RECORD, ([row.get(name) for name in _RECORD] for row in rows))


def messages_jsonl(messages: Iterable[Message]) -> str:
    return "".join(json_text.dumps(message_row(message)) + "\n" for message in messages)


def ending(topic: str, why: str) -> Message:
    """Goes behind the records of a file that has not all of them: a file has no other place to say so."""
    none = Part("none", "", 0)
    return Message(topic, -1, -1, -1, none, none, (), truncated=why)


def message_row(message: Message) -> dict[str, Any]:
    """`truncated` is there only if something is missing: of this record, or alone in the last row, of the file."""
    if message.truncated:
        return {"truncated": message.truncated}
    row = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": _part(message.key),
        "value": _part(message.value),
        "headers": [
            {"name": name, "value": _part(part), "encoding": _encoding(part)}
            for name, part in message.headers
        ],
        "key_encoding": _encoding(message.key),
        "value_encoding": _encoding(message.value),
    }
    parts = [("key", message.key), ("value", message.value), *message.headers]
    if cut := [name for name, part in parts if part.cut]:
        row["truncated"] = f"only the beginning of {', '.join(cut)}"
    return row


def safe_cell(value: object) -> str:
    """A text that a spreadsheet takes for a text: a formula gets an apostrophe in front. Numbers stay numbers."""
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return str(value)
    text = json_text.without_surrogates(value) if isinstance(value, str) else json_text.dumps(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([safe_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _block(block: object) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": type(block).__name__.lower()}
    if isinstance(block, Table):
        keys = [column.key for column in block.columns]
        document |= {"key": block.key, "title": block.title}
        document["rows"] = [
            {key: _plain(cell) for key, cell in zip(keys, row.cells, strict=True) if cell.form is None}
            for row in block.rows
        ]
        return document
    if isinstance(block, Messages):
        return document | {"key": block.key, "messages": [message_row(message) for message in block.messages]}
    return document | _plain(block)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, Cell):
        return list(value.points) if value.points is not None else _plain(value.value)
    if isinstance(value, Part):
        return _part(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if not isinstance(getattr(value, field.name), Form)
        }
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _encoding(part: Part) -> str | None:
    return "text" if part.kind == "json" and part.cut else _ENCODINGS.get(part.kind, "text")


def _part(part: Part) -> Any:
    return None if part.kind == "none" else part.data if part.kind == "json" and not part.cut else part.text
