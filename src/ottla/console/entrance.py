"""The page in front of all others: a login, or why there is none."""

from ottla.console.markup import Markup, tag
from ottla.console.model import Input
from ottla.console.rendering import input_field

_WORDS = {
    "basic": "Log in to the console.",
    "kafka": "Log in as a user of the cluster: what you may see and do is what its rules let you.",
    "oidc": "Log in at your provider: what you may see and do is what the cluster's rules let you.",
    "token": "",
}


def login_page(kind: str, trouble: str = "") -> str:
    alert = tag(
        "p",
        tag("i", class_="dot", aria_hidden="true"),
        tag("span", trouble),
        class_="flash state warn",
        role="alert",
    )
    return _document(
        tag("p", _WORDS[kind], class_="subtitle") if _WORDS[kind] else None,
        alert if trouble else None,
        _way_in(kind),
    )


def entered_page() -> str:
    """Goes on by itself, as a page of our own: then the browser sends the new cookie."""
    return _document(tag("p", tag("a", "Go on", href="/")), onward=True)


def _way_in(kind: str) -> Markup | None:
    if kind == "token":
        return None
    if kind == "oidc":
        return tag("p", tag("a", "Log in", href="/login/oidc", class_="plain"))
    fields = [Input("name", "Name", required=True), Input("password", "Password", "password", required=True)]
    return tag(
        "form",
        [input_field(field, "login") for field in fields],
        tag("div", tag("button", "Log in", type="submit", class_="plain"), class_="buttons"),
        method="post",
        action="/login",
        class_="stack",
    )


def _document(*content: Markup | None, onward: bool = False) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="refresh", content="0;url=/") if onward else None,
        tag("title", "Log in · Ottla"),
        tag("link", rel="icon", href="/static/icon.svg"),
        tag("link", rel="stylesheet", href="/static/console.css"),
    )
    body = tag("body", tag("main", tag("h1", "Ottla"), *content, id="main", class_="entrance"))
    return "<!doctype html>" + tag("html", head, body, lang="en")
