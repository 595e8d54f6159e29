"""What a setting is: its type, default, bounds and who may change it; text to value and back."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

from ottla import errors
from ottla.frozen import frozen

Value = bool | int | float | str | tuple[str, ...] | None

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
VALUE_BYTES_MAX = 2**15 - 1  # what DescribeConfigs before version 4 has room for


class Type(IntEnum):
    """The numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Source(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Update(Enum):
    """Who may change a broker setting while it runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@frozen
class Synonym:
    """A broker setting that a topic setting falls back to; `factor` turns its unit into the topic's."""

    name: str
    factor: int = 1


class Wrong(NamedTuple):
    """What is wrong: the part of the value that is, and what is allowed."""

    value: Value
    reason: str


Validator = Callable[[Value], Wrong | None]


@frozen
class ConfigKey:
    """One setting."""

    name: str
    type: Type
    default: Value
    documentation: str
    validator: Validator | None = None
    update: Update = Update.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def is_sensitive(self) -> bool:
        return self.type is Type.PASSWORD

    def parse(self, text: str | None) -> Value:
        """The value behind a text; InvalidConfig says which setting and what is allowed."""
        if text is None:
            return None
        value = self._typed(text.strip())
        wrong = self.validator(value) if self.validator is not None else None
        if wrong is not None:
            raise self._invalid(_as_java(wrong.value), wrong.reason)
        return value

    def format(self, value: Value) -> str | None:
        """As DescribeConfigs shows it."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case float():
                return repr(value).replace("e+", "E").replace("e", "E")
            case tuple():
                return ",".join(value)
            case _:
                return str(value)

    def _typed(self, text: str) -> Value:
        match self.type:
            case Type.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise self._invalid(text, "Expected value to be either true or false")
                return text.lower() == "true"
            case Type.INT | Type.SHORT | Type.LONG:
                return self._integer(text)
            case Type.DOUBLE:
                return self._double(text)
            case Type.LIST:
                return self._list(text)
            case _:
                return text

    def _list(self, text: str) -> tuple[str, ...]:
        parts = dict.fromkeys(part.strip() for part in text.split(",")) if text else {}
        if "" in parts:
            raise errors.InvalidConfig(f"Configuration '{self.name}' values must not be empty.")
        return tuple(parts)

    def _integer(self, text: str) -> int:
        bits = {Type.INT: 31, Type.SHORT: 15, Type.LONG: 63}[self.type]
        # int() alone would also take "1_000" and digits of other scripts.
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        value = int(text)
        if not -(2**bits) <= value < 2**bits:
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        return value

    def _double(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value != value or "_" in text:
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        return value

    def _invalid(self, value: object, wrong: str) -> errors.InvalidConfig:
        return errors.InvalidConfig(f"Invalid value {value} for configuration {self.name}: {wrong}")


def by_name(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    table: dict[str, ConfigKey] = {}
    for key in keys:
        if key.name in table:
            raise ValueError(f"two settings are called {key.name}")
        table[key.name] = key
    return table


def check_sizes(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse what is new and longer than every client can be told of."""
    for name, value in after.items():
        is_long = max(len(name.encode()), len(value.encode())) > VALUE_BYTES_MAX
        if is_long and before.get(name) != value:
            raise errors.InvalidConfig(
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_BYTES_MAX} bytes."
            )


def at_least(low: float) -> Validator:
    return between(low, None)


def between(low: float, high: float | None) -> Validator:
    def check(value: Value) -> Wrong | None:
        assert isinstance(value, int | float)
        if value < low:
            return Wrong(value, f"Value must be at least {low}")
        if high is not None and value > high:
            return Wrong(value, f"Value must be no more than {high}")
        return None

    return check


def one_of(*allowed: str, any_case: bool = False) -> Validator:
    def check(value: Value) -> Wrong | None:
        known = str(value).lower() in allowed if any_case else value in allowed
        return None if known else Wrong(value, f"String must be one of: {', '.join(allowed)}")

    return check


def each_of(*allowed: str) -> Validator:
    """A list of which every element is one of these."""

    def check(value: Value) -> Wrong | None:
        assert isinstance(value, tuple)
        for part in value:
            if part not in allowed:
                return Wrong(part, f"String must be one of: {', '.join(allowed)}")
        return None

    return check


def gzip_level(value: Value) -> Wrong | None:
    assert isinstance(value, int)
    if value == -1 or 1 <= value <= 9:
        return None
    return Wrong(value, "Value must be between 1 and 9 or equal to -1")


def _as_java(value: Value) -> object:
    """Lists appear in messages as Kafka prints them."""
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else value
