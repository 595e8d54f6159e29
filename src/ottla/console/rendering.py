"""Blocks of a page as HTML. What may change while a page is open carries `data-k`, by which it is updated."""

import hashlib
import json
from collections.abc import Callable
from functools import singledispatch

from ottla.console import json_text, svg, words
from ottla.console.markup import Markup, join, tag
from ottla.console.model import (
    Block,
    Cell,
    Chart,
    Column,
    Fields,
    Figure,
    Form,
    Grid,
    Input,
    Message,
    Messages,
    Notices,
    Part,
    Progress,
    Table,
    Text,
    Timeline,
)


class Blocks:
    """Renders with what forms need: the viewer's token, and where to return to."""

    def __init__(self, csrf: str, here: str, sort_address: Callable[[str], str]) -> None:
        self._csrf, self._here, self._sort_address = csrf, here, sort_address

    def block(self, block: Block) -> Markup:
        content = self._content(block)
        title = getattr(block, "title", "")
        heading = tag("h2", title, id=f"h-{block.key}") if title and not isinstance(block, Form) else None
        key = None if isinstance(block, Form) else f"block/{block.key}"
        label = f"h-{block.key}" if heading and not isinstance(block, Form) else None
        kind = type(block).__name__.lower()
        return tag(
            "section",
            heading,
            content,
            class_=f"block {kind}",
            data_k=key,
            data_v=rows_digest(block),
            aria_labelledby=label,
        )

    def _content(self, block: Block) -> Markup:
        match block:
            case Table():
                return self.table(block)
            case Form():
                return self.form(block)
            case Progress():
                return self._progress(block)
            case _:
                return content(block)

    # -- tables ------------------------------------------------------------------------------------

    def table(self, table: Table) -> Markup:
        if not table.rows:
            return tag("p", table.empty, class_="empty")
        head = tag("tr", *(self._head(table, column) for column in table.columns))
        body = [self._row(table, row.key, row.cells) for row in table.rows]
        label = table.title or table.key
        whole = tag("table", tag("thead", head), tag("tbody", *body), aria_label=label)
        note = tag("p", table.note, class_="note") if table.note else None
        return join(
            [
                tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=f"{label}, table"),
                note,
            ]
        )

    def _head(self, table: Table, column: Column) -> Markup:
        label: object = column.label
        sorted_ = None
        if column.sortable:
            down = table.sort == f"-{column.key}"
            up = table.sort == column.key
            largest_first = column.kind in ("number", "spark")
            wanted = column.key if down or (not up and not largest_first) else f"-{column.key}"
            arrow = " ↓" if down else " ↑" if up else ""
            label = tag("a", column.label, arrow, href=self._sort_address(wanted))
            sorted_ = "descending" if down else "ascending" if up else None
        elif column.kind == "action":
            label = tag("span", column.label, class_="unseen")
        return tag("th", label, scope="col", class_=_classes(column), aria_sort=sorted_)

    def _row(self, table: Table, key: str, cells: object) -> Markup:
        shown = []
        for i, (column, cell) in enumerate(zip(table.columns, cells, strict=True)):  # type: ignore[call-overload]
            inner = self.form(cell.form, small=True) if cell.form is not None else cell_content(cell)
            name = "th" if i == 0 else "td"
            shown.append(
                tag(
                    name,
                    inner,
                    class_=_classes(column),
                    scope="row" if i == 0 else None,
                    data_k=f"{table.key}/{key}/{column.key}",
                )
            )
        return tag("tr", *shown, data_row=key)

    # -- forms -------------------------------------------------------------------------------------

    def form(self, form: Form, small: bool = False) -> Markup:
        if form.get:
            return self._get_form(form)
        hidden = [
            tag("input", type="hidden", name="csrf", value=self._csrf),
            tag("input", type="hidden", name="back", value=self._here),
        ]
        button = tag("button", form.label, type="submit", class_="danger" if form.danger else "plain")
        note = tag("p", form.note, class_="note") if form.note else None
        inner = tag(
            "form",
            hidden,
            note,
            [input_field(field, form.action) for field in form.inputs],
            tag("div", button, class_="buttons"),
            method="post",
            action=f"/do/{form.action}",
            class_="small" if small else "stack",
            data_action=form.action,
        )
        if small or not form.title:
            return inner
        if form.folded:
            return tag("details", tag("summary", form.title), inner, class_="fold", id=f"form-{form.action}")
        return join([tag("h2", form.title), inner])

    def _get_form(self, form: Form) -> Markup:
        inputs = [input_field(field, form.action) for field in form.inputs]
        button = tag("div", tag("button", form.label, type="submit", class_="plain"), class_="buttons")
        return tag(
            "form",
            inputs,
            button,
            method="get",
            action=form.action,
            class_="line-form",
            aria_label=form.title,
        )

    def _progress(self, block: Progress) -> Markup:
        bar = tag("progress", value=block.done, max=max(block.total, 1), aria_label=block.label)
        stop = self.form(block.stop, small=True) if block.stop is not None else None
        return tag(
            "div", bar, tag("span", block.text, class_="num"), stop, class_="progress-line", role="status"
        )


def rows_digest(block: Block) -> str | None:
    """Which rows a block has, in which order; None for blocks that have no cells of their own."""
    match block:
        case Table():
            names = [row.key for row in block.rows]
        case Fields():
            names = [label for label, _ in block.fields]
        case _:
            return None
    return hashlib.blake2s("\0".join(names).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def cell_content(cell: Cell) -> Markup:
    if cell.points is not None:
        return svg.sparkline(cell.points)
    text: object = str(cell.value if cell.value is not None else "") if cell.text is None else cell.text
    if cell.href:
        text = tag("a", text, href=cell.href)
    unit = tag("small", cell.unit) if cell.unit else None
    if cell.tone in ("good", "warn", "bad"):
        return tag(
            "span",
            tag("i", class_="dot", aria_hidden="true"),
            text,
            unit,
            class_=f"state {cell.tone}",
            title=cell.hint or None,
        )
    if cell.tone or cell.hint:
        return tag("span", text, unit, class_=cell.tone or None, title=cell.hint or None)
    return join([text, unit])


def figure(figure: Figure) -> Markup:
    return tag(
        "div",
        tag("dt", tag("a", figure.label, href=figure.href) if figure.href else figure.label),
        tag("dd", figure_content(figure), data_k=f"figure/{figure.key}"),
        class_="figure",
    )


def figure_content(figure: Figure) -> Markup:
    text = str(figure.value) if figure.text is None else figure.text
    return tag("span", text, tag("small", figure.unit) if figure.unit else None, class_=figure.tone or None)


@singledispatch
def content(block: object) -> Markup:
    raise TypeError(f"no rendering for {type(block).__name__}")


@content.register
def _(block: Chart) -> Markup:
    legend = [
        tag("li", tag("i", class_=f"key key-{i}", aria_hidden="true"), name)
        for i, (name, _) in enumerate(block.series)
        if len(block.series) > 1
    ]
    latest = ", ".join(f"{name} {points[-1][1]:,.0f}" for name, points in block.series if points)
    return join(
        [
            tag(
                "line-chart",
                svg.lines(block.series),
                data_k=f"chart/{block.key}",
                data_series=chart_data(block),
                data_unit=block.unit,
                role="img",
                aria_label=f"{block.title}: {latest or 'no figures yet'}",
            ),
            tag("ul", legend, class_="legend") if legend else None,
        ]
    )


def chart_data(block: Chart) -> str:
    details = [
        [name, [[round(at, 1), round(value, 2)] for at, value in points]] for name, points in block.series
    ]
    return json.dumps(details, separators=(",", ":"))


@content.register
def _(block: Notices) -> Markup:
    items = [
        tag(
            "li",
            tag("i", class_="dot", aria_hidden="true"),
            tag("a", notice.text, href=notice.href) if notice.href else tag("span", notice.text),
            class_=f"state {notice.tone}",
        )
        for notice in block.notices
    ]
    return tag("ul", items, class_="notes")


@content.register
def _(block: Fields) -> Markup:
    pairs = [
        tag("div", tag("dt", name), tag("dd", cell_content(cell), data_k=f"{block.key}/{name}"))
        for name, cell in block.fields
    ]
    return tag("dl", pairs, class_="pairs")


@content.register
def _(block: Text) -> Markup:
    lines: list[object] = [block.text]
    if block.is_diff:
        kinds = {"+": "ins", "-": "del"}
        lines = [
            tag(kinds[line[:1]], f"{line}\n") if line[:1] in kinds else f"{line}\n"
            for line in block.text.splitlines()
        ]
    return tag("pre", tag("code", *lines), tabindex="0", class_="text")


@content.register
def _(block: Timeline) -> Markup:
    if not block.moments:
        return tag("p", block.empty, class_="empty")
    items = [
        tag(
            "li",
            tag("time", words.clock(moment.at_ms), datetime=words.moment(moment.at_ms)),
            tag("span", moment.text),
            class_=moment.tone or None,
        )
        for moment in block.moments
    ]
    return tag("ol", items, class_="moments")


@content.register
def _(block: Grid) -> Markup:
    head = tag(
        "tr",
        tag("th", tag("span", "Name", class_="unseen"), scope="col"),
        *(tag("th", c, scope="col") for c in block.columns),
    )
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(
                tag("td", tag("span", c.text or "", class_=f"mark {c.tone}", title=c.hint or None))
                for c in cells
            ),
        )
        for name, cells in block.rows
    ]
    whole = tag("table", tag("thead", head), tag("tbody", *rows), aria_label=block.title)
    note = tag("p", block.note, class_="note") if block.note else None
    return join(
        [
            tag(
                "div", whole, class_="scroll", tabindex="0", role="region", aria_label=f"{block.title}, table"
            ),
            note,
        ]
    )


@content.register
def _(block: Messages) -> Markup:
    shown = [message(entry) for entry in block.messages]
    empty = tag("p", block.empty, class_="empty", data_empty=True, hidden=bool(shown))
    return join(
        [
            tag(
                "div",
                *shown,
                class_="records",
                data_tail=block.tail or None,
                role="feed" if block.tail else None,
            ),
            empty,
        ]
    )


def message(shown_message: Message) -> Markup:
    """One record: a line that opens to the whole of it."""
    summary = tag(
        "summary",
        tag("span", f"{shown_message.partition}:{shown_message.offset}", class_="place num"),
        tag(
            "time",
            words.moment(shown_message.timestamp_ms),
            datetime=words.moment(shown_message.timestamp_ms),
        ),
        tag("span", _short(shown_message.key, 80), class_=f"key part-{shown_message.key.kind}"),
        tag("span", _short(shown_message.value, 240), class_=f"value part-{shown_message.value.kind}"),
    )
    parts = [_part("Key", shown_message.key), _part("Value", shown_message.value)]
    parts += [_part(f"Header {name}", part) for name, part in shown_message.headers]
    if shown_message.command:
        command = tag("pre", tag("code", shown_message.command), tabindex="0")
        copy = tag("button", "Copy", type="button", class_="plain", data_copy=shown_message.command)
        parts.append(tag("div", tag("p", "As a command", copy, class_="name"), command, class_="part"))
    return tag(
        "details",
        summary,
        tag("div", *parts, class_="whole"),
        class_="record",
        data_at=f"{shown_message.partition}:{shown_message.offset}",
    )


def _short(part: Part, limit: int) -> str:
    if part.kind == "none":
        return "null"
    whole = json_text.dumps(part.data) if part.data is not None else part.text
    text = " ".join(whole[: limit * 2].split())
    return text if len(text) <= limit else text[:limit] + "…"


def _part(name: str, part: Part) -> Markup:
    size = "null" if part.kind == "none" else f"{part.schema or part.kind}, {words.size(part.size)}"
    notes = [note for note, there in ((", cut", part.cut), (", masked", part.masked)) if there]
    if part.trouble:
        notes.append(f", not decoded: {part.trouble}")
    heading = tag("p", name, tag("small", size, *notes), class_="name")
    body = (
        None
        if part.kind == "none"
        else tag("pre", tag("code", part.text), tabindex="0", class_=f"part-{part.kind}")
    )
    return tag("div", heading, body, class_="part")


def input_field(field: Input, scope: str) -> Markup:
    if field.kind == "hidden":
        return tag("input", type="hidden", name=field.name, value=field.value)
    identity = f"{scope.strip('/').replace('/', '-')}-{field.name}"
    hint = tag("small", field.hint, id=f"{identity}-hint") if field.hint else None
    described = f"{identity}-hint" if field.hint else None
    common = {"id": identity, "name": field.name, "aria_describedby": described, "required": field.required}
    match field.kind:
        case "select":
            options = [
                tag("option", label, value=value, selected=value == field.value)
                for value, label in field.options
            ]
            control = tag("select", options, **common)
        case "textarea":
            control = tag("textarea", field.value, rows="4", spellcheck="false", **common)
        case "checkbox":
            control = tag("input", type="checkbox", value="1", checked=bool(field.value), **common)
            return tag("div", control, tag("label", field.label, for_=identity), hint, class_="field check")
        case _:
            control = tag(
                "input", type=field.kind, value=field.value, autocomplete="off", spellcheck="false", **common
            )
    return tag("div", tag("label", field.label, for_=identity), control, hint, class_="field")


def _classes(column: Column) -> str:
    return f"{column.kind} p{column.priority}"
