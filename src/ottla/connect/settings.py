"""Settings of connectors: typed definitions, as Kafka's ConfigDef has them, and the values parsed by them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.connect.errors import ConfigError

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE = "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE"
LIST, CLASS, PASSWORD = "LIST", "CLASS", "PASSWORD"
HIGH, MEDIUM, LOW = "HIGH", "MEDIUM", "LOW"
HIDDEN = "[hidden]"
NO_DEFAULT: Any = object()

_BITS = {SHORT: 16, INT: 32, LONG: 64}


class Password(str):
    """Shows itself to nobody; `str.__str__(password)` is what programs use: `password.value`."""

    @property
    def value(self) -> str:
        return str.__str__(self)

    def __str__(self) -> str:
        return HIDDEN

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return HIDDEN


@dataclass(frozen=True, slots=True)
class Setting:
    """One definition. `check` returns what is wrong with a parsed value, or None."""

    name: str
    type: str = STRING
    default: Any = NO_DEFAULT
    doc: str = ""
    importance: str = MEDIUM
    choices: tuple[str, ...] = ()
    least: int | float | None = None
    most: int | float | None = None
    check: Callable[[Any], str | None] | None = field(default=None, compare=False)
    display: str | None = None
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    dependents: tuple[str, ...] = ()
    empty_allowed: bool = True

    @property
    def is_required(self) -> bool:
        return self.default is NO_DEFAULT

    def parse(self, text: Any) -> Any:
        """The value; raises ConfigError with Kafka's sentence."""
        value = self._typed(text)
        problem = self._problem(value)
        if problem:
            raise ConfigError(problem)
        return value

    def _typed(self, text: Any) -> Any:
        if text is None or not isinstance(text, str):
            return text
        stripped = text.strip()
        match self.type:
            case "BOOLEAN":
                if stripped.lower() not in ("true", "false"):
                    raise self._refusal(text, "Expected value to be either true or false")
                return stripped.lower() == "true"
            case "INT" | "SHORT" | "LONG":
                return self._integer(stripped, text)
            case "DOUBLE":
                try:
                    return float(stripped)
                except ValueError:
                    raise self._refusal(text, f"Not a number of type {self.type}") from None
            case "LIST":
                return [part.strip() for part in stripped.split(",")] if stripped else []
            case "PASSWORD":
                return Password(stripped)
            case _:
                return stripped

    def _integer(self, stripped: str, text: str) -> int:
        half = 1 << _BITS[self.type] - 1
        try:
            value = int(stripped)
        except ValueError:
            raise self._refusal(text, f"Not a number of type {self.type}") from None
        if not -half <= value < half:
            raise self._refusal(text, f"Not a number of type {self.type}")
        return value

    def _problem(self, value: Any) -> str | None:
        if value is None:
            return None
        if self.least is not None and value < self.least:
            return str(self._refusal(value, f"Value must be at least {self.least}"))
        if self.most is not None and value > self.most:
            return str(self._refusal(value, f"Value must be no more than {self.most}"))
        if self.choices and value not in self.choices:
            return str(self._refusal(value, f"String must be one of: {', '.join(self.choices)}"))
        if not self.empty_allowed and value == "":
            return str(self._refusal(value, "String must be non-empty"))
        return self.check(value) if self.check else None

    def _refusal(self, value: Any, why: str) -> ConfigError:
        shown = HIDDEN if self.type == PASSWORD else value
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {why}")


class Config(Mapping[str, Any]):
    """A connector's settings: `config["name"]` is the parsed value (or the default), `config.originals` the texts.

    Travels to other processes. Names without a definition are texts.
    """

    def __init__(self, originals: Mapping[str, str | None], settings: Iterable[Setting] = ()) -> None:
        self.originals = dict(originals)
        self._settings = {setting.name: setting for setting in settings}
        self._values: dict[str, Any] = {}
        for name, setting in self._settings.items():
            self._values[name] = self._parse(setting)
        for name, text in self.originals.items():
            self._values.setdefault(name, text)

    def _parse(self, setting: Setting) -> Any:
        if setting.name in self.originals and self.originals[setting.name] is not None:
            return setting.parse(self.originals[setting.name])
        if setting.is_required:
            raise ConfigError(f'Missing required configuration "{setting.name}" which has no default value.')
        return setting.parse(setting.default)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def with_prefix(self, prefix: str) -> dict[str, Any]:
        return {name[len(prefix) :]: value for name, value in self._values.items() if name.startswith(prefix)}

    def password(self, name: str) -> str | None:
        value = self._values.get(name)
        return value.value if isinstance(value, Password) else value

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (self.originals, tuple(self._settings.values()))

    def __repr__(self) -> str:
        return f"Config({', '.join(sorted(self._values))})"  # names alone: values may be secret


def problems(setting: Setting, originals: Mapping[str, str | None]) -> tuple[Any, list[str]]:
    """The value of one setting and all that is wrong with it: for `validate`, which reports instead of raising."""
    try:
        if originals.get(setting.name) is not None:
            return setting.parse(originals[setting.name]), []
        if setting.is_required:
            return None, [f'Missing required configuration "{setting.name}" which has no default value.']
        return setting.parse(setting.default), []
    except ConfigError as error:
        return None, [str(error)]


def merged(*groups: Sequence[Setting]) -> list[Setting]:
    """Later definitions of a name replace earlier ones."""
    return list({setting.name: setting for group in groups for setting in group}.values())
