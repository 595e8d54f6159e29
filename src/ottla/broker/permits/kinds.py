"""How an entry of the table guards a handler: the whole request, or each part of it.

A request is refused as a whole, or in parts: parts that the client may not touch never reach the handler, and their
refusals join its answer.
"""

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from typing import Any

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import CloseConnection, refusal_of_parts
from ottla.errors import ProtocolError
from ottla.security.operations import CLUSTER, CLUSTER_NAME, TOPIC
from ottla.wire.messages import APIS

Handler = Callable[[Any, Context], Awaitable[Any]]
Permit = Callable[[Any, Context, Handler], Awaitable[Any]]
MayTouch = Callable[[Any, Context], bool]  # whether the client may touch this part of a request

ZERO_UUID = bytes(16)


async def free(request: Any, context: Context, handler: Handler) -> Any:
    """For everybody, or checked by the handler itself."""
    return await handler(request, context)


def cluster(*operations: int) -> Permit:
    """One of these operations on the cluster."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        if not may_cluster(context, *operations):
            raise errors.ClusterAuthorizationFailed
        return await handler(request, context)

    return permit


def whole(operation: int, resource_type: int, field: str) -> Permit:
    """The operation on the resource that this field of the request names."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        context.require(operation, resource_type, getattr(request, field) or "")
        return await handler(request, context)

    return permit


def parts(field: str, may_touch: MayTouch, error: type[ProtocolError]) -> Permit:
    """The operation for each part of a request by itself."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        allowed, denied = divided(getattr(request, field) or [], lambda part: may_touch(part, context))
        if not denied:
            return await handler(request, context)
        refusal = copy(request)
        setattr(refusal, field, denied)
        refused = refusal_of_parts(APIS[request.API_KEY], context.api_version, refusal, error())
        if not allowed:
            return refused
        setattr(request, field, allowed)
        return joined(await handler(request, context), refused)

    return permit


def divided(things: Iterable[Any], is_allowed: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    """Those that are allowed, and the others."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for thing in things:
        (allowed if is_allowed(thing) else denied).append(thing)
    return allowed, denied


def both(*permits: Permit) -> Permit:
    """One after the other."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        for outer in reversed(permits):
            handler = around(outer, handler)
        return await handler(request, context)

    return permit


def around(permit: Permit, handler: Handler) -> Handler:
    async def guarded(request: Any, context: Context) -> Any:
        return await permit(request, context, handler)

    return guarded


def joined(response: Any, refused: Any) -> Any:
    """Both answers in one. None (acks=0 is not answered) must not hide a refusal."""
    if response is None:
        raise CloseConnection("a produce without an answer was not authorized")
    for field in refused.FIELDS:
        if field.array and getattr(refused, field.name):
            setattr(response, field.name, [*getattr(response, field.name), *getattr(refused, field.name)])
    return response


def topic(operation: int, field: str = "name") -> MayTouch:
    """The operation on the topic that the part names, by its name or its id."""

    def may_touch(part: Any, context: Context) -> bool:
        name = getattr(part, field, None) or name_of(getattr(part, "topic_id", ZERO_UUID), context)
        # An id that nobody has is the handler's to refuse.
        return not name or context.allows(operation, TOPIC, name)

    return may_touch


def named(operation: int, resource_type: int) -> MayTouch:
    """The operation on the resource whose name the part is."""
    return lambda part, context: context.allows(operation, resource_type, part)


def topic_parts(operation: int, field: str = "topics", name: str = "name") -> Permit:
    return parts(field, topic(operation, name), errors.TopicAuthorizationFailed)


def name_of(topic_id: bytes, context: Context) -> str:
    known = context.metadata.image.topics_by_id.get(topic_id)
    return known.name if known is not None else ""


def may_cluster(context: Context, *operations: int) -> bool:
    return any(context.allows(operation, CLUSTER, CLUSTER_NAME) for operation in operations)
