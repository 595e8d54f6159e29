"""Transforms of single records, under Kafka's class names; with predicates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ottla.connect.errors import ConfigError
from ottla.connect.settings import Config, Setting
from ottla.connect.spi import SinkRecord, SourceRecord

R = TypeVar("R", SourceRecord, SinkRecord)
PACKAGE = "org.apache.kafka.connect.transforms."
# These look at names and schemas, not at values.
MOVING = frozenset({
    "ExtractField", "Filter", "Flatten", "HoistField", "InsertField", "MaskField", "RegexRouter", "ReplaceField",
    "SetSchemaMetadata", "ValueToKey",
})  # fmt: skip


class Transform(Protocol):
    def apply(self, record: Any) -> Any:
        """The record as it goes on, or None: it goes no further. Raises DataError."""


class Predicate(Protocol):
    def test(self, record: Any) -> bool: ...


class Transforms:
    """All of a connector, in their order."""

    def __init__(self, config: Config) -> None:
        self._steps: list[tuple[str, Transform, Predicate | None, bool]] = []
        aliases = config.get("transforms") or []
        if aliases:
            predicates = _predicates(config)
            for alias in aliases:
                self._steps.append(_step(config, alias, predicates))

    @property
    def is_set(self) -> bool:
        return bool(self._steps)

    def columns(self, record: SourceRecord) -> SourceRecord | None:
        """The record holds columns (`transforms.columns`). Raises NotAsColumns where values must be looked at."""
        from ottla.connect.transforms.columns import NotAsColumns

        transformed: SourceRecord | None = record
        for class_name, transform, predicate, negated in self._steps:
            if class_name.removeprefix(PACKAGE).partition("$")[0] not in MOVING or (
                predicate is not None and type(predicate).__name__ != "TopicNameMatches"
            ):
                raise NotAsColumns(class_name)
            if predicate is None or predicate.test(transformed) != negated:
                try:
                    transformed = transform.apply(transformed)
                except (
                    AttributeError,
                    TypeError,
                ) as error:  # inside of a struct that some records do not have
                    raise NotAsColumns(class_name) from error
            if transformed is None:
                return None
        return transformed

    def all(self, records: Sequence[R]) -> list[R]:
        """Without a handling of errors: the first one is raised."""
        transformed: list[Any] = list(records)
        for _, transform, predicate, negated in self._steps:
            if predicate is None:
                applied = [transform.apply(record) for record in transformed]
            else:
                applied = [
                    record if predicate.test(record) == negated else transform.apply(record)
                    for record in transformed
                ]
            transformed = [record for record in applied if record is not None]
        return transformed

    def apply(self, record: R, handling: Any) -> R | None:
        transformed: R | None = record
        for class_name, transform, predicate, negated in self._steps:
            if predicate is not None and predicate.test(transformed) == negated:
                continue
            transformed = handling.attempt("TRANSFORMATION", class_name, transform.apply, transformed)
            if transformed is None:
                return None
        return transformed


def _step(
    config: Config, alias: str, predicates: Mapping[str, Predicate]
) -> tuple[str, Transform, Predicate | None, bool]:
    settings = config.with_prefix(f"transforms.{alias}.")
    class_name = settings.get("type")
    if not class_name:
        raise ConfigError(
            f'Missing required configuration "transforms.{alias}.type" which has no default value.'
        )
    wanted = settings.get("predicate")
    if wanted and wanted not in predicates:
        raise ConfigError(
            f"Invalid value {wanted} for configuration transforms.{alias}.predicate: it is not among the predicates "
            f"{', '.join(predicates) or '(none)'}"
        )
    negated = str(settings.get("negate", "false")).lower() == "true"
    return class_name, transform(class_name, settings), predicates[wanted] if wanted else None, negated


def _predicates(config: Config) -> dict[str, Predicate]:
    from ottla.connect.transforms.predicates import PREDICATES

    predicates: dict[str, Predicate] = {}
    for alias in config.get("predicates") or []:
        settings = config.with_prefix(f"predicates.{alias}.")
        name = str(settings.get("type", "")).removeprefix(f"{PACKAGE}predicates.")
        if name not in PREDICATES:
            raise ConfigError(
                f"predicates.{alias}.type={settings.get('type')} is not known; there are {', '.join(PREDICATES)}"
            )
        predicates[alias] = PREDICATES[name](settings)
    return predicates


def transform(class_name: str, settings: Mapping[str, Any]) -> Transform:
    """By class name: Kafka's, with $Key or $Value, or `package.module:Class`."""
    short = class_name.removeprefix(PACKAGE)
    name, _, side = short.partition("$")
    entry = _table().get(name)
    if entry is None and ":" in class_name:
        return _by_place(class_name, settings)
    if entry is None:
        raise ConfigError(f"transform {class_name} is not known; there are {', '.join(sorted(_table()))}")
    transform_class, settings_of, sided = entry
    if sided and side not in ("Key", "Value"):
        raise ConfigError(f"transform {class_name}: say which part: {class_name}$Key or {class_name}$Value")
    parsed = Config(dict(settings), settings_of)
    return transform_class(parsed, side) if sided else transform_class(parsed)


def _by_place(where: str, settings: Mapping[str, Any]) -> Transform:
    from importlib import import_module

    module, _, name = where.partition(":")
    try:
        transform: Transform = getattr(import_module(module), name)(dict(settings))
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"transform {where} cannot be loaded: {error}") from error
    return transform


def _table() -> Mapping[str, tuple[Callable[..., Transform], tuple[Setting, ...], bool]]:
    from ottla.connect.transforms.table import TRANSFORMS

    return TRANSFORMS
