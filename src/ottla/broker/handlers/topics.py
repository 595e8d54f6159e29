"""Topics come, grow and go: CreateTopics, DeleteTopics, CreatePartitions."""

from ottla.broker.context import Context
from ottla.config.describe import describe_topic
from ottla.metadata import topics as decisions
from ottla.metadata.topics import TopicResult
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

STATES_FROM = 6  # of DeleteTopics: names or ids


async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    broker = context.broker
    results = await broker.change(
        lambda image, config: decisions.create_topics(request.topics, image, config, broker.new_uuid),
        validate_only=request.validate_only,
    )
    wanted = {topic.name: topic for topic in request.topics}
    return CreateTopicsResponse(topics=[_created(each, wanted[each.name or ""], context) for each in results])


def _created(result: TopicResult, wanted: CreatableTopic, context: Context) -> CreatableTopicResult:
    name = result.name or ""
    if result.error is not None:
        return CreatableTopicResult(
            name=name, error_code=result.error.code, error_message=result.error.message, configs=[]
        )
    overrides = {each.name: each.value or "" for each in wanted.configs}
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
            for entry in describe_topic(overrides, context.broker.config)
        ],
    )


async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    wanted = request.topics
    if context.api_version < STATES_FROM:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    results = await context.broker.change(
        lambda image, config: decisions.delete_topics(wanted, image, config)
    )
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=each.name,
                topic_id=each.topic_id,
                error_code=each.error.code if each.error else 0,
                error_message=each.error.message if each.error else None,
            )
            for each in results
        ]
    )


async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    results = await context.broker.change(
        lambda image, config: decisions.create_partitions(request.topics, image, config),
        validate_only=request.validate_only,
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=each.name or "",
                error_code=each.error.code if each.error else 0,
                error_message=each.error.message if each.error else None,
            )
            for each in results
        ]
    )
