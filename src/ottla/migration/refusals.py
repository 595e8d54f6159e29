"""What a cluster of Apache Kafka has and ours would not honour: an import refuses it by name, all at once."""

from collections.abc import Iterator

from ottla.broker.routes import FEATURES
from ottla.config.client_metrics import check_client_metrics
from ottla.config.group import GROUP_KEYS, UNUSED_GROUP_KEYS
from ottla.config.protection import broken_promise
from ottla.config.settings import broker_key
from ottla.config.topic import TOPIC_KEYS
from ottla.errors import OttlaError, ProtocolError
from ottla.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Image,
)
from ottla.migration.kraft_image import KraftImage

METADATA_VERSION_MAX = 30  # Apache Kafka 4.3
# What the newest release finalizes by itself.
_KNOWN_FEATURES = {
    "metadata.version": METADATA_VERSION_MAX,
    "kraft.version": 1,
    "eligible.leader.replicas.version": 1,
    **{name: newest for name, (_, newest) in FEATURES.items()},
}
_TIERED = "remote.storage.enable"
_SHOWN_MAX = 20


class CannotImport(OttlaError):
    """The source is not what an import can carry over as a whole."""


def check(kraft: KraftImage) -> None:
    problems = [*kraft.homeless.values(), *_features(kraft), *_topics(kraft.image), *_settings(kraft.image)]
    problems += [
        f"cordoned log folders of broker {broker_id}"
        for broker_id, broker in kraft.brokers.items()
        if broker.cordoned
    ]
    if problems:
        more = f", and {len(problems) - _SHOWN_MAX} more" if len(problems) > _SHOWN_MAX else ""
        raise CannotImport(
            f"Ottla would not honour these, so nothing was imported: {'; '.join(problems[:_SHOWN_MAX])}{more}. "
            "Remove them in Apache Kafka first"
        )


def _features(kraft: KraftImage) -> Iterator[str]:
    for name, level in kraft.features.items():
        newest = _KNOWN_FEATURES.get(name, 0)
        if level > newest:
            yield f"the feature {name} at level {level} (known up to {newest})"


def _topics(image: Image) -> Iterator[str]:
    for topic in image.topics.values():
        if image.settings(TOPIC_RESOURCE, topic.name).get(_TIERED, "").lower() == "true":
            yield f"tiered storage of the topic {topic.name}"


def _settings(image: Image) -> Iterator[str]:
    for kind, name in sorted(image.configured()):
        for setting, value in image.settings(kind, name).items():
            why = _why_not(kind, setting, value)
            if why is not None:
                yield f"{setting}={value} of {_resource(kind, name)} ({why})"


def _why_not(kind: int, setting: str, value: str) -> str | None:
    try:
        return _refused(kind, setting, value)
    except ProtocolError as error:
        return str(error)


def _refused(kind: int, setting: str, value: str) -> str | None:
    if kind == CLIENT_METRICS_RESOURCE:
        check_client_metrics({setting: value})
        return None
    if kind == TOPIC_RESOURCE:
        if setting == _TIERED:
            return None  # reported with its topic, and harmless when it is off
        key = TOPIC_KEYS.get(setting)
    elif kind == GROUP_RESOURCE:
        key = GROUP_KEYS.get(setting) or UNUSED_GROUP_KEYS.get(setting)
    elif kind == BROKER_RESOURCE:
        key = broker_key(setting)
        if key is None:
            return broken_promise(setting, value)  # others have no effect here, and are kept
    else:
        return "settings of this kind are unknown"
    if key is None:
        return "the setting is unknown"
    key.parse(value)
    return None


def _resource(kind: int, name: str) -> str:
    what = {
        TOPIC_RESOURCE: "topic",
        GROUP_RESOURCE: "group",
        BROKER_RESOURCE: "broker",
        CLIENT_METRICS_RESOURCE: "client metrics",
    }
    return f"{what.get(kind, f'resource type {kind}')} {name or '(all)'}"
