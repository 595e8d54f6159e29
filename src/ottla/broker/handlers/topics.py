"""Topics come, grow and go: CreateTopics, DeleteTopics, CreatePartitions."""

from typing import TYPE_CHECKING

from ottla.broker.requests.context import Context
from ottla.config.describe import describe_topic
from ottla.metadata import topics as decisions
from ottla.metadata.topics import Charge, TopicResult, free_of_charge
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from ottla.security.quotas import Mutations

STATES_FROM = 6  # of DeleteTopics: names or ids
# From these versions on, clients know THROTTLING_QUOTA_EXCEEDED.
STRICT_FROM = {
    CreateTopicsRequest.API_KEY: 6,
    DeleteTopicsRequest.API_KEY: 5,
    CreatePartitionsRequest.API_KEY: 3,
}


async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    mutations = mutations_of(request, context)
    results = await context.metadata.change(
        lambda image, config: decisions.create_topics(
            request.topics, image, config, context.metadata.new_uuid, _charge(mutations)
        ),
        validate_only=request.validate_only,
    )
    wanted = {topic.name: topic for topic in request.topics}
    return CreateTopicsResponse(
        topics=[_created(result, wanted[result.name or ""], context) for result in results],
        throttle_time_ms=_throttle_ms(mutations),
    )


def _created(result: TopicResult, wanted: CreatableTopic, context: Context) -> CreatableTopicResult:
    name = result.name or ""
    if result.error is not None:
        return CreatableTopicResult(
            name=name, error_code=result.error.code, error_message=result.error.message, configs=[]
        )
    overrides = {config.name: config.value or "" for config in wanted.configs}
    return CreatableTopicResult(
        name=name,
        topic_id=result.topic_id,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(overrides, context.config)
        ],
    )


async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    wanted = request.topics
    if context.api_version < STATES_FROM:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    mutations = mutations_of(request, context)
    results = await context.metadata.change(
        lambda image, config: decisions.delete_topics(wanted, image, config, _charge(mutations))
    )
    return DeleteTopicsResponse(
        throttle_time_ms=_throttle_ms(mutations),
        responses=[
            DeletableTopicResult(
                name=result.name,
                topic_id=result.topic_id,
                error_code=result.error.code if result.error else 0,
                error_message=result.error.message if result.error else None,
            )
            for result in results
        ],
    )


async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    mutations = mutations_of(request, context)
    results = await context.metadata.change(
        lambda image, config: decisions.create_partitions(request.topics, image, config, _charge(mutations)),
        validate_only=request.validate_only,
    )
    return CreatePartitionsResponse(
        throttle_time_ms=_throttle_ms(mutations),
        results=[
            CreatePartitionsTopicResult(
                name=result.name or "",
                error_code=result.error.code if result.error else 0,
                error_message=result.error.message if result.error else None,
            )
            for result in results
        ],
    )


# -- controller_mutation_rate --------------------------------------------------------------------------------


def mutations_of(
    request: CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest, context: Context
) -> "Mutations | None":
    """What the client's changes are charged to, here at the controller; None if it has no quota."""
    quotas = context.quotas
    if quotas is None:
        return None
    is_strict = context.api_version >= STRICT_FROM[request.API_KEY]
    now_ms = context.clock.monotonic_ms()
    return quotas.mutations(context.client.principal, context.client_id, now_ms, is_strict=is_strict)


def _charge(mutations: "Mutations | None") -> Charge:
    return free_of_charge if mutations is None else mutations.charge


def _throttle_ms(mutations: "Mutations | None") -> int:
    return 0 if mutations is None else mutations.throttle_ms
