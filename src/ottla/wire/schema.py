"""What the generated messages are made of: classes with a table of fields over all versions."""

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from ottla.frozen import frozen
from ottla.ports import Buffer

__all__ = ["ZERO_UUID", "Api", "Buffer", "Field", "Message", "Request"]

ZERO_UUID = bytes(16)
NEVER = 32767


class Field:
    """A field: its wire type (a name, or a message class), in which versions it is there, null or tagged."""

    __slots__ = ("array", "kind", "name", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        name: str,
        kind: "str | type[Message]",
        versions: str,
        *,
        array: bool = False,
        nullable: str = "",
        tag: int | None = None,
        tagged: str = "",
    ) -> None:
        self.name, self.kind, self.array, self.tag = name, kind, array, tag
        self.versions, self.nullable, self.tagged = versions, nullable, tagged


class Message:
    """All versions of a message. What a version lacks is not written, and read as its default."""

    __slots__: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    FLEXIBLE_FROM: ClassVar[int] = NEVER
    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_short(getattr(self, name))}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


Response_co = TypeVar("Response_co", covariant=True)

if TYPE_CHECKING:

    class Request(Message, Generic[Response_co]):
        """A message and the type of its answer, so that who asks need not be told."""

else:

    class Request(Message):
        """A plain class at run time: Generic would cost every start some milliseconds."""

        __slots__ = ()

        def __class_getitem__(cls, response):
            return cls


def _short(value: object) -> str:
    """Payloads do not belong into log lines."""
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 32:
        return f"<{len(value)} bytes>"
    return repr(value)


@frozen
class Api:
    """A row of the protocol's API table, as Apache Kafka serves it."""

    key: int
    name: str
    module: str
    version_min: int
    version_max: int
    flexible_from: int

    def request(self) -> type[Message]:
        return self._load("Request")

    def response(self) -> type[Message]:
        return self._load("Response")

    def _load(self, suffix: str) -> type[Message]:
        """Modules are imported when first used: all of them together would double the start-up time."""
        module = import_module(f"ottla.wire.messages.{self.module}")
        loaded: type[Message] = getattr(module, self.name + suffix)
        return loaded


def covers(ranges: str, version: int) -> bool:
    """Whether "0-2,5" holds the version."""
    for part in ranges.split(",") if ranges else ():
        low, _, high = part.partition("-")
        if int(low) <= version <= int(high or low):
            return True
    return False
