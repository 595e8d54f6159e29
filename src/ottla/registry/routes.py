"""Paths to questions and changes: the REST API, without HTTP around it.

A path is split before it is decoded: a subject may have a slash in it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote, unquote

from ottla.frozen import frozen
from ottla.registry import answers
from ottla.registry.errors import RegistryError
from ottla.registry.questions import Store
from ottla.registry.subjects import normal


@frozen
class Request:
    method: str
    path: str  # as it came, still encoded
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    readable: frozenset[str] | None = None  # what references may lead to; None: any subject

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        return int(text) if re.fullmatch(r"-?\d{1,10}", text) else default


Handler = Callable[..., Any]
# Segments in braces are given to the handler, decoded, in order.
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", answers.root),
    ("GET", "/subjects", answers.subjects),
    ("POST", "/subjects/{}", answers.lookup),
    ("DELETE", "/subjects/{}", answers.delete_subject),
    ("GET", "/subjects/{}/versions", answers.versions),
    ("POST", "/subjects/{}/versions", answers.register),
    ("GET", "/subjects/{}/versions/{}", answers.version),
    ("DELETE", "/subjects/{}/versions/{}", answers.delete_version),
    ("GET", "/subjects/{}/versions/{}/schema", answers.version_schema),
    ("GET", "/subjects/{}/versions/{}/referencedby", answers.referenced_by),
    ("GET", "/subjects/{}/metadata", answers.latest_with_metadata),
    ("GET", "/schemas", answers.schemas),
    ("GET", "/schemas/types", answers.types),
    ("GET", "/schemas/ids/{}", answers.schema_by_id),
    ("GET", "/schemas/ids/{}/schema", answers.schema_text_by_id),
    ("GET", "/schemas/ids/{}/subjects", answers.subjects_by_id),
    ("GET", "/schemas/ids/{}/versions", answers.versions_by_id),
    ("GET", "/schemas/guids/{}", answers.schema_by_guid),
    ("GET", "/schemas/guids/{}/ids", answers.ids_by_guid),
    ("POST", "/compatibility/subjects/{}/versions", answers.compatible_with_all),
    ("POST", "/compatibility/subjects/{}/versions/{}", answers.compatible_with),
    ("GET", "/config", answers.config),
    ("PUT", "/config", answers.set_config),
    ("DELETE", "/config", answers.delete_config),
    ("GET", "/config/{}", answers.config),
    ("PUT", "/config/{}", answers.set_config),
    ("DELETE", "/config/{}", answers.delete_config),
    ("GET", "/mode", answers.mode),
    ("PUT", "/mode", answers.set_mode),
    ("DELETE", "/mode", answers.delete_mode),
    ("GET", "/mode/{}", answers.mode),
    ("PUT", "/mode/{}", answers.set_mode),
    ("DELETE", "/mode/{}", answers.delete_mode),
    ("GET", "/contexts", answers.contexts),
    ("DELETE", "/contexts/{}", answers.delete_context),
    ("GET", "/v1/metadata/id", answers.cluster),
    ("GET", "/v1/metadata/version", answers.software),
)


def resolved(store: Store, request: Request) -> Request:
    """With the subject's own name: from the context that the path begins with, and for one that is an alias."""
    return _without_alias(store, _in_context(request))


def answer(store: Store, request: Request) -> Any:
    """What a resolved request gets; raises what it is refused with."""
    segments = [segment for segment in request.path.split("/") if segment]
    allowed = set()
    for method, pattern, handler in ROUTES:
        values = _matched(pattern, segments)
        if values is not None:
            if method == request.method or (request.method == "HEAD" and method == "GET"):
                return handler(store, request, *values)
            allowed.add(method)
    if allowed:
        raise RegistryError(405, 405, "HTTP 405 Method Not Allowed")
    raise RegistryError(404, 404, "HTTP 404 Not Found")


def _in_context(request: Request) -> Request:
    """`/contexts/.staging/subjects/a` is `/subjects/:.staging:a`: paths below a context mean its subjects and ids."""
    segments = [segment for segment in request.path.split("/") if segment]
    if segments[:1] != ["contexts"] or len(segments) < 3:
        return request
    name = unquote(segments[1]).strip(":")
    context = "" if name == "." else f":{name if name.startswith('.') else '.' + name}:"
    rest, query = segments[2:], dict(request.query)
    at = _subject_at(rest)
    if at is not None and at < len(rest):
        rest[at] = quote(_qualified(context, unquote(rest[at])), safe="")
    elif at is not None and rest[0] in ("config", "mode") and context:
        rest.append(quote(context, safe=""))
    elif rest[0] == "schemas" and len(rest) > 2:
        query["subject"] = _qualified(context, query.get("subject", ""))
    else:
        query["subjectPrefix"] = _qualified(context or ":.:", query.get("subjectPrefix", ""))
    return Request(request.method, "/" + "/".join(rest), query, request.body)


def _without_alias(store: Store, request: Request) -> Request:
    """A subject whose settings have an `alias` stands for that one, except where its settings are asked about. An alias
    of an alias is not followed."""
    segments = [segment for segment in request.path.split("/") if segment]
    at = _subject_at(segments) if segments[:1] in (["subjects"], ["compatibility"]) else None
    if at is not None and at < len(segments):
        segments[at] = quote(_named_by(store, unquote(segments[at])), safe="")
        return replace(request, path="/" + "/".join(segments))
    if segments[:2] == ["schemas", "ids"] and "subject" in request.query:
        return replace(
            request, query={**request.query, "subject": _named_by(store, request.query["subject"])}
        )
    return request


def _named_by(store: Store, subject: str) -> str:
    settings = store.ask(lambda registry: registry.state.configs.get(normal(subject), {}))
    return str(settings.get("alias") or subject)


def _subject_at(segments: list[str]) -> int | None:
    """Where a path has its subject, if it may have one there."""
    places = {"subjects": 1, "config": 1, "mode": 1, "compatibility": 2}
    return places.get(segments[0]) if segments != ["subjects"] else None


def _qualified(context: str, subject: str) -> str:
    return subject if subject.startswith(":.") else context + subject


def _matched(pattern: str, segments: list[str]) -> list[str] | None:
    wanted = [segment for segment in pattern.split("/") if segment]
    if len(wanted) != len(segments):
        return None
    pairs = list(zip(wanted, segments, strict=True))
    if any(want not in ("{}", segment) for want, segment in pairs):
        return None
    return [unquote(segment) for want, segment in pairs if want == "{}"]
