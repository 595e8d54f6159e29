"""The frame of every page: navigation, title, filter, the numbers on top, keyboard help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.console import rendering, words
from ottla.console.markup import Markup, join, tag
from ottla.console.model import Filter, Notice, Page, Pager

SECTIONS = (
    ("overview", "Overview", "/", "o"),
    ("topics", "Topics", "/topics", "t"),
    ("groups", "Groups", "/groups", "g"),
    ("transactions", "Transactions", "/transactions", "x"),
    ("schemas", "Schemas", "/schemas", "s"),
    ("pipelines", "Pipelines", "/pipelines", "p"),
    ("homecare", "Home care", "/homecare", "h"),
    ("brokers", "Brokers", "/brokers", "b"),
    ("access", "Access", "/access", "a"),
    ("changes", "Changes", "/changes", "c"),
)
_KEYS = (
    ("/", "filter this page"),
    ("j, k", "next, previous row"),
    ("Enter", "open the row"),
    ("p", "pause and resume what is live"),
    ("?", "this help"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page shows besides its own content."""

    here: str  # the page's address with all its parameters
    csrf: str
    viewer: str
    cluster: str
    may_change: bool
    notices: Sequence[Notice] = ()
    may_log_out: bool = False
    absent: frozenset[str] = frozenset()  # sections that this cluster has nothing for


def document(page: Page, frame: Frame) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="csrf", content=frame.csrf),
        tag("title", f"{page.title} · Ottla"),
        tag("link", rel="icon", href="/static/icon.svg"),
        tag("link", rel="stylesheet", href="/static/console.css"),
        tag("script", type="module", src="/static/console.js"),
    )
    body = tag(
        "body",
        tag("a", "Skip to content", href="#main", class_="skip"),
        _navigation(page.section, frame),
        tag("main", _main(page, frame), id="main", tabindex="-1"),
        _help(frame.absent),
        data_live=page.live or None,
    )
    return "<!doctype html>" + tag("html", head, body, lang="en")


def _main(page: Page, frame: Frame) -> Markup:
    path, parameters = split(frame.here)
    blocks = rendering.Blocks(
        frame.csrf, frame.here, lambda key: words.address(path, {**parameters, "sort": key, "page": ""})
    )
    notices = [
        tag(
            "p",
            tag("i", class_="dot", aria_hidden="true"),
            tag("span", notice.text),
            class_=f"flash state {notice.tone}",
            role="status",
        )
        for notice in frame.notices
    ]
    crumbs = [tag("a", label, href=href) for label, href in page.crumbs]
    heading = tag(
        "div",
        tag("nav", crumbs, class_="crumbs", aria_label="Parents") if crumbs else None,
        tag("h1", page.title),
        tag("p", page.subtitle, class_="subtitle", data_k="subtitle") if page.subtitle else None,
        class_="heading",
    )
    figures = (
        tag("dl", *(rendering.figure(figure) for figure in page.figures), class_="strip")
        if page.figures
        else None
    )
    return join(
        [
            tag("header", heading, _filter(page.filter, path) if page.filter else None),
            notices,
            _tabs(page.tabs),
            figures,
            [blocks.block(block) for block in page.blocks],
            _pager(page.pager) if page.pager else None,
            _links(page, path, parameters),
        ]
    )


def split(here: str) -> tuple[str, dict[str, str]]:
    """An address as its path and its parameters."""
    from urllib.parse import parse_qsl

    path, _, query = here.partition("?")
    return path, dict(parse_qsl(query, keep_blank_values=True))


def _navigation(section: str, frame: Frame) -> Markup:
    entries = [
        tag(
            "a",
            tag("span", label),
            tag("kbd", f"g {key}", aria_hidden="true"),
            href=href,
            data_key=key,
            aria_current="page" if name == section else None,
        )
        for name, label, href, key in SECTIONS
        if name == section or name not in frame.absent
    ]
    may = "changes allowed" if frame.may_change else "read only"
    leave = (
        tag(
            "form",
            tag("input", type="hidden", name="csrf", value=frame.csrf),
            tag("button", "Log out", type="submit", class_="plain"),
            method="post",
            action="/logout",
            class_="small",
        )
        if frame.may_log_out
        else None
    )
    return tag(
        "header",
        tag("a", "Ottla", href="/", class_="brand"),
        tag("nav", entries, aria_label="Views"),
        tag(
            "div",
            tag("span", frame.cluster, title="the cluster"),
            tag("span", frame.viewer),
            tag("span", may),
            tag("span", "", id="live-state", role="status"),
            leave,
            class_="who",
        ),
        class_="side",
    )


def _filter(box: Filter, path: str) -> Markup:
    hidden_inputs = [
        tag("input", type="hidden", name=name, value=value) for name, value in box.keep.items() if value
    ]
    field = tag(
        "input",
        type="search",
        name="filter",
        value=box.value,
        placeholder=box.placeholder,
        aria_label=box.placeholder,
        autocomplete="off",
        spellcheck="false",
    )
    return tag(
        "form",
        hidden_inputs,
        field,
        tag("kbd", "/", aria_hidden="true"),
        method="get",
        action=path,
        class_="filter",
        role="search",
    )


def _tabs(tabs: Sequence[tuple[str, str, bool]]) -> Markup | None:
    if not tabs:
        return None
    return tag(
        "nav",
        [tag("a", label, href=href, aria_current="page" if here else None) for label, href, here in tabs],
        class_="tabs",
        aria_label="Parts",
    )


def _pager(pager: Pager) -> Markup:
    before = tag("a", f"← {pager.before_label}", href=pager.before, rel="prev") if pager.before else None
    after = tag("a", f"{pager.after_label} →", href=pager.after, rel="next") if pager.after else None
    return tag(
        "nav", before, tag("span", pager.text, class_="note"), after, class_="pager", aria_label="Pages"
    )


def _links(page: Page, path: str, parameters: Mapping[str, str]) -> Markup:
    links = [*page.links, ("JSON", words.address(path, {**parameters, "format": "json"}))]
    if page.tables:
        links.append(("CSV", words.address(path, {**parameters, "format": "csv"})))
    return tag("footer", [tag("a", label, href=href) for label, href in links])


def _help(absent: frozenset[str]) -> Markup:
    keys = [*_KEYS, *((f"g {key}", label.lower()) for name, label, _, key in SECTIONS if name not in absent)]
    rows = [tag("div", tag("dt", tag("kbd", key)), tag("dd", text)) for key, text in keys]
    close = tag("form", tag("button", "Close", type="submit", class_="plain"), method="dialog")
    return tag(
        "dialog",
        tag("h2", "Keyboard", id="help-title"),
        tag("dl", rows, class_="keys"),
        close,
        id="help",
        aria_labelledby="help-title",
    )
