"""Settings of topics, brokers and groups: described, altered, listed."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeVar

from ottla import errors
from ottla.broker.handlers import loggers
from ottla.broker.requests.context import Context
from ottla.config.alter import Alteration, Operation
from ottla.config.definitions import Source
from ottla.config.describe import (
    Entry,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.metadata import configs as decisions
from ottla.metadata.configs import ResourceAlterations, ResourceResult
from ottla.metadata.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.metadata.names import is_legal
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.wire.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

RESOURCE_UNITS = 500_000  # of work: all settings described in about half a millisecond
BROKER_LOGGER_RESOURCE = 8
LISTED_BEFORE_V1 = (CLIENT_METRICS_RESOURCE,)
KNOWN_RESOURCES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)


async def describe_configs(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    results = []
    for resource in {_identity(asked): asked for asked in request.resources}.values():
        results.append(_described(resource, request, context))
        await context.pace(RESOURCE_UNITS)
    return DescribeConfigsResponse(results=results)


def _identity(resource: DescribeConfigsResource) -> Hashable:
    """Asked for twice alike, it is answered once."""
    keys = resource.configuration_keys
    return resource.resource_type, resource.resource_name, None if keys is None else frozenset(keys)


def _described(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        entries = _entries(resource, context)
    except errors.ProtocolError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    wanted = resource.configuration_keys or None  # Kafka takes an empty list for all, too
    result.configs = [_entry(entry, request) for entry in entries if wanted is None or entry.name in wanted]
    return result


def _entries(resource: DescribeConfigsResource, context: Context) -> list[Entry]:
    image, config, name = context.metadata.image, context.config, resource.resource_name
    match resource.resource_type:
        case 2:
            if not is_legal(name):
                raise errors.InvalidTopicException(f"Topic name {name!r} is illegal")
            if name not in image.topics:
                raise errors.UnknownTopicOrPartition()
            return describe_topic(image.settings(TOPIC_RESOURCE, name), config)
        case 4:
            if name == "":
                return describe_broker_default(config)
            if name != str(config.node_id):
                raise errors.InvalidRequest(
                    f"Unexpected broker id, expected {config.node_id} or empty string, but received {name}"
                )
            return describe_broker(config)
        case 32:
            if not name:
                raise errors.InvalidRequest("Group name must not be empty")
            return describe_group(image.settings(GROUP_RESOURCE, name), config)
        case 8:
            loggers.check_broker(name, config.node_id)
            return loggers.describe_loggers()
        case 16:
            if not name:
                raise errors.InvalidRequest("Client metrics subscription name must not be empty")
            return describe_client_metrics(image.settings(CLIENT_METRICS_RESOURCE, name), config)
        case other:
            raise errors.InvalidRequest(f"Unsupported resource type: {other}")


def _entry(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    documented = (
        request.include_documentation or entry.source is Source.BROKER_LOGGER
    )  # as Kafka has it: empty
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation if documented else None,
    )


async def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    resources = [
        ResourceAlterations(
            resource.resource_type,
            resource.resource_name,
            tuple(Alteration(config.name, Operation.SET, config.value) for config in resource.configs),
        )
        for resource in request.resources
    ]
    results = await _alter(resources, request.validate_only, context, incremental=False)
    return AlterConfigsResponse(
        responses=[_filled(AlterConfigsResourceResponse(), result) for result in results]
    )


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    return await _loggers_apart(request, context, _alter_incrementally)


async def relay_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """The controller is at another broker; levels of loggers are this broker's own."""

    async def relay(
        rest: IncrementalAlterConfigsRequest, context: Context
    ) -> IncrementalAlterConfigsResponse:
        return await context.metadata.relay(rest, context.api_version, context.sender)

    return await _loggers_apart(request, context, relay)


async def _loggers_apart(
    request: IncrementalAlterConfigsRequest,
    context: Context,
    alter: Callable[[IncrementalAlterConfigsRequest, Context], Awaitable[IncrementalAlterConfigsResponse]],
) -> IncrementalAlterConfigsResponse:
    own = [resource for resource in request.resources if resource.resource_type == BROKER_LOGGER_RESOURCE]
    if not own:
        return await alter(request, context)
    answers = [_alter_loggers(resource, own, request, context) for resource in own]
    request.resources = [
        resource for resource in request.resources if resource.resource_type != BROKER_LOGGER_RESOURCE
    ]
    response = (
        await alter(request, context) if request.resources else IncrementalAlterConfigsResponse(responses=[])
    )
    response.responses = [*answers, *response.responses]
    return response


def _alter_loggers(
    resource: IncrementalResource,
    resources: Sequence[IncrementalResource],
    request: IncrementalAlterConfigsRequest,
    context: Context,
) -> IncrementalResourceResponse:
    name = resource.resource_name
    result = ResourceResult(BROKER_LOGGER_RESOURCE, name)
    try:
        if name in loggers.repeated(resources):
            raise errors.InvalidRequest("Each resource must appear at most once.")
        loggers.alter_loggers(
            name, context.config.node_id, _alterations(resource), validate_only=request.validate_only
        )
    except errors.ProtocolError as error:
        result = ResourceResult(BROKER_LOGGER_RESOURCE, name, error)
    return _filled(IncrementalResourceResponse(), result)


async def _alter_incrementally(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    resources = [
        ResourceAlterations(resource.resource_type, resource.resource_name, _alterations(resource))
        for resource in request.resources
    ]
    results = await _alter(resources, request.validate_only, context, incremental=True)
    return IncrementalAlterConfigsResponse(
        responses=[_filled(IncrementalResourceResponse(), result) for result in results]
    )


def _alterations(resource: IncrementalResource) -> tuple[Alteration, ...]:
    return tuple(
        Alteration(config.name, config.config_operation, config.value) for config in resource.configs
    )


async def _alter(
    resources: list[ResourceAlterations], validate_only: bool, context: Context, *, incremental: bool
) -> list[ResourceResult]:
    return await context.metadata.change(
        lambda image, config: decisions.alter_configs(resources, image, config, incremental=incremental),
        validate_only=validate_only,
    )


ResourceResponse = TypeVar("ResourceResponse", AlterConfigsResourceResponse, IncrementalResourceResponse)


def _filled(response: ResourceResponse, result: ResourceResult) -> ResourceResponse:
    response.error_code = result.error.code if result.error else 0
    response.error_message = result.error.message if result.error else None
    response.resource_type, response.resource_name = result.resource_type, result.resource_name
    return response


async def list_config_resources(
    request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    """v0 asked for client metrics only."""
    kinds = tuple(request.resource_types) or KNOWN_RESOURCES
    if context.api_version == 0:
        kinds = LISTED_BEFORE_V1
    if any(kind not in KNOWN_RESOURCES for kind in kinds):
        return ListConfigResourcesResponse(error_code=errors.UnsupportedVersion.code)
    image = context.metadata.image
    names = {
        GROUP_RESOURCE: [name for kind, name in image.configured() if kind == GROUP_RESOURCE],
        BROKER_RESOURCE: [str(broker_id) for broker_id in image.brokers],
        BROKER_LOGGER_RESOURCE: [str(broker_id) for broker_id in image.brokers],
        TOPIC_RESOURCE: list(image.topics),
        CLIENT_METRICS_RESOURCE: sorted(image.client_metrics),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, listed in names.items()
            if kind in kinds
            for name in listed
        ]
    )
