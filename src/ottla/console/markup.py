"""HTML from functions: every text is escaped unless it is `Markup` already."""

from collections.abc import Iterable

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_VOID = frozenset(("input", "meta", "link", "br", "hr", "img"))
# What would be invisible or reorder the text around it (C0 and C1 controls, direction overrides), and halves of
# characters, which no encoding takes, are shown as escapes instead.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t\r"
} | {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        0x200E,
        0x200F,
        0xFEFF,
        *range(0xD800, 0xE000),
    )
}

Child = "str | int | float | None | Iterable[Child]"


class Markup(str):
    """A piece of HTML that is safe to send."""

    __slots__ = ()


def escape(text: object) -> Markup:
    if isinstance(text, Markup):
        return text
    return Markup(str(text).translate(_CONTROLS).translate(_ESCAPES))


def join(children: Iterable[object]) -> Markup:
    """All children, escaped; None is left out."""
    return Markup("".join(_piece(child) for child in children if child is not None))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """`tag("a", "text", href="/", class_="x", data_key="k")`; None and False leave an attribute out."""
    opened = f"<{name}{_attributes(attributes)}>"
    return Markup(opened) if name in _VOID else Markup(f"{opened}{join(children)}</{name}>")


def _piece(child: object) -> str:
    if isinstance(child, str):
        return escape(child)
    if isinstance(child, Iterable):
        return join(child)
    return escape(child)


def _attributes(attributes: dict[str, object]) -> str:
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        shown = name.rstrip("_").replace("_", "-")
        parts.append(f" {shown}" if value is True else f' {shown}="{escape(value)}"')
    return "".join(parts)
