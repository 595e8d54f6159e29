"""Settings as DescribeConfigs answers them: value, where it comes from, and what else could have set it."""

from collections.abc import Mapping

from ottla.config.broker import BROKER_KEYS
from ottla.config.client_metrics import CLIENT_METRICS_KEYS
from ottla.config.definitions import ConfigKey, Source, Type, Update
from ottla.config.group import GROUP_KEYS, group_key
from ottla.config.security import LISTENER_LIMITS, is_of_listeners
from ottla.config.settings import Config
from ottla.config.topic import TOPIC_KEYS, topic_key
from ottla.frozen import frozen


@frozen
class SynonymEntry:
    name: str
    value: str | None
    source: Source


@frozen
class Entry:
    """One line of the answer; `synonyms` begins with the one in force."""

    name: str
    value: str | None
    read_only: bool
    source: Source
    is_sensitive: bool
    type: Type
    documentation: str
    synonyms: tuple[SynonymEntry, ...]


# Settings that speak of the same thing in other units; the first that has a value counts.
_FAMILIES = {
    name: family
    for family in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    for name in family
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}


def describe_topic(overrides: Mapping[str, str], config: Config) -> list[Entry]:
    entries = [
        _override_entry(key, overrides, config, Source.TOPIC, key.format(config.topic_default(key.name)))
        for key in TOPIC_KEYS.values()
    ]
    return entries + [
        _override_entry(topic_key(name), overrides, config, Source.TOPIC, None)
        for name in overrides
        if name not in TOPIC_KEYS
    ]


def describe_group(overrides: Mapping[str, str], config: Config) -> list[Entry]:
    """Settings of groups that are not served appear where somebody set them."""
    entries = [
        _override_entry(key, overrides, config, Source.GROUP, _group_default(key, config))
        for key in GROUP_KEYS.values()
    ]
    return entries + [
        _override_entry(group_key(name), overrides, config, Source.GROUP, None)
        for name in overrides
        if name not in GROUP_KEYS
    ]


def describe_client_metrics(overrides: Mapping[str, str], config: Config) -> list[Entry]:
    return [
        _override_entry(key, overrides, config, Source.CLIENT_METRICS, key.format(key.default))
        for key in CLIENT_METRICS_KEYS.values()
    ]


def _group_default(key: ConfigKey, config: Config) -> str | None:
    """The broker's setting behind it, if there is one."""
    return key.format(config[f"group.{key.name}"] if key.synonyms else key.default)


def describe_broker(config: Config) -> list[Entry]:
    entries = [
        _broker_entry(key, config, _broker_synonyms(name, config)) for name, key in BROKER_KEYS.items()
    ]
    limits = {name for layer in (config.dynamic_broker, config.dynamic_default) for name in layer}
    return entries + [_listener_limit(name, config) for name in sorted(limits) if _is_listener_limit(name)]


def describe_broker_default(config: Config) -> list[Entry]:
    """Only what was set for all brokers while running."""
    entries = []
    for name, text in config.dynamic_default.items():
        if name not in BROKER_KEYS:
            continue  # one of Apache Kafka's that we have no use for
        key = BROKER_KEYS[name]
        value = key.format(key.parse(text))
        synonym = SynonymEntry(name, None if key.is_sensitive else value, Source.DYNAMIC_DEFAULT_BROKER)
        entries.append(_entry(key, value, (synonym,), read_only=False))
    return entries


def _is_listener_limit(name: str) -> bool:
    return is_of_listeners(name) and name.endswith(LISTENER_LIMITS)


def _listener_limit(name: str, config: Config) -> Entry:
    """Of one listener, changed while running: the only settings of listeners that can be."""
    layers = (
        (Source.DYNAMIC_BROKER, config.dynamic_broker),
        (Source.DYNAMIC_DEFAULT_BROKER, config.dynamic_default),
        (Source.STATIC_BROKER, config.static),
    )
    synonyms = tuple(SynonymEntry(name, layer[name], source) for source, layer in layers if name in layer)
    first = synonyms[0]
    return Entry(name, first.value, False, first.source, False, Type.INT, "", synonyms)


def _override_entry(
    key: ConfigKey, overrides: Mapping[str, str], config: Config, source: Source, otherwise: str | None
) -> Entry:
    synonyms = _broker_synonyms(key.synonyms[0].name, config) if key.synonyms else ()
    if key.name not in overrides:
        return _entry(key, otherwise, synonyms, read_only=False)
    value = key.format(key.parse(overrides[key.name]))
    return _entry(key, value, (SynonymEntry(key.name, value, source), *synonyms), read_only=False)


def _broker_entry(key: ConfigKey, config: Config, synonyms: tuple[SynonymEntry, ...]) -> Entry:
    value = key.format(config[key.name])
    return _entry(key, value, synonyms, read_only=key.update is Update.READ_ONLY)


def _entry(
    key: ConfigKey, value: str | None, synonyms: tuple[SynonymEntry, ...], *, read_only: bool
) -> Entry:
    return Entry(
        name=key.name,
        value=None if key.is_sensitive else value,
        read_only=read_only,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        is_sensitive=key.is_sensitive,
        type=key.type,
        documentation=key.documentation,
        synonyms=synonyms,
    )


def _broker_synonyms(name: str, config: Config) -> tuple[SynonymEntry, ...]:
    family = _FAMILIES.get(name, (name,))
    layers: tuple[tuple[Source, Mapping[str, str]], ...] = (
        (Source.DYNAMIC_BROKER, config.dynamic_broker),
        (Source.DYNAMIC_DEFAULT_BROKER, config.dynamic_default),
        (Source.STATIC_BROKER, config.static),
        (Source.DEFAULT, _DEFAULTS),
    )
    entries = [
        SynonymEntry(member, _shown(member, layer[member]), source)
        for source, layer in layers
        for member in family
        if member in layer
    ]
    # Kafka drops what stands before the first entry of the very name that was asked for.
    first = next((index for index, entry in enumerate(entries) if entry.name == name), len(entries))
    return tuple(entries[first:])


def _shown(name: str, text: str) -> str | None:
    key = BROKER_KEYS[name]
    return None if key.is_sensitive else key.format(key.parse(text))


_DEFAULTS = {name: text for name, key in BROKER_KEYS.items() if (text := key.format(key.default)) is not None}
