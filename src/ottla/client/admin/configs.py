"""Settings of topics, brokers and groups as the cluster holds them."""

from collections.abc import Iterable, Mapping

from ottla import errors
from ottla.client.core.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.errors import error_for
from ottla.frozen import frozen
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest

TYPES = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
SOURCES = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@frozen
class Config:
    """One setting, its value and where the value comes from."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, str], ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == "DEFAULT_CONFIG"


async def describe(
    cluster: Cluster,
    kind: str,
    name: str,
    *,
    keys: Iterable[str] | None = None,
    documentation: bool = False,
) -> dict[str, Config]:
    """The settings of one topic, broker ("" = all brokers) or group."""
    resource = DescribeConfigsResource(resource_type=type_of(kind), resource_name=name)
    resource.configuration_keys = None if keys is None else list(keys)
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=documentation
    )

    async def attempt() -> dict[str, Config]:
        answer = await cluster.ask(request, _node(kind, name))
        result = answer.results[0]
        if result.error_code:
            raise _unretriable(
                result.error_code,
                f"{kind} {name}: {result.error_message or errors.NAMES.get(result.error_code)}",
            )
        return {
            config.name: Config(
                config.name,
                config.value,
                SOURCES.get(config.config_source, "UNKNOWN"),
                config.read_only,
                config.is_sensitive,
                tuple((s.name, s.value, SOURCES.get(s.source, "UNKNOWN")) for s in config.synonyms),
                config.documentation,
            )
            for config in result.configs
        }

    return await cluster.retrying(attempt, f"the settings of {kind} {name} could not be read")


async def alter(
    cluster: Cluster,
    kind: str,
    name: str,
    *,
    set_: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
    append: Mapping[str, str] | None = None,
    subtract: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Changes these settings and leaves all others alone."""
    changes: list[tuple[str, int, str | None]] = [(key, SET, value) for key, value in (set_ or {}).items()]
    changes += [(key, DELETE, None) for key in delete]
    changes += [(key, APPEND, value) for key, value in (append or {}).items()]
    changes += [(key, SUBTRACT, value) for key, value in (subtract or {}).items()]
    configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    for config, (_, _, value) in zip(configs, changes, strict=True):
        config.value = value
    resource = AlterConfigsResource(resource_type=type_of(kind), resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

    async def attempt() -> None:
        node = _node(kind, name)
        answer = await (cluster.ask_controller(request) if node is None else cluster.ask(request, node))
        for result in answer.responses:
            if result.error_code:
                raise _unretriable(
                    result.error_code,
                    f"{kind} {name}: {result.error_message or errors.NAMES.get(result.error_code)}",
                )

    await cluster.retrying(attempt, f"the settings of {kind} {name} could not be changed")


async def resources(cluster: Cluster, kind: str) -> list[str]:
    """Names of what has settings of the kind."""
    request = ListConfigResourcesRequest(resource_types=[type_of(kind)])

    async def attempt() -> list[str]:
        answer = await cluster.ask(request)
        if answer.error_code:
            raise error_for(answer.error_code, f"{kind}: {errors.NAMES.get(answer.error_code)}")
        return [resource.resource_name for resource in answer.config_resources]

    return await cluster.retrying(attempt, f"settings of {kind} could not be listed")


def type_of(kind: str) -> int:
    if kind not in TYPES:
        raise ClientError(f"{kind!r} has no settings; it must be one of {', '.join(TYPES)}")
    return TYPES[kind]


def _node(kind: str, name: str) -> int | None:
    """Only a broker knows its own settings."""
    return int(name) if kind.startswith("broker") and name.isdecimal() else None


def _unretriable(code: int, text: str) -> Exception:
    """An unknown topic is an answer here, not a sign of stale metadata."""
    error = error_for(code, text)
    return ClientError(text) if isinstance(error, errors.UnknownTopicOrPartition) else error
