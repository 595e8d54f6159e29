"""What each path of the REST API answers. Handlers take the store, the request and the path's own values."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ottla.registry import errors
from ottla.registry.decisions import Decision, Registry, described
from ottla.registry.errors import RegistryError
from ottla.registry.formats import TYPES
from ottla.registry.state import Content, Version, content_of
from ottla.registry.subjects import DEFAULT, checked, context_of, is_context, normal, qualified

if TYPE_CHECKING:
    from ottla.registry.routes import Request

VERSION_MAX = 2**31 - 1
_TYPES_THAT_HAVE_FORMATS = ("serialized", "resolved", "ignore_extensions")


class Store(Protocol):
    """What handlers ask: `catch_up` waits until everything that is committed by now is known."""

    def ask(self, question: Callable[[Registry], Any]) -> Any: ...

    def change(self, decide: Callable[[Registry], Decision]) -> Any: ...

    def catch_up(self) -> None: ...

    def cluster_id(self) -> str: ...


class PlainText(str):
    """A schema by itself: the answer is its text, not a JSON string of it."""


# -- subjects and versions -------------------------------------------------------------------------------


def root(store: Store, request: "Request") -> Any:
    return {}


def subjects(store: Store, request: "Request") -> Any:
    prefix = request.query.get("subjectPrefix", ":*:")

    def ask(registry: Registry) -> list[str]:
        state = registry.state
        names = [name for name in sorted(state.subjects) if _starts(name, prefix)]
        if request.flag("deletedOnly"):
            return [name for name in names if not state.versions(name)]
        return [name for name in names if state.versions(name, deleted=request.flag("deleted"))]

    return _page(request, store.ask(ask))


def _starts(subject: str, prefix: str) -> bool:
    if prefix.startswith(":*:"):
        return normal(subject).rpartition(":")[2].startswith(prefix[3:])
    if prefix.startswith(":.:") and context_of(subject) != DEFAULT:
        return False
    return normal(subject).startswith(normal(prefix))


def versions(store: Store, request: "Request", subject: str) -> Any:
    name = checked(subject)

    def ask(registry: Registry) -> list[int]:
        state = registry.state
        every = state.versions(name, deleted=request.flag("deleted") or request.flag("deletedOnly"))
        if request.flag("deletedOnly"):
            every = [version for version in every if version.deleted]
        if not every:
            raise errors.subject_not_found(subject)
        return [version.version for version in every]

    return _page(request, _fresh(store, ask))


def version(store: Store, request: "Request", subject: str, number: str) -> Any:
    return _fresh(
        store, lambda registry: _version_body(registry, request, _version(registry, request, subject, number))
    )


def version_schema(store: Store, request: "Request", subject: str, number: str) -> Any:
    return _fresh(
        store,
        lambda registry: PlainText(
            _text(registry, request, _version(registry, request, subject, number).content)
        ),
    )


def referenced_by(store: Store, request: "Request", subject: str, number: str) -> Any:
    def ask(registry: Registry) -> list[int]:
        version = _version(registry, request, subject, number)
        referring = registry.state.referring(version.subject, version.version)
        return sorted({each.schema_id for each in referring})

    return _fresh(store, ask)


def latest_with_metadata(store: Store, request: "Request", subject: str) -> Any:
    """The latest version whose metadata has the properties `key=value` that are asked for."""

    def ask(registry: Registry) -> Any:
        every = registry.state.versions(checked(subject), deleted=request.flag("deleted"))
        for version in reversed(every):
            properties = json.loads(version.content.metadata or "{}").get("properties") or {}
            if properties.get(request.query.get("key")) == request.query.get("value"):
                return _version_body(registry, request, version)
        raise errors.schema_not_found()

    return _fresh(store, ask)


def lookup(store: Store, request: "Request", subject: str) -> Any:
    content, _, _ = _schema_of(request)

    def ask(registry: Registry) -> Any:
        version = registry.lookup(
            checked(subject), content, normalize=request.flag("normalize"), deleted=request.flag("deleted")
        )
        return _version_body(registry, request, version)

    return _fresh(store, ask)


def register(store: Store, request: "Request", subject: str) -> Any:
    content, schema_id, number = _schema_of(request)
    version = store.change(
        lambda registry: registry.register(
            checked(subject),
            content,
            normalize=request.flag("normalize"),
            schema_id=schema_id,
            version=number,
        )
    )
    # Without the text: confluent-kafka would take it for the form in which it sent the schema.
    return {"id": version.schema_id, "version": version.version, "guid": version.content.guid}


def delete_version(store: Store, request: "Request", subject: str, number: str) -> Any:
    wanted = _number(number)
    return store.change(
        lambda registry: registry.delete_version(
            checked(subject), wanted, permanent=request.flag("permanent")
        )
    )


def delete_subject(store: Store, request: "Request", subject: str) -> Any:
    return store.change(
        lambda registry: registry.delete_subject(checked(subject), permanent=request.flag("permanent"))
    )


# -- schemas ---------------------------------------------------------------------------------------------


def types(store: Store, request: "Request") -> Any:
    return list(TYPES)


def schemas(store: Store, request: "Request") -> Any:
    prefix = request.query.get("subjectPrefix", ":*:")

    def ask(registry: Registry) -> list[Any]:
        found = []
        for name in sorted(registry.state.subjects):
            every = (
                registry.state.versions(name, deleted=request.flag("deleted"))
                if _starts(name, prefix)
                else []
            )
            found += every[-1:] if request.flag("latestOnly") else every
        return [_version_body(registry, request, version) for version in found]

    return _page(request, store.ask(ask))


def schema_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    def ask(registry: Registry) -> Any:
        content = _content(registry, request, schema_id)
        body = {"guid": content.guid, **described(content), "schema": _text(registry, request, content)}
        if request.flag("fetchMaxId"):
            body["maxId"] = registry.state.highest_ids.get(DEFAULT, 0)
        return body

    return _fresh(store, ask)


def schema_text_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    return _fresh(
        store, lambda registry: PlainText(_text(registry, request, _content(registry, request, schema_id)))
    )


def subjects_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    def ask(registry: Registry) -> list[str]:
        return list(dict.fromkeys(version.subject for version in _using(registry, request, schema_id)))

    return _page(request, _fresh(store, ask))


def versions_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    def ask(registry: Registry) -> list[Any]:
        using = _using(registry, request, schema_id)
        return [{"subject": version.subject, "version": version.version} for version in using]

    return _page(request, _fresh(store, ask))


def schema_by_guid(store: Store, request: "Request", guid: str) -> Any:
    def ask(registry: Registry) -> Any:
        content = registry.state.guids.get(guid)
        if content is None:
            raise errors.schema_not_found(guid)
        where = _first_use(registry, content)
        return {**where, "guid": guid, **described(content), "schema": _text(registry, request, content)}

    return _fresh(store, ask)


def ids_by_guid(store: Store, request: "Request", guid: str) -> Any:
    def ask(registry: Registry) -> list[Any]:
        content = registry.state.guids.get(guid)
        if content is None:
            raise errors.schema_not_found(guid)
        every = registry.state.ids.items()
        return [{"context": context, "id": number} for (context, number), each in every if each == content]

    return _fresh(store, ask)


def _first_use(registry: Registry, content: Content) -> dict[str, Any]:
    """A version that has the schema: one that is not deleted, in the default context, if there is one."""
    state = registry.state
    places = sorted(
        (version.deleted, context_of(version.subject) != DEFAULT, version.subject, version.version)
        for versions in state.subjects.values()
        for version in versions.values()
        if version.content == content
    )
    if not places:
        return {}
    _, _, subject, number = places[0]
    return {"subject": subject, "version": number, "id": state.subjects[subject][number].schema_id}


# -- compatibility ---------------------------------------------------------------------------------------


def compatible_with(store: Store, request: "Request", subject: str, number: str) -> Any:
    def earlier(registry: Registry) -> list[Version]:
        return [_version(registry, request, subject, number)]

    return _compatible(store, request, subject, earlier)


def compatible_with_all(store: Store, request: "Request", subject: str) -> Any:
    return _compatible(store, request, subject, lambda registry: registry.state.versions(checked(subject)))


def _compatible(
    store: Store, request: "Request", subject: str, earlier: Callable[[Registry], list[Version]]
) -> Any:
    content, _, _ = _schema_of(request)

    def ask(registry: Registry) -> Any:
        problems = registry.incompatibilities(checked(subject), content, earlier(registry))
        told = {"messages": problems} if request.flag("verbose") else {}
        return {"is_compatible": not problems, **told}

    return _fresh(store, ask)


# -- settings --------------------------------------------------------------------------------------------


def config(store: Store, request: "Request", subject: str | None = None) -> Any:
    def ask(registry: Registry) -> Any:
        name = _named(subject)
        if not _has_own(name, registry.state.configs) and not request.flag("defaultToGlobal"):
            raise errors.no_compatibility(subject or "")
        return registry.state.config(name)

    return _fresh(store, ask)


def _has_own(name: str | None, settings: Mapping[str | None, Any]) -> bool:
    """A subject must have it itself; a whole context falls back to what holds for all."""
    return name is None or is_context(name) or name in settings


def set_config(store: Store, request: "Request", subject: str | None = None) -> Any:
    body = _object(request)
    return store.change(lambda registry: registry.set_config(_named(subject), body))


def delete_config(store: Store, request: "Request", subject: str | None = None) -> Any:
    return store.change(lambda registry: registry.delete_config(_named(subject)))


def mode(store: Store, request: "Request", subject: str | None = None) -> Any:
    def ask(registry: Registry) -> Any:
        name = _named(subject)
        if not _has_own(name, registry.state.modes) and not request.flag("defaultToGlobal"):
            raise errors.no_mode(subject or "")
        return {"mode": registry.state.mode(name)}

    return _fresh(store, ask)


def set_mode(store: Store, request: "Request", subject: str | None = None) -> Any:
    wanted = _object(request).get("mode")
    return store.change(
        lambda registry: registry.set_mode(_named(subject), wanted, force=request.flag("force"))
    )


def delete_mode(store: Store, request: "Request", subject: str | None = None) -> Any:
    return store.change(lambda registry: registry.delete_mode(_named(subject)))


def contexts(store: Store, request: "Request") -> Any:
    prefix = request.query.get("contextPrefix", "")
    names = store.ask(lambda registry: sorted(registry.state.contexts))
    return _page(request, [name for name in names if name.startswith(prefix)])


def delete_context(store: Store, request: "Request", context: str) -> Any:
    return store.change(lambda registry: registry.delete_context(context))


def cluster(store: Store, request: "Request") -> Any:
    names = {"kafka-cluster": store.cluster_id(), "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": names}}


def software(store: Store, request: "Request") -> Any:
    from importlib.metadata import version as installed

    return {"version": installed("ottla"), "commitId": ""}


# -- parts of answers ------------------------------------------------------------------------------------


def _fresh(store: Store, question: Callable[[Registry], Any]) -> Any:
    """Before something is said to be missing, everything that is committed by now is read."""
    try:
        return store.ask(question)
    except RegistryError as error:
        if error.status != 404:
            raise
    store.catch_up()
    return store.ask(question)


def _version(registry: Registry, request: "Request", subject: str, number: str) -> Version:
    return registry.state.version(checked(subject), _number(number), deleted=request.flag("deleted"))


def _number(text: str) -> int | None:
    """None for the latest."""
    if text in ("latest", "-1"):
        return None
    if not text.isdecimal() or not 1 <= int(text) <= VERSION_MAX:
        raise errors.invalid_version(text)
    return int(text)


def _version_body(registry: Registry, request: "Request", version: Version) -> dict[str, Any]:
    body = {
        "subject": version.subject,
        "version": version.version,
        "id": version.schema_id,
        "guid": version.content.guid,
        **described(version.content),
        "schema": _text(registry, request, version.content),
    }
    return {**body, "deleted": True} if version.deleted else body


def _text(registry: Registry, request: "Request", content: Content) -> str:
    name = request.query.get("format", "")
    return registry.parsed(content).formatted(name) if name in _TYPES_THAT_HAVE_FORMATS else content.schema


def _content(registry: Registry, request: "Request", schema_id: str) -> Content:
    number, context = _id(schema_id), context_of(request.query.get("subject"))
    content = registry.state.with_id(number, context)
    if content is None and "subject" not in request.query:
        known = (registry.state.with_id(number, other) for other in sorted(registry.state.contexts))
        content = next((each for each in known if each is not None), None)
    if content is None:
        raise errors.schema_not_found(schema_id)
    return content


def _using(registry: Registry, request: "Request", schema_id: str) -> list[Version]:
    wanted, state = request.query.get("subject"), registry.state
    known = [context_of(wanted)] if wanted else [DEFAULT, *sorted(state.contexts - {DEFAULT})]
    context = next((each for each in known if state.with_id(_id(schema_id), each) is not None), None)
    if context is None:
        raise errors.schema_not_found(schema_id)
    return [
        version
        for version in registry.state.using(_id(schema_id), context, deleted=request.flag("deleted"))
        if not wanted or is_context(wanted) or version.subject == qualified(context, normal(wanted))
    ]


def _id(text: str) -> int:
    if not text.isdecimal() or int(text) > VERSION_MAX:
        raise RegistryError(404, 404, "HTTP 404 Not Found")
    return int(text)


def _named(subject: str | None) -> str | None:
    return None if subject is None else normal(subject)


def _object(request: "Request") -> dict[str, Any]:
    if not isinstance(request.body, dict):
        raise errors.unprocessable("the body must be a JSON object")
    return request.body


def _schema_of(request: "Request") -> tuple[Content, int | None, int | None]:
    """The schema of the body, and the id and version that it asks for."""
    body = _object(request)
    if not isinstance(body.get("schema"), str) or not body["schema"].strip():
        raise errors.invalid_schema("Empty schema")
    try:
        content = content_of(body)
        schema_id, number = body.get("id"), body.get("version")
        wanted = None if schema_id in (None, -1) else int(schema_id)
        return content, wanted, None if number in (None, -1) else int(number)
    except (KeyError, TypeError, ValueError) as error:
        raise errors.unprocessable(f"the body cannot be read: {error!r}") from error


def _page(request: "Request", rows: list[Any]) -> list[Any]:
    begin, limit = max(0, request.number("offset", 0)), request.number("limit", -1)
    return rows[begin:] if limit < 0 else rows[begin : begin + limit]
