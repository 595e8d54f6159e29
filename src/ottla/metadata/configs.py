"""Decisions on settings: AlterConfigs and IncrementalAlterConfigs of topics, brokers and groups."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from ottla import errors
from ottla.config.alter import Alteration, Operation, altered, check_dynamic_broker, replaced
from ottla.config.client_metrics import check_client_metrics
from ottla.config.definitions import ConfigKey, check_sizes
from ottla.config.group import GROUP_KEYS, check_group
from ottla.config.settings import Config, broker_key
from ottla.config.topic import TOPIC_KEYS, check_mirror, check_topic
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.metadata import leadership
from ottla.metadata.decision import Decision
from ottla.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Image,
)
from ottla.metadata.names import check_name
from ottla.metadata.records import ConfigSet

_NODE_ID = re.compile("-?[0-9]{1,10}")


@frozen
class ResourceResult:
    resource_type: int
    resource_name: str
    error: ProtocolError | None = None


@frozen
class ResourceAlterations:
    """What one resource of a request asks for."""

    resource_type: int
    resource_name: str
    alterations: tuple[Alteration, ...]


def alter_configs(
    resources: Iterable[ResourceAlterations], image: Image, config: Config, *, incremental: bool
) -> Decision[list[ResourceResult]]:
    """`incremental` changes what is named; else what is not named is unset (the older AlterConfigs)."""
    settings: list[ConfigSet] = []
    results: list[ResourceResult] = []
    named = list(resources)
    times = Counter((resource.resource_type, resource.resource_name) for resource in named)
    for resource in named:
        kind, name = resource.resource_type, resource.resource_name
        try:
            if times[kind, name] > 1:
                raise errors.InvalidRequest("Each resource must appear at most once.")
            before = image.settings(kind, name)
            after = _altered(resource, before, image, config, incremental)
        except ProtocolError as error:
            results.append(ResourceResult(kind, name, error))
        else:
            settings += _differences(kind, name, before, after)
            results.append(ResourceResult(kind, name))
    # A leader that applies the entry in order commits under the new minimum only after the ELR is empty.
    return Decision((*leadership.without_eligible(image, settings), *settings), results)


def _altered(
    resource: ResourceAlterations,
    before: Mapping[str, str],
    image: Image,
    config: Config,
    incremental: bool,
) -> dict[str, str]:
    key_of, inherited = _ways_of(resource.resource_type, config)
    _check_resource(resource, image)
    if incremental:
        after = altered(before, resource.alterations, key_of, inherited)
    else:
        after = replaced((alteration.name, alteration.value) for alteration in resource.alterations)
    check_sizes(before, after)
    match resource.resource_type:
        case 2:
            check_topic(after)
            check_mirror(before, after)
        case 4:
            check_dynamic_broker(before, after, one_broker=bool(resource.resource_name))
            if resource.resource_name:
                _check_minimum(resource.alterations, before)
                config.with_dynamic(config.dynamic_default, after).check_order()
            else:
                config.with_dynamic(after, {}).check_order()
        case 16:
            check_client_metrics(after)
        case _:
            check_group(after, config)
    return after


def _check_minimum(alterations: Iterable[Alteration], before: Mapping[str, str]) -> None:
    """Leaders must commit under the minimum by which the controller keeps the ELR: none has its own, as in Apache
    Kafka. One from elsewhere (`Settings` ignores it) may be unset."""
    for alteration in alterations:
        if alteration.name == leadership.MIN_ISR:
            if alteration.operation == Operation.DELETE and leadership.MIN_ISR in before:
                continue
            raise errors.InvalidConfig(
                "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            )


def _ways_of(
    kind: int, config: Config
) -> tuple[Callable[[str], ConfigKey | None], Callable[[ConfigKey], str | None]]:
    if kind == TOPIC_RESOURCE:
        return TOPIC_KEYS.get, lambda key: key.format(config.topic_default(key.name))
    if kind == BROKER_RESOURCE:
        return broker_key, lambda key: key.format(config[key.name])
    if kind == GROUP_RESOURCE:
        return GROUP_KEYS.get, lambda key: key.format(config[f"group.{key.name}"])
    if kind == CLIENT_METRICS_RESOURCE:
        return lambda name: None, lambda key: None  # Kafka appends to none of them, although they are lists
    raise errors.InvalidRequest(f"Unknown resource type {kind}")


def _check_resource(resource: ResourceAlterations, image: Image) -> None:
    name = resource.resource_name
    match resource.resource_type:
        case 2:
            if not name:
                raise errors.InvalidRequest("Default topic resources are not allowed.")
            check_name(name)
            if name not in image.topics:
                raise errors.UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        case 4:
            if name and not _NODE_ID.fullmatch(name):
                raise errors.InvalidRequest(f"Node id must be an integer, but it is: {name}")
            if name and int(name) not in image.brokers:
                raise errors.InvalidRequest(f"Broker {name} is not registered.")
        case 16:
            if not name:
                raise errors.InvalidRequest("Subscription name can't be empty")
        case _:
            if not name:
                raise errors.InvalidRequest("Default group resources are not allowed.")


def _differences(
    kind: int, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[ConfigSet]:
    gone = [ConfigSet(kind, name, key, None) for key in before if key not in after]
    return gone + [
        ConfigSet(kind, name, key, value) for key, value in after.items() if before.get(key) != value
    ]
