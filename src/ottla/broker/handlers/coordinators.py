"""FindCoordinator: which broker has a group, or a transactional id. v4 asks for several at once."""

from ottla import errors
from ottla.broker.context import Context
from ottla.broker.coordinators import Coordinator as Shards
from ottla.broker.handlers.leaders import endpoints_of
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

BATCHED_FROM = 4
GROUP, TRANSACTION = 0, 1


async def find_coordinator(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_FROM:
        coordinators = [await _found(key, request.key_type, context) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=coordinators)
    one = await _found(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _found(key: str, key_type: int, context: Context) -> Coordinator:
    try:
        shards = _shards(key, key_type, context)
        await context.broker.ensure_topic(shards.topic)
        node_id, host, port, _ = _leader(shards, key, context)
    except errors.ProtocolError as error:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=node_id, host=host, port=port)


def _shards(key: str, key_type: int, context: Context) -> Shards:
    if key_type == GROUP:
        return context.broker.groups
    if key_type != TRANSACTION:
        raise errors.InvalidRequest(f"coordinators of type {key_type} are not served")
    if not key:
        raise errors.InvalidRequest("a transactional id is not empty")
    return context.broker.transactions.coordinator


def _leader(shards: Shards, key: str, context: Context) -> tuple[int, str, int, str | None]:
    partition = context.broker.image.partition(shards.topic, shards.index_of(key))
    endpoints = endpoints_of(context, [partition.leader] if partition is not None else [])
    if not endpoints:
        raise errors.CoordinatorNotAvailable()
    return endpoints[0]
