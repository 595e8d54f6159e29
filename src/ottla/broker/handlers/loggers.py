"""Levels of loggers while the broker runs (the resource BROKER_LOGGER): of this broker alone, until it ends."""

import logging
from collections import Counter
from collections.abc import Sequence

from ottla import errors
from ottla.config.alter import Alteration, Operation, check_shape
from ottla.config.definitions import Source, Type
from ottla.config.describe import Entry
from ottla.wire.messages.incremental_alter_configs import AlterConfigsResource

ROOT = "root"
DIGITS_MAX = 20  # of a broker's id: 32 bits, and some zeros before them
LEVELS = {"TRACE": 5, "DEBUG": 10, "ERROR": 40, "FATAL": 50, "INFO": 20, "WARN": 30}
# Those that exist before anything is logged to them.
KNOWN = (
    "ottla",
    "ottla.audit",
    "ottla.broker",
    "ottla.client",
    "ottla.coordination",
    "ottla.groups",
    "ottla.replication",
    "ottla.server",
    "ottla.share",
    "ottla.storage",
    "ottla.telemetry",
    "ottla.zookeeper",
)


def check_broker(name: str, node_id: int) -> None:
    if not name:
        raise errors.InvalidRequest("Broker id must not be empty")
    if not _is_integer(name):
        raise errors.InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise errors.InvalidRequest(f"Unexpected broker id, expected {node_id} but received {name}")


def describe_loggers() -> list[Entry]:
    return [
        Entry(name, _level_of(name), False, Source.BROKER_LOGGER, False, Type.UNKNOWN, "", ())
        for name in _names()
    ]


def alter_loggers(name: str, node_id: int, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
    """All of them, or an error and none."""
    if not _is_integer(name):
        raise errors.InvalidRequest(f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise errors.InvalidRequest(f"Unexpected node id. Expected {node_id}, but received {name}")
    check_shape(list(alterations))
    for alteration in alterations:
        _check(alteration)
    if validate_only:
        return
    for alteration in alterations:
        level = LEVELS[alteration.value or ""] if alteration.operation == Operation.SET else logging.NOTSET
        _logger(alteration.name).setLevel(level)


def _is_integer(name: str) -> bool:
    """Python refuses to read numbers of thousands of digits, with an error that is no answer."""
    return len(name) <= DIGITS_MAX and name.removeprefix("-").isdecimal()


def repeated(resources: Sequence[AlterConfigsResource]) -> set[str]:
    counts = Counter(resource.resource_name for resource in resources)
    return {name for name, count in counts.items() if count > 1}


def _check(alteration: Alteration) -> None:
    match alteration.operation:
        case Operation.SET:
            if alteration.name not in _names():
                raise errors.InvalidConfig(f"Logger {alteration.name} does not exist!")
            if alteration.value not in LEVELS:
                raise errors.InvalidConfig(
                    f"Cannot set the log level of {alteration.name} to {alteration.value} as it is not a "
                    f"supported log level. Valid log levels are {', '.join(sorted(LEVELS))}"
                )
        case Operation.DELETE:
            if alteration.name not in _names():
                raise errors.InvalidConfig(f"Logger {alteration.name} does not exist!")
            if alteration.name == ROOT:
                raise errors.InvalidRequest("Removing the log level of the root logger is not allowed")
        case other:
            raise errors.InvalidRequest(
                f"{Operation(other).name} operation is not allowed for the BROKER_LOGGER resource"
            )


def _names() -> list[str]:
    """Ours, and the one above all: others belong to libraries."""
    existing = (name for name in logging.root.manager.loggerDict if name.startswith("ottla."))
    return [ROOT, *sorted({*KNOWN, *existing})]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _level_of(name: str) -> str:
    """By its own level or that of the next one above that has one."""
    effective = _logger(name).getEffectiveLevel()
    return max(
        (level for level in LEVELS.items() if level[1] <= max(effective, 5)), key=lambda level: level[1]
    )[0]
