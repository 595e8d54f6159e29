"""The page in front of all others: a login, or why there is none."""

from ottla.console.markup import tag
from ottla.console.model import Input
from ottla.console.rendering import input_field

_WORDS = {
    "basic": "Log in to the console.",
    "kafka": "Log in as a user of the cluster: what you may see and do is what its rules let you.",
    "token": "",
}


def login_page(kind: str, trouble: str = "") -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "Log in · Ottla"),
        tag("link", rel="icon", href="/static/icon.svg"),
        tag("link", rel="stylesheet", href="/static/console.css"),
    )
    said = (
        tag(
            "p",
            tag("i", class_="dot", aria_hidden="true"),
            tag("span", trouble),
            class_="flash state warn",
            role="alert",
        )
        if trouble
        else None
    )
    fields = [Input("name", "Name", required=True), Input("password", "Password", "password", required=True)]
    form = (
        tag(
            "form",
            [input_field(each, "login") for each in fields],
            tag("div", tag("button", "Log in", type="submit", class_="plain"), class_="buttons"),
            method="post",
            action="/login",
            class_="stack",
        )
        if kind != "token"
        else None
    )
    body = tag(
        "body",
        tag(
            "main",
            tag("h1", "Ottla"),
            tag("p", _WORDS[kind], class_="subtitle") if _WORDS[kind] else None,
            said,
            form,
            id="main",
            class_="entrance",
        ),
    )
    return "<!doctype html>" + tag("html", head, body, lang="en")
