"""What each path of the REST API answers. Handlers take the store, the request and the path's own values."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.registry import errors
from ottla.registry.decisions import Decision, Registry, described
from ottla.registry.errors import RegistryError
from ottla.registry.formats import TYPES
from ottla.registry.questions import (
    Store,
    body_of,
    check_references,
    content_with_id,
    fresh,
    named_subject,
    named_version,
    page_of,
    schema_of,
    version_number,
    versions_with_id,
)
from ottla.registry.state import Content, Version
from ottla.registry.subjects import DEFAULT, checked, context_of, is_context, normal

if TYPE_CHECKING:
    from ottla.registry.routes import Request

_TYPES_THAT_HAVE_FORMATS = ("serialized", "resolved", "ignore_extensions")


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

    return page_of(request, store.ask(ask))


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

    return page_of(request, fresh(store, ask))


def version(store: Store, request: "Request", subject: str, number: str) -> Any:
    return fresh(
        store,
        lambda registry: _version_body(registry, request, named_version(registry, request, subject, number)),
    )


def version_schema(store: Store, request: "Request", subject: str, number: str) -> Any:
    return fresh(
        store,
        lambda registry: PlainText(
            _text(registry, request, named_version(registry, request, subject, number).content)
        ),
    )


def referenced_by(store: Store, request: "Request", subject: str, number: str) -> Any:
    def ask(registry: Registry) -> list[int]:
        version = named_version(registry, request, subject, number)
        referring = registry.state.referring(version.subject, version.version)
        return sorted({referrer.schema_id for referrer in referring})

    return fresh(store, ask)


def latest_with_metadata(store: Store, request: "Request", subject: str) -> Any:
    """The latest version whose metadata has the properties `key=value` that are asked for."""

    def ask(registry: Registry) -> Any:
        every = registry.state.versions(checked(subject), deleted=request.flag("deleted"))
        for version in reversed(every):
            properties = json.loads(version.content.metadata or "{}").get("properties") or {}
            if properties.get(request.query.get("key")) == request.query.get("value"):
                return _version_body(registry, request, version)
        raise errors.schema_not_found()

    return fresh(store, ask)


def lookup(store: Store, request: "Request", subject: str) -> Any:
    content, _, _ = schema_of(request)

    def ask(registry: Registry) -> Any:
        check_references(registry, request, content)
        version = registry.lookup(
            checked(subject), content, normalize=request.flag("normalize"), deleted=request.flag("deleted")
        )
        return _version_body(registry, request, version)

    return fresh(store, ask)


def register(store: Store, request: "Request", subject: str) -> Any:
    content, schema_id, number = schema_of(request, may_be_empty=True)

    def decide(registry: Registry) -> Decision:
        check_references(registry, request, content)
        return registry.register(
            checked(subject),
            content,
            normalize=request.flag("normalize"),
            schema_id=schema_id,
            version=number,
        )

    version = store.change(decide)
    # Without the text: confluent-kafka would take it for the form in which it sent the schema.
    return {"id": version.schema_id, "version": version.version, "guid": version.content.guid}


def delete_version(store: Store, request: "Request", subject: str, number: str) -> Any:
    wanted = version_number(number)
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
        listed = []
        for name in sorted(registry.state.subjects):
            every = (
                registry.state.versions(name, deleted=request.flag("deleted"))
                if _starts(name, prefix)
                else []
            )
            listed += every[-1:] if request.flag("latestOnly") else every
        return [_version_body(registry, request, version) for version in listed]

    return page_of(request, store.ask(ask))


def schema_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    def ask(registry: Registry) -> Any:
        content = content_with_id(registry, request, schema_id)
        where = _first_use(registry, content, int(schema_id))
        body = {**where, "guid": content.guid, **described(content)}
        body["schema"] = _text(registry, request, content)
        if request.flag("fetchMaxId"):
            body["maxId"] = registry.state.highest_ids.get(DEFAULT, 0)
        return body

    return fresh(store, ask)


def schema_text_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    return fresh(
        store,
        lambda registry: PlainText(_text(registry, request, content_with_id(registry, request, schema_id))),
    )


def subjects_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    def ask(registry: Registry) -> list[str]:
        return list(
            dict.fromkeys(version.subject for version in versions_with_id(registry, request, schema_id))
        )

    return page_of(request, fresh(store, ask))


def versions_by_id(store: Store, request: "Request", schema_id: str) -> Any:
    def ask(registry: Registry) -> list[Any]:
        using = versions_with_id(registry, request, schema_id)
        return [{"subject": version.subject, "version": version.version} for version in using]

    return page_of(request, fresh(store, ask))


def schema_by_guid(store: Store, request: "Request", guid: str) -> Any:
    def ask(registry: Registry) -> Any:
        content = registry.state.guids.get(guid)
        if content is None:
            raise errors.schema_not_found(guid)
        where = _first_use(registry, content)
        return {**where, "guid": guid, **described(content), "schema": _text(registry, request, content)}

    return fresh(store, ask)


def ids_by_guid(store: Store, request: "Request", guid: str) -> Any:
    def ask(registry: Registry) -> list[Any]:
        content = registry.state.guids.get(guid)
        if content is None:
            raise errors.schema_not_found(guid)
        every = registry.state.ids.items()
        return [{"context": context, "id": number} for (context, number), known in every if known == content]

    return fresh(store, ask)


def _first_use(registry: Registry, content: Content, schema_id: int | None = None) -> dict[str, Any]:
    """A version that has the schema: one that is not deleted, in the default context, if there is one."""
    state = registry.state
    places = [DEFAULT, *sorted(state.contexts - {DEFAULT})]
    numbers = {context: state.known.get((context, content)) for context in places}
    if schema_id is not None:
        numbers = {context: schema_id for context in places if state.with_id(schema_id, context) == content}
    every = [
        version
        for context, number in numbers.items()
        if number is not None
        for version in state.using(number, context, deleted=True)
    ]
    if not every:
        return {}
    first = min(every, key=lambda version: version.deleted)
    own_id = {} if schema_id is not None else {"id": first.schema_id}
    return {"subject": first.subject, "version": first.version, **own_id}


# -- compatibility ---------------------------------------------------------------------------------------


def compatible_with(store: Store, request: "Request", subject: str, number: str) -> Any:
    wanted = version_number(number)

    def earlier(registry: Registry) -> list[Version]:
        """Of a subject without versions the latest is none, and everything is compatible with it."""
        every = registry.state.versions(checked(subject))
        chosen = every[-1:] if wanted is None else [version for version in every if version.version == wanted]
        if wanted is not None and not chosen:
            raise errors.version_not_found(wanted)
        return chosen

    return _compatible(store, request, subject, earlier)


def compatible_with_all(store: Store, request: "Request", subject: str) -> Any:
    return _compatible(store, request, subject, lambda registry: registry.state.versions(checked(subject)))


def _compatible(
    store: Store, request: "Request", subject: str, earlier: Callable[[Registry], list[Version]]
) -> Any:
    content, _, _ = schema_of(request)

    def ask(registry: Registry) -> Any:
        check_references(registry, request, content)
        compared = earlier(registry)
        try:
            registry.parsed(content)
            problems = registry.incompatibilities(checked(subject), content, compared)
        except RegistryError as error:  # a schema that is none is compatible with nothing
            if error.status != 422 or not request.flag("verbose"):
                raise
            problems = [error.message]
        details = {"messages": problems} if request.flag("verbose") else {}
        return {"is_compatible": not problems, **details}

    return fresh(store, ask)


# -- settings --------------------------------------------------------------------------------------------


def config(store: Store, request: "Request", subject: str | None = None) -> Any:
    def ask(registry: Registry) -> Any:
        name = named_subject(subject)
        if not _has_own(name, registry.state.configs) and not request.flag("defaultToGlobal"):
            raise errors.no_compatibility(subject or "")
        return registry.state.config(name)

    return fresh(store, ask)


def _has_own(name: str | None, settings: Mapping[str | None, Any]) -> bool:
    """A subject must have it itself; a whole context falls back to what holds for all."""
    return name is None or is_context(name) or name in settings


def set_config(store: Store, request: "Request", subject: str | None = None) -> Any:
    body = body_of(request)
    return store.change(lambda registry: registry.set_config(named_subject(subject), body))


def delete_config(store: Store, request: "Request", subject: str | None = None) -> Any:
    return store.change(lambda registry: registry.delete_config(named_subject(subject)))


def mode(store: Store, request: "Request", subject: str | None = None) -> Any:
    def ask(registry: Registry) -> Any:
        name = named_subject(subject)
        mode, is_own = registry.state.mode(name), _has_own(name, registry.state.modes)
        if not is_own and mode != "READONLY_OVERRIDE" and not request.flag("defaultToGlobal"):
            raise errors.no_mode(subject or "")
        return {"mode": mode}

    return fresh(store, ask)


def set_mode(store: Store, request: "Request", subject: str | None = None) -> Any:
    wanted = body_of(request).get("mode")
    return store.change(
        lambda registry: registry.set_mode(named_subject(subject), wanted, force=request.flag("force"))
    )


def delete_mode(store: Store, request: "Request", subject: str | None = None) -> Any:
    return store.change(lambda registry: registry.delete_mode(named_subject(subject)))


def contexts(store: Store, request: "Request") -> Any:
    prefix = request.query.get("contextPrefix", "")
    names = store.ask(lambda registry: sorted(registry.state.contexts))
    return page_of(request, [name for name in names if name.startswith(prefix)])


def delete_context(store: Store, request: "Request", context: str) -> Any:
    return store.change(lambda registry: registry.delete_context(context))


def cluster(store: Store, request: "Request") -> Any:
    names = {"kafka-cluster": store.cluster_id(), "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": names}}


def software(store: Store, request: "Request") -> Any:
    from importlib.metadata import version as installed

    return {"version": installed("ottla"), "commitId": ""}


# -- parts of answers ------------------------------------------------------------------------------------


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
    if name not in _TYPES_THAT_HAVE_FORMATS:
        return content.schema
    if name == "resolved":
        check_references(registry, request, content)
    return registry.parsed(content).formatted(name)
