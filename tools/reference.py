"""The reference pages of the site, made from the code: settings, commands, metrics, the Python API."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ottla.cli.main import COMMANDS
from ottla.config.broker import BROKER_KEYS
from ottla.config.definitions import ConfigKey, Type, Update
from ottla.config.topic import TOPIC_KEYS
from ottla.server.metrics import catalogue

CLASSES = (
    ("Producer", "ottla.Producer", "ottla.client.producer", "Producer"),
    ("Consumer", "ottla.Consumer", "ottla.client.consumer", "Consumer"),
    ("Admin", "ottla.Admin", "ottla.client.admin", "Admin"),
    ("A broker in a test", "ottla.testing.Broker", "ottla.testing.broker", "Broker"),
    ("Several brokers in a test", "ottla.testing.Cluster", "ottla.testing.cluster", "Cluster"),
)


def settings() -> str:
    lines = [
        "# Settings",
        "",
        "Made from the code. *Dynamic* says who may change a setting while brokers run (`ottla config`).",
        "Names are Kafka's; those that begin with `ottla.` are ours.",
        "[Which settings of Kafka are accepted or refused](../settings.md).",
        "",
        "## Of brokers",
        "",
        *_table(BROKER_KEYS.values(), with_update=True),
        "",
        "## Of topics",
        "",
        "All of them can be changed while brokers run.",
        "",
        *_table(TOPIC_KEYS.values(), with_update=False),
    ]
    return "\n".join(lines) + "\n"


def _table(keys: Iterable[ConfigKey], *, with_update: bool) -> list[str]:
    dynamic = " dynamic |" if with_update else ""
    rows = [
        f"| name | type | default |{dynamic} what it is |",
        "|---|---|---|---|" + ("---|" if with_update else ""),
    ]
    for key in sorted(keys, key=lambda each: each.name):
        update = "" if not with_update else f" {'' if key.update is Update.READ_ONLY else key.update.value} |"
        kind = Type(key.type).name.lower()
        rows.append(f"| `{key.name}` | {kind} | {_default(key)} |{update} {_cell(key.documentation)} |")
    return rows


def _default(key: ConfigKey) -> str:
    value = key.default
    if value is None or value == "" or value == ():
        return ""
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def commands() -> str:
    lines = ["# Commands", "", "Made from `--help` of each command.", ""]
    for name, (module, what) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"ottla {name}", description=what, formatter_class=_Wide)
        import_module(module).add_arguments(parser)
        lines += [f"## ottla {name}", "", "```text", *_help(parser), "```", ""]
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for sub, inner in action.choices.items():
                    lines += [f"### ottla {name} {sub}", "", "```text", *_help(inner), "```", ""]
    return "\n".join(lines)


class _Wide(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


def _help(parser: argparse.ArgumentParser) -> list[str]:
    parser.formatter_class = _Wide
    return parser.format_help().rstrip().splitlines()


def metrics() -> str:
    lines = ["# Metrics", "", "Made from the code. Served with `ottla start --http PORT`.", ""]
    for page, families in catalogue.PAGES.items():
        lines += [f"## {page}", "", "| name | type | what it is |", "|---|---|---|"]
        lines += [f"| `{name}` | {kind} | {_cell(text)} |" for name, (kind, text) in sorted(families.items())]
        lines.append("")
    return "\n".join(lines)


def python() -> str:
    lines = ["# Python API", "", "Made from the code. [How to use it](../api.md).", ""]
    for title, name, module, attribute in CLASSES:
        found = getattr(import_module(module), attribute)
        lines += [f"## {title}", "", f"`{name}`. {_doc(found)}", ""]
        for method, function in sorted(inspect.getmembers(found, callable)):
            if not method.startswith("_"):
                lines += [f"`{method}{_signature(function)}`", "", f":   {_doc(function) or '…'}", ""]
    return "\n".join(lines)


def _doc(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split())


def _signature(function: Any) -> str:
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"
    text = text.replace("(self, ", "(").replace("(self)", "()")
    return re.sub(r"\b(?:ottla|collections|typing|datetime)(?:\.\w+)*\.(\w+)", r"\1", text)


PAGES: dict[str, Callable[[], str]] = {
    "reference/settings.md": settings,
    "reference/commands.md": commands,
    "reference/metrics.md": metrics,
    "reference/python.md": python,
}
