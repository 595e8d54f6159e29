"""What IncrementalAlterConfigs and AlterConfigs make of the settings that are there. Pure functions."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla import errors
from ottla.config.definitions import INT_MAX, ConfigKey, Type, Update
from ottla.config.protection import broken_promise
from ottla.config.security import LISTENER_LIMITS, is_fixed, is_of_listeners, limit_of
from ottla.config.settings import broker_key


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    name: str
    operation: int
    value: str | None


def altered(
    current: Mapping[str, str],
    alterations: Iterable[Alteration],
    key_of: Callable[[str], ConfigKey | None],
    inherited: Callable[[ConfigKey], str | None],
) -> dict[str, str]:
    """The settings after these operations; `inherited` is what a list that is not set begins from."""
    wanted = list(alterations)
    check_shape(wanted)
    result = dict(current)
    for name, operation, value in wanted:
        if operation == Operation.DELETE:
            result.pop(name, None)
            continue
        assert value is not None
        if operation == Operation.SET:
            result[name] = value
        else:
            key = _list_key(name, Operation(operation), key_of)
            before = result.get(name, inherited(key) or "")
            result[name] = _combined(before, value, Operation(operation))
    return result


def replaced(settings: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """AlterConfigs: these settings and no others."""
    wanted = [Alteration(name, Operation.SET, value) for name, value in settings]
    check_shape(wanted)
    return {name: value for name, _, value in wanted if value is not None}


def check_dynamic_broker(before: Mapping[str, str], after: Mapping[str, str], *, one_broker: bool) -> None:
    """Refuse what cannot change while running, or not for all brokers at once."""
    touched = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    keys = [key for name in touched if (key := broker_key(name)) is not None]
    fixed = [key.name for key in keys if key.update is Update.READ_ONLY]
    if fixed:
        raise errors.InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    own = [key.name for key in keys if key.update is Update.PER_BROKER]
    if own and not one_broker:
        raise errors.InvalidRequest(
            "Cannot update these configs at default cluster level, "
            f"broker id must be specified: [{', '.join(own)}]"
        )
    of_listeners = [name for name in touched if is_fixed(name)]
    if of_listeners:
        raise errors.InvalidRequest(
            f"Cannot update these configs dynamically: [{', '.join(of_listeners)}]. Logins, classes and key stores "
            "are those of the property file; a key store that changes is read again by itself"
        )
    for name in touched:
        is_limit = is_of_listeners(name) and name.endswith(LISTENER_LIMITS)
        if is_limit and limit_of(after.get(name, "0")) is None:
            raise errors.InvalidConfig(f"{name}={after[name][:20]} is not a number from 0 to {INT_MAX}")
    for key in keys:
        key.parse(after.get(key.name))
    for name in touched:
        why = broken_promise(name, after.get(name, ""))
        if why is not None:
            raise errors.InvalidRequest(why)


def check_shape(alterations: list[Alteration]) -> None:
    names = [alteration.name for alteration in alterations]
    if len(set(names)) < len(names):
        raise errors.InvalidRequest("Error due to duplicate config keys")
    missing = [
        alteration.name
        for alteration in alterations
        if alteration.value is None and alteration.operation != Operation.DELETE
    ]
    if missing:
        raise errors.InvalidRequest(f"Null value not supported for : {','.join(missing)}")
    for alteration in alterations:
        if alteration.operation not in Operation.__members__.values():
            raise errors.InvalidRequest(f"Unknown operation {alteration.operation} for {alteration.name}")


def _list_key(name: str, operation: Operation, key_of: Callable[[str], ConfigKey | None]) -> ConfigKey:
    key = key_of(name)
    if key is None or key.type is not Type.LIST:
        raise errors.InvalidConfig(f"Can't {operation.name} to key {name} because its type is not LIST.")
    return key


def _combined(before: str, value: str, operation: Operation) -> str:
    parts = [part.strip() for part in before.split(",") if part.strip()]
    named = [part.strip() for part in value.split(",")]
    if operation is Operation.APPEND:
        parts += [part for part in named if part not in parts]
    else:
        parts = [part for part in parts if part not in named]
    return ",".join(parts)
