"""FindCoordinator: which broker has a group, or a transactional id. v4 asks for several at once."""

from ottla import errors
from ottla.broker.coordinators.shards import ShardedTopic
from ottla.broker.handlers.leaders import endpoints_of
from ottla.broker.requests.context import Context
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

BATCHED_FROM = 4
TRANSACTION = 1


async def find_coordinator(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    is_batched = context.api_version >= BATCHED_FROM
    keys = list(dict.fromkeys(request.coordinator_keys)) if is_batched else [request.key]
    refusal = await _topic_refusal(request.key_type, context) if keys else None
    coordinators = [_coordinator(key, request.key_type, refusal, context) for key in keys]
    if is_batched:
        return FindCoordinatorResponse(coordinators=coordinators)
    (coordinator,) = coordinators
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


async def _topic_refusal(key_type: int, context: Context) -> errors.ProtocolError | None:
    """Creates the internal topic, once for all keys of the request; why that cannot be done yet."""
    shards = _shards(key_type, context)
    if shards is None:
        return None
    try:
        await context.metadata.ensure_topic(shards.topic)
    except errors.NotController as error:  # a client knows what to do about the other one
        return errors.CoordinatorNotAvailable(error.message)
    except errors.ProtocolError as error:
        return error
    return None


def _coordinator(
    key: str, key_type: int, refusal: errors.ProtocolError | None, context: Context
) -> Coordinator:
    try:
        shards = _shards(key_type, context)
        if shards is None:
            raise errors.InvalidRequest(f"coordinators of type {key_type} are not served")
        if key_type == TRANSACTION and not key:
            raise errors.InvalidRequest("a transactional id is not empty")
        if refusal is not None:
            raise refusal
        node_id, host, port, _ = _leader(shards, key, context)
    except errors.ProtocolError as error:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=node_id, host=host, port=port)


def _shards(key_type: int, context: Context) -> ShardedTopic | None:
    match key_type:
        case 0:
            return context.groups
        case 1:
            return context.transactions.coordinator
        case 2:
            return context.share_states
        case _:
            return None


def _leader(shards: ShardedTopic, key: str, context: Context) -> tuple[int, str, int, str | None]:
    partition = context.metadata.image.partition(shards.topic, shards.index_of(key))
    endpoints = endpoints_of(context, [partition.leader] if partition is not None else [])
    if not endpoints:
        raise errors.CoordinatorNotAvailable()
    return endpoints[0]
