"""What all serializers share: when to register, under which subject, and what stands before the payload."""

from collections.abc import Callable
from typing import Any

from ottla.serialization.framing import (
    KEY_HEADER,
    PREFIX_BYTES,
    VALUE_HEADER,
    guid_header,
    guid_of,
    id_of,
    with_id,
)
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient
from ottla.serialization.subjects import Strategy, strategy


class SchemaSerializer:
    """Called with a value, gives bytes. Called by confluent-kafka, with a context too: it names topic and field.

    `register=False` asks for a schema that is registered already; `use_latest=True` writes with the subject's latest.
    `ids="header"` puts the schema's GUID into a header instead of its id before the value: pass `headers_of(value)` on.
    """

    schema_type = ""

    def __init__(
        self,
        registry: RegistryClient,
        *,
        topic: str | None = None,
        is_key: bool = False,
        subjects: str | Strategy = "topic",
        register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        ids: str = "prefix",
    ) -> None:
        self._registry = registry
        self._topic, self._field = topic, "key" if is_key else "value"
        self._strategy = strategy(subjects)
        self._register, self._use_latest, self._normalize = register, use_latest, normalize
        self._in_header = ids == "header"

    def __call__(self, value: Any, context: Any = None) -> bytes | None:
        if value is None:
            return None
        topic, field = self._topic, self._field
        if context is not None:
            topic, field = context.topic or topic, str(context.field)
        registered = self._registered(value, topic, field)
        payload = self._payload(value, registered)
        if not self._in_header:
            return with_id(registered.schema_id, payload)
        if context is not None and isinstance(context.headers, list):
            context.headers.extend(self._headers(registered))
        return payload

    def headers_of(self, value: Any) -> list[tuple[str, bytes]]:
        """The headers that go with the value, where ids stand in headers."""
        return self._headers(self._registered(value, self._topic, self._field)) if self._in_header else []

    def _headers(self, registered: RegisteredSchema) -> list[tuple[str, bytes]]:
        name = KEY_HEADER if self._field == "key" else VALUE_HEADER
        return [(name, guid_header(registered.guid))]

    def _registered(self, value: Any, topic: str | None, field: str) -> RegisteredSchema:
        subject = self._strategy(topic, field, self._record_name(value))
        if self._use_latest:
            return self._registry.version(subject)
        act = self._registry.register if self._register else self._registry.lookup
        return act(
            subject, self._schema_of(value), self.schema_type, self._references(), normalize=self._normalize
        )

    def _references(self) -> tuple[Any, ...]:
        return ()

    def _schema_of(self, value: Any) -> str:
        raise NotImplementedError

    def _record_name(self, value: Any) -> str | None:
        raise NotImplementedError

    def _payload(self, value: Any, registered: RegisteredSchema) -> bytes:
        raise NotImplementedError


class SchemaDeserializer:
    """Called with bytes, gives the value; headers, where they hold the schema's GUID, come with confluent-kafka's
    context or as a second argument."""

    form = ""

    def __init__(self, registry: RegistryClient, *, build: Callable[[Any], Any] | None = None) -> None:
        self._registry, self._build = registry, build

    def __call__(self, data: bytes | None, context: Any = None) -> Any:
        if data is None:
            return None
        guid = _guid_in(context)
        if guid is not None:
            registered, at = self._registry.schema_by_guid(guid, form=self.form), 0
        else:
            registered, at = self._registry.schema(id_of(data), form=self.form), PREFIX_BYTES
        value = self._value(data, at, registered)
        return value if self._build is None else self._build(value)

    def _value(self, data: bytes, at: int, registered: RegisteredSchema) -> Any:
        raise NotImplementedError


def _guid_in(context: Any) -> str | None:
    headers = getattr(context, "headers", context)
    if not headers:
        return None
    wanted = KEY_HEADER if getattr(context, "field", "value") == "key" else VALUE_HEADER
    pairs = headers.items() if isinstance(headers, dict) else headers
    return next((guid_of(value) for name, value in pairs if name == wanted and value), None)
