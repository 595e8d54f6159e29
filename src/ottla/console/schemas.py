"""Values with schemas: decoded through a registry, Ottla's or Confluent's. Its answers are waited for in threads."""

import base64
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ottla.console import json_text
from ottla.errors import OttlaError
from ottla.serialization.decoding import AnyDeserializer
from ottla.serialization.framing import KEY_HEADER, VALUE_HEADER, guid_of, id_of
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient, RegistryRefused

TIMEOUT_S = 5.0
AWAY_S = 10.0  # a registry that does not answer is left alone for so long
UNKNOWN_S, UNKNOWN_MAX = 30.0, 10_000
DECODED_MAX = 1024 * 1024  # bytes of a value; larger ones are shown as they are
_NAMES = {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}
_HEADERS = {"key": KEY_HEADER, "value": VALUE_HEADER}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key or value as JSON, and the schema that it was written with. Without `data`, `trouble` says why."""

    schema: str  # like "Avro, schema 7"
    data: bytes | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """What deserializers look for GUIDs in."""

    headers: Sequence[tuple[str, bytes | None]]
    field: str


class Schemas:
    """What does not look like a value of a registry's serializer is None, and not asked about."""

    def __init__(
        self, client: RegistryClient, address: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.client, self.address = client, address
        self.trouble = ""  # why nothing is decoded at the moment
        self._decoder = AnyDeserializer(client)
        self._clock = clock
        self._away_until = 0.0
        self._unknown: OrderedDict[int | str, float] = OrderedDict()

    @classmethod
    def at(cls, url: str) -> "Schemas":
        """`http://NAME:PASSWORD@HOST:PORT` logs in."""
        address, user = split_login(url)
        return cls(RegistryClient(address, user=user, timeout_s=TIMEOUT_S), address)

    def decoded(
        self, data: bytes | None, headers: Sequence[tuple[str, bytes | None]], field: str
    ) -> Decoded | None:
        """May wait for the registry: call it in a thread."""
        if not data or len(data) > DECODED_MAX:
            return None
        identity = _identity(data, headers, field)
        if identity is None or self._is_hopeless(identity):
            return None
        try:
            registered = self._registered(identity)
        except OttlaError as error:
            self._note(identity, error)
            return None
        kind = _NAMES.get(registered.schema_type, registered.schema_type)
        name = f"{kind}, schema {identity}"
        try:
            value = self._decoder.plain(data, registered, _Place(headers, field))
            return Decoded(name, json_text.dumps(value, default=_text).encode())
        except ImportError as error:
            return Decoded(name, None, f"needs {error.name}: pip install 'ottla[registry]'")
        except (
            Exception
        ) as error:  # libraries have many ways to say that bytes are not what a schema promises
            return Decoded(name, None, " ".join(str(error).split()) or type(error).__name__)

    def _registered(self, identity: int | str) -> RegisteredSchema:
        if isinstance(identity, int):
            return self.client.schema(identity)
        return self.client.schema_by_guid(identity)

    def _is_hopeless(self, identity: int | str) -> bool:
        """Bytes that begin with a zero are often no schema's: each such number is asked about once in a while."""
        now = self._clock()
        return now < self._away_until or now < self._unknown.get(identity, 0.0)

    def _note(self, identity: int | str, error: OttlaError) -> None:
        if isinstance(error, RegistryRefused) and error.status == 404:
            self._unknown[identity] = self._clock() + UNKNOWN_S
            while len(self._unknown) > UNKNOWN_MAX:
                self._unknown.popitem(last=False)
            return
        self.trouble = str(error)
        self._away_until = self._clock() + AWAY_S

    @property
    def is_away(self) -> bool:
        return self._clock() < self._away_until


def _text(value: object) -> str:
    """What JSON has no form for: bytes, dates, decimals."""
    return value.hex() if isinstance(value, bytes) else str(value)


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """An address without its login, and the login."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not an address: write http://HOST:PORT")
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    return address, (unquote(parts.username), unquote(parts.password or "")) if parts.username else None


def basic(login: tuple[str, str]) -> str:
    """The header of a login."""
    return f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"


def _identity(data: bytes, headers: Sequence[tuple[str, bytes | None]], field: str) -> int | str | None:
    """The schema's id, or its GUID."""
    wanted = _HEADERS[field]
    try:
        for name, value in headers:
            if name == wanted and value:
                return guid_of(value)
        return id_of(data) if data[0] == 0 and len(data) >= 5 else None
    except OttlaError:
        return None
