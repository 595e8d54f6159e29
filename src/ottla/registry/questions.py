"""What a request names: versions, ids, subjects, a schema in its body, a page. Read, checked and looked up."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.registry import errors
from ottla.registry.decisions import Decision, Registry
from ottla.registry.errors import RegistryError
from ottla.registry.formats import check_encodable
from ottla.registry.records import NUMBER_MAX, number_in
from ottla.registry.state import Content, Version, content_of
from ottla.registry.subjects import DEFAULT, checked, context_of, is_context, normal, qualified

if TYPE_CHECKING:
    from ottla.registry.routes import Request

_DIGITS_MAX = len(str(NUMBER_MAX))


class Store(Protocol):
    """What handlers ask: `catch_up` waits until everything that is committed by now is known."""

    def ask(self, question: Callable[[Registry], Any]) -> Any: ...

    def change(self, decide: Callable[[Registry], Decision]) -> Any: ...

    def catch_up(self) -> None: ...

    def cluster_id(self) -> str: ...


def fresh(store: Store, question: Callable[[Registry], Any]) -> Any:
    """Before something is said to be missing, everything that is committed by now is read."""
    try:
        return store.ask(question)
    except RegistryError as error:
        if error.status != 404:
            raise
    store.catch_up()
    return store.ask(question)


def named_version(registry: Registry, request: "Request", subject: str, number: str) -> Version:
    return registry.state.version(checked(subject), version_number(number), deleted=request.flag("deleted"))


def version_number(text: str) -> int | None:
    """None for the latest."""
    if text in ("latest", "-1"):
        return None
    number = number_of(text)
    if not number:
        raise errors.invalid_version(text)
    return number


def content_with_id(registry: Registry, request: "Request", schema_id: str) -> Content:
    number = id_number(schema_id)
    content = registry.state.with_id(number, context_with_id(registry, request, schema_id))
    if content is None:
        raise errors.schema_not_found(schema_id)
    return content


def versions_with_id(registry: Registry, request: "Request", schema_id: str) -> list[Version]:
    wanted, context = request.query.get("subject"), context_with_id(registry, request, schema_id)
    return [
        version
        for version in registry.state.using(id_number(schema_id), context, deleted=request.flag("deleted"))
        if not wanted or is_context(wanted) or version.subject == qualified(context, normal(wanted))
    ]


def context_with_id(registry: Registry, request: "Request", schema_id: str) -> str:
    """The context whose schema the request means: each context counts its ids from 1.

    It is the context of `?subject=`; without that the default one, or else the first that has the id.
    """
    number, contexts = id_number(schema_id), [DEFAULT, *sorted(registry.state.contexts - {DEFAULT})]
    if "subject" in request.query:
        contexts = [context_of(request.query["subject"])]
    for context in contexts:
        if registry.state.with_id(number, context) is not None:
            return context
    raise errors.schema_not_found(schema_id)


def id_number(text: str) -> int:
    number = number_of(text)
    if number is None:
        raise RegistryError(404, 404, "HTTP 404 Not Found")
    return number


def number_of(text: str) -> int | None:
    """None for what is no number, and for one beyond an int32. Python reads no number of thousands of digits."""
    if not text.isdecimal() or len(text) > _DIGITS_MAX:
        return None
    return int(text) if int(text) <= NUMBER_MAX else None


def named_subject(subject: str | None) -> str | None:
    return None if subject is None else normal(subject)


def body_of(request: "Request") -> dict[str, Any]:
    if not isinstance(request.body, dict):
        raise errors.unprocessable("the body must be a JSON object")
    return request.body


def schema_of(request: "Request", *, may_be_empty: bool = False) -> tuple[Content, int | None, int | None]:
    """The schema of the body, and the id and version that it asks for."""
    body = {"schema": "", **body_of(request)}
    if not isinstance(body["schema"], str) or not (may_be_empty or body["schema"].strip()):
        raise errors.invalid_schema("Empty schema")
    try:
        content = content_of(body)
        schema_id, number = body.get("id"), body.get("version")
        wanted = None if schema_id in (None, -1) else number_in(schema_id, 1)
        return _encodable(content), wanted, None if number is None else number_in(number, -1)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise errors.unprocessable(f"the body cannot be read: {error!r}") from error


def check_references(registry: Registry, request: "Request", content: Content) -> None:
    """Before the text of what a schema refers to is used: by way of it a user would read other subjects."""
    if request.readable is not None and content.references:
        beyond = registry.references_beyond(request.readable, content)
        if beyond:
            raise errors.ReferencesMet(beyond)


def _encodable(content: Content) -> Content:
    """JSON may have half a surrogate pair in a string; neither the topic nor an answer can."""
    names = (text for reference in content.references for text in (reference.name, reference.subject))
    texts = content.schema, content.schema_type, content.metadata or "", content.rule_set or "", *names
    for text in texts:
        check_encodable(text)
    return content


def page_of(request: "Request", rows: list[Any]) -> list[Any]:
    begin, limit = max(0, request.number("offset", 0)), request.number("limit", -1)
    return rows[begin:] if limit < 0 else rows[begin : begin + limit]
