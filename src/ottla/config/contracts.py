"""Settings of a topic that say what its records must be: which schemas they name, and who may write them."""

from collections.abc import Mapping
from typing import Any

from ottla.config.definitions import ConfigKey, Type, one_of
from ottla.frozen import frozen

KEY, VALUE = "key", "value"
NOT, BY_ID, IN_FULL = "none", "id", "full"
_PACKAGE = "io.confluent.kafka.serializers.subject."
# Confluent's class names and our short ones.
STRATEGIES = {
    "topic": "topic",
    "record": "record",
    "topic-record": "topic-record",
    _PACKAGE + "TopicNameStrategy": "topic",
    _PACKAGE + "RecordNameStrategy": "record",
    _PACKAGE + "TopicRecordNameStrategy": "topic-record",
}


def _validation(field: str) -> ConfigKey:
    return ConfigKey(
        f"confluent.{field}.schema.validation",
        Type.BOOLEAN,
        False,
        f"Whether the {field} of a record must name a schema that is registered for it. Null needs none.",
    )


def _strategy(field: str) -> ConfigKey:
    return ConfigKey(
        f"confluent.{field}.subject.name.strategy",
        Type.STRING,
        _PACKAGE + "TopicNameStrategy",
        f"Under which subject the schema of the {field} is registered: by the name of the topic, the record, or both.",
        one_of(*STRATEGIES),
    )


def _extent(field: str) -> ConfigKey:
    return ConfigKey(
        f"ottla.{field}.schema.validate",
        Type.STRING,
        NOT,
        f"`id` is confluent.{field}.schema.validation=true; `full` also reads the {field} as its schema says.",
        one_of(NOT, BY_ID, IN_FULL),
    )


WRITER = ConfigKey(
    "ottla.writer.transactional.id",
    Type.STRING,
    "",
    "While it is set, only the producer that holds this transactional id may write to the topic, in transactions.",
)
CONTRACT_KEYS = {
    key.name: key for make in (_validation, _strategy, _extent) for key in (make(KEY), make(VALUE))
} | {WRITER.name: WRITER}


@frozen
class Terms:
    """What is asked of the keys, or of the values."""

    field: str
    extent: str = NOT
    strategy: str = "topic"


@frozen
class Contract:
    """Of a topic whose keys or values are checked."""

    terms: tuple[Terms, ...]

    @property
    def is_full(self) -> bool:
        return any(terms.extent == IN_FULL for terms in self.terms)


def contract_of(values: Mapping[str, Any]) -> Contract | None:
    """None when nothing is checked: most topics."""
    asked = tuple(terms for field in (KEY, VALUE) if (terms := _terms(field, values)).extent != NOT)
    return Contract(asked) if asked else None


def _terms(field: str, values: Mapping[str, Any]) -> Terms:
    extent = values.get(f"ottla.{field}.schema.validate", NOT)
    if extent == NOT and values.get(f"confluent.{field}.schema.validation", False):
        extent = BY_ID
    strategy = values.get(f"confluent.{field}.subject.name.strategy", "topic")
    return Terms(field, extent, STRATEGIES[strategy])
