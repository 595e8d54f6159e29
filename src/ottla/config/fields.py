"""A broker setting is one typed line of a class.

`num_partitions = integer(1, "Partitions of a topic created without a number.", at_least(1))` is the setting
num.partitions: an entry of DescribeConfigs, and an int where `config.num_partitions` is read. The kinds below claim
to return the value's type because an instance of the settings holds the value under the same name.
"""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, overload

from ottla.config.definitions import ConfigKey, Type, Update, Validator, Value

T = TypeVar("T", bool, int, str, tuple[str, ...])

READ_ONLY, PER_BROKER, CLUSTER_WIDE = Update.READ_ONLY, Update.PER_BROKER, Update.CLUSTER_WIDE


class _Field:
    """Becomes a ConfigKey when the class gives it its name."""

    def __init__(
        self, type: Type, default: Value, documentation: str, validator: Validator | None, update: Update
    ) -> None:
        self._parts = type, default, documentation, validator, update
        self.key: ConfigKey

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.key = ConfigKey(attribute.replace("_", "."), *self._parts)


def keys_of(*sections: type) -> Iterator[ConfigKey]:
    """The settings of these classes, in the order in which they are written."""
    for section in sections:
        for value in vars(section).values():
            if isinstance(value, _Field):
                yield value.key


class _Kind(Generic[T]):
    """Settings of one type; without a default they may be None."""

    def __init__(self, type: Type) -> None:
        self._type = type

    @overload
    def __call__(
        self,
        default: T,
        documentation: str,
        validator: Validator | None = None,
        *,
        update: Update = READ_ONLY,
    ) -> T: ...
    @overload
    def __call__(
        self,
        default: None,
        documentation: str,
        validator: Validator | None = None,
        *,
        update: Update = READ_ONLY,
    ) -> T | None: ...
    def __call__(
        self,
        default: Value,
        documentation: str,
        validator: Validator | None = None,
        *,
        update: Update = READ_ONLY,
    ) -> Any:
        return _Field(self._type, default, documentation, validator, update)


boolean = _Kind[bool](Type.BOOLEAN)
integer = _Kind[int](Type.INT)
short = _Kind[int](Type.SHORT)
long = _Kind[int](Type.LONG)
string = _Kind[str](Type.STRING)
names = _Kind[tuple[str, ...]](Type.LIST)  # separated by commas
password = _Kind[str](Type.PASSWORD)  # never shown
