"""What the converters with a schema registry share: its address, subjects, and what stands before the payload."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from ottla.connect.errors import ConfigError, DataError, RetriableError
from ottla.connect.schema import Schema
from ottla.connect.settings import Password
from ottla.errors import OttlaError
from ottla.serialization.framing import PREFIX_BYTES, BadValue, id_of, with_id
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient, RegistryRefused
from ottla.serialization.subjects import STRATEGIES, Strategy

_STRATEGIES = {
    "TopicNameStrategy": "topic",
    "RecordNameStrategy": "record",
    "TopicRecordNameStrategy": "topic-record",
}
_KNOWN_MAX = 1000


class RegisteredConverter(ABC):
    """A subclass has `schema_type`, and turns schemas and values into those of its format and back."""

    schema_type = ""
    form = ""  # in which the registry gives schemas

    def __init__(self, settings: Mapping[str, Any], *, is_key: bool) -> None:
        url = settings.get("schema.registry.url")
        if not url:
            side = "key" if is_key else "value"
            raise ConfigError(
                f'Missing required configuration "schema.registry.url" which has no default value; set'
                f" {side}.converter.schema.registry.url"
            )
        self._registry = RegistryClient(
            str(url), user=_user(settings), ca=settings.get("schema.registry.ssl.truststore.location")
        )
        self._field = "key" if is_key else "value"
        self._subject = _strategy(settings.get(f"{self._field}.subject.name.strategy"))
        self._registers = _is_true(settings, "auto.register.schemas", True)
        self._uses_latest = _is_true(settings, "use.latest.version", False)
        # By identity first: comparing schemas of a hundred fields costs more than writing a value.
        self._written: dict[int, tuple[Schema, Any]] = {}
        self._known: dict[tuple[str, int], RegisteredSchema] = {}
        self._read: dict[int, Any] = {}

    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        used = schema or self._guessed(value)
        known = self._written.get(id(used)) if schema is not None else None
        if known is None or known[0] is not used:
            known = used, self._prepared(used)
            if schema is not None:
                if len(self._written) >= _KNOWN_MAX:
                    self._written.clear()
                    self._known.clear()
                self._written[id(used)] = known
        registered = self._register(topic, used, known[1])
        try:
            return with_id(registered.schema_id, self._payload(known[1], used, value))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, BadValue) as error:
            raise DataError(f"the value does not fit its schema in topic {topic}: {error}") from error

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            schema_id = id_of(data)
            if schema_id not in self._read:
                if len(self._read) >= _KNOWN_MAX:
                    self._read.clear()
                self._read[schema_id] = self._reader(
                    self._ask(self._registry.schema, schema_id, form=self.form)
                )
            return self._value(self._read[schema_id], data, PREFIX_BYTES)
        except (BadValue, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError) as error:
            raise DataError(f"a value of topic {topic} cannot be read: {error}") from error

    def from_column(self, topic: str, values: Any) -> Any:
        return None

    def to_column(self, topic: str, data: Any) -> Any:
        return None

    def _register(self, topic: str, schema: Schema, prepared: Any) -> RegisteredSchema:
        known = self._known.get((topic, id(schema)))
        if known is None:
            subject = self._subject(topic, self._field, schema.name)
            if self._uses_latest:
                known = self._ask(self._registry.version, subject)
            else:
                act = self._registry.register if self._registers else self._registry.lookup
                known = self._ask(act, subject, self._text(prepared), self.schema_type)
            if self._written.get(id(schema), (None,))[0] is schema:
                self._known[topic, id(schema)] = known
        return known

    def _ask(self, question: Any, *arguments: Any, **more: Any) -> RegisteredSchema:
        try:
            answer: RegisteredSchema = question(*arguments, **more)
        except RegistryRefused as error:
            raise DataError(f"the schema registry refuses: {error}") from error
        except OttlaError as error:
            raise RetriableError(str(error)) from error
        if answer.schema_type != self.schema_type:
            raise DataError(f"schema {answer.schema_id} is of {answer.schema_type}, not {self.schema_type}")
        return answer

    def _guessed(self, value: Any) -> Schema:
        from ottla.connect.schema import guess

        schema = guess(value)
        if schema is None:
            raise DataError(
                f"a {type(value).__name__} without a schema cannot be written as {self.schema_type}; give it a schema"
            )
        return schema

    # -- of each format ----------------------------------------------------------------------------

    @abstractmethod
    def _prepared(self, schema: Schema) -> Any: ...

    @abstractmethod
    def _text(self, prepared: Any) -> str: ...

    @abstractmethod
    def _payload(self, prepared: Any, schema: Schema, value: Any) -> bytes: ...

    @abstractmethod
    def _reader(self, registered: RegisteredSchema) -> Any: ...

    @abstractmethod
    def _value(self, reader: Any, data: bytes, at: int) -> tuple[Schema | None, Any]: ...


def _is_true(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    return str(settings.get(name, default)).lower() == "true"


def _user(settings: Mapping[str, Any]) -> tuple[str, str] | None:
    user_info = settings.get("basic.auth.user.info") or settings.get("schema.registry.basic.auth.user.info")
    if not user_info:
        return None
    text = user_info.value if isinstance(user_info, Password) else str(user_info)
    name, _, password = text.partition(":")
    return name, password


def _strategy(class_name: Any) -> Strategy:
    short = str(class_name or "TopicNameStrategy").rpartition(".")[2]
    if short not in _STRATEGIES:
        raise ConfigError(f"subject.name.strategy={class_name} is not known; use {', '.join(_STRATEGIES)}")
    return STRATEGIES[_STRATEGIES[short]]
