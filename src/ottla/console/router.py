"""Which view serves a path. Names in paths are decoded one by one, so that a slash in a name stays in it."""

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from ottla.console.context import Context, NotFound
from ottla.console.model import Page
from ottla.console.views import (
    access,
    brokers,
    changes,
    connectors,
    group,
    groups,
    homecare,
    messages,
    mirrors,
    overview,
    pipelines,
    schemas,
    search,
    topics,
    transactions,
)

View = Callable[[Context], Awaitable[Page]]
_NAME = "*"
ROUTES: dict[tuple[str, ...], View] = {
    (): overview.overview,
    ("topics",): topics.topics,
    ("topics", _NAME): topics.topic,
    ("topics", _NAME, "messages"): messages.messages,
    ("topics", _NAME, "search"): search.search,
    ("topics", _NAME, "settings"): topics.settings,
    ("topics", _NAME, "groups"): topics.readers,
    ("groups",): groups.groups,
    ("group",): group.group,
    ("group", "reset"): group.reset,
    ("transactions",): transactions.transactions,
    ("transaction",): transactions.transaction,
    ("pipelines",): pipelines.pipelines,
    ("pipeline",): pipelines.pipeline,
    ("schemas",): schemas.schemas,
    ("schemas", _NAME): schemas.subject,
    ("schema",): schemas.by_id,
    ("connectors",): connectors.connectors,
    ("connectors", _NAME): connectors.connector,
    ("mirrors",): mirrors.mirrors,
    ("homecare",): homecare.homecare,
    ("brokers",): brokers.brokers,
    ("brokers", _NAME): brokers.broker,
    ("access",): access.access,
    ("changes",): changes.changes,
}


def find(path: str) -> tuple[View, list[str]]:
    """The view of an encoded path, and the names in it."""
    parts = [unquote(part) for part in path.strip("/").split("/")] if path.strip("/") else []
    for pattern, view in ROUTES.items():
        if len(pattern) == len(parts) and all(
            want in (_NAME, part) for want, part in zip(pattern, parts, strict=True)
        ):
            return view, [part for want, part in zip(pattern, parts, strict=True) if want == _NAME]
    raise NotFound(f"There is no page {path}.")
