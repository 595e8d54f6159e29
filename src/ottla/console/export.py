"""Pages for programs: JSON of everything, CSV of a table."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ottla.console.model import Cell, Form, Message, Messages, Page, Part, Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # a spreadsheet would run what begins so
_LEFT_OUT = {"blocks", "tabs", "crumbs", "filter", "pager", "links", "live", "section"}


def to_json(page: Page) -> str:
    """The values behind the page. Forms are for browsers and left out."""
    told = {
        each.name: _plain(getattr(page, each.name)) for each in fields(page) if each.name not in _LEFT_OUT
    }
    told["blocks"] = [_block(block) for block in page.blocks if not isinstance(block, Form)]
    if page.pager is not None:
        told["before"], told["after"] = page.pager.before, page.pager.after
    return json.dumps(told, ensure_ascii=False)


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
    names = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    return _csv(names, ([*message_row(each).values()] for each in messages))


def messages_jsonl(messages: Iterable[Message]) -> str:
    return "".join(json.dumps(message_row(each), ensure_ascii=False) + "\n" for each in messages)


def message_row(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": _part(message.key),
        "value": _part(message.value),
        "headers": {name: _part(part) for name, part in message.headers},
    }


def safe_cell(value: object) -> str:
    """A text that a spreadsheet takes for a text: a formula gets an apostrophe in front. Numbers stay numbers."""
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([safe_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _block(block: object) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": type(block).__name__.lower()}
    if isinstance(block, Table):
        keys = [column.key for column in block.columns]
        told |= {"key": block.key, "title": block.title}
        told["rows"] = [
            {key: _plain(cell) for key, cell in zip(keys, row.cells, strict=True) if cell.form is None}
            for row in block.rows
        ]
        return told
    if isinstance(block, Messages):
        return told | {"key": block.key, "messages": [message_row(each) for each in block.messages]}
    return told | _plain(block)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, Cell):
        return list(value.points) if value.points is not None else _plain(value.value)
    if isinstance(value, Part):
        return _part(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: _plain(getattr(value, each.name))
            for each in fields(value)
            if not isinstance(getattr(value, each.name), Form)
        }
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _part(part: Part) -> Any:
    return None if part.kind == "none" else part.data if part.kind == "json" and not part.cut else part.text
