"""A broker's settings: read from a property file and `--set`, layered, checked, never changed in place."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from ottla import errors
from ottla.config.broker import BROKER_KEYS, BrokerSettings
from ottla.config.definitions import ConfigKey, Value
from ottla.config.kafka_names import UNUSED_PREFIXES, UNUSED_SETTINGS
from ottla.config.log import LogConfig
from ottla.config.protection import check_protection, protocols_of
from ottla.config.security import is_of_listeners
from ottla.config.topic import TOPIC_KEYS


class Config(BrokerSettings):
    """The settings in force: static, under the cluster's dynamic defaults, under this broker's dynamic own.

    `config.num_partitions` and `config["num.partitions"]` are the value of num.partitions. The defaults of topic
    settings (`log.segment.bytes`) are read as the fields of `log_defaults`.
    """

    static: dict[str, str]
    dynamic_default: dict[str, str]
    dynamic_broker: dict[str, str]
    ignored: tuple[str, ...]
    """Settings of Apache Kafka in the file that have no effect here."""
    values: dict[str, Value]

    def __init__(
        self,
        static: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        own = self.__dict__  # past __setattr__
        own["static"] = dict(static or {})
        own["dynamic_default"] = dict(dynamic_default or {})
        own["dynamic_broker"] = dict(dynamic_broker or {})
        values = {name: key.default for name, key in BROKER_KEYS.items()}
        for layer in (self.static, self.dynamic_default, self.dynamic_broker):
            values |= parse_all(layer)
        if "broker.id" in self.static and "node.id" not in self.static:
            values["node.id"] = values["broker.id"]
        values["broker.id"] = values["node.id"]
        own["values"] = values
        own |= {BROKER_KEYS[name].attribute: value for name, value in values.items()}
        secured = any(protocol != "PLAINTEXT" for protocol in self._protocols())
        own["ignored"] = tuple(
            name
            for name in self.static
            if name not in BROKER_KEYS and not (secured and is_of_listeners(name))
        )
        if not self.dynamic_default and not self.dynamic_broker:
            self.check_order()
            check_protection(
                self.static,
                self.listeners,
                self.listener_security_protocol_map,
                self.inter_broker_listener_name,
            )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("settings do not change; make new ones with with_overrides or with_dynamic")

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def __repr__(self) -> str:
        static, default, own = map(_without_secrets, (self.static, self.dynamic_default, self.dynamic_broker))
        return f"Config(static={static}, default={default}, broker={own})"

    def _protocols(self) -> set[str]:
        """Of the listeners."""
        protocols = protocols_of(self.listener_security_protocol_map)
        return {
            protocols.get(listener.partition("://")[0].upper(), "PLAINTEXT") for listener in self.listeners
        }

    def check_order(self) -> None:
        """Refuse bounds that contradict each other. Dynamic values are checked before they are taken: once
        in force they must not stop a broker that has other static ones."""
        for low, high in _ORDERED:
            if self.integer(low) > self.integer(high):
                raise errors.InvalidConfig(
                    f"{high} ({self[high]}) must be greater than or equal to {low} ({self[low]})"
                )

    def integer(self, name: str) -> int:
        """A number whose name is put together at run time."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def with_overrides(self, static: Mapping[str, str]) -> "Config":
        """The same with these static values on top."""
        return Config({**self.static, **static}, self.dynamic_default, self.dynamic_broker)

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> "Config":
        """The same under these dynamic values, which replace those before."""
        return Config(self.static, default, broker)

    def topic_default(self, name: str) -> Value:
        """What a topic without this setting of its own gets."""
        return self.topic_defaults[name]

    @cached_property
    def topic_defaults(self) -> dict[str, Value]:
        return {name: self._topic_default(key) for name, key in TOPIC_KEYS.items()}

    @cached_property
    def log_defaults(self) -> LogConfig:
        """The log of a topic without settings of its own."""
        return LogConfig.from_values(self.topic_defaults, self)

    def _topic_default(self, key: ConfigKey) -> Value:
        for synonym in key.synonyms:
            value = self.values[synonym.name]
            if value is not None:
                return value if synonym.factor == 1 else _scaled(value, synonym.factor)
        return key.default

    def log_dirs_in_use(self) -> tuple[str, ...]:
        return self.log_dirs or self.log_dir


# Each pair is in this order, or the configuration makes no sense.
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    *(
        pair
        for setting in ("session.timeout.ms", "heartbeat.interval.ms")
        for pair in (
            (f"group.consumer.min.{setting}", f"group.consumer.{setting}"),
            (f"group.consumer.{setting}", f"group.consumer.max.{setting}"),
        )
    ),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)


def _without_secrets(layer: Mapping[str, str]) -> dict[str, str]:
    """For a log or a debugger. Names that are ignored here may hold passwords, too."""
    return {
        name: text if (key := BROKER_KEYS.get(name)) is not None and not key.is_sensitive else "[hidden]"
        for name, text in layer.items()
    }


def parse_all(texts: Mapping[str, str]) -> dict[str, Value]:
    """The values of the settings that we honour; InvalidConfig for a wrong value or an unknown name."""
    return {name: key.parse(text) for name, text in texts.items() if (key := broker_key(name)) is not None}


def broker_key(name: str) -> ConfigKey | None:
    """The setting of this name; None when Apache Kafka has it and we have no use for it."""
    key = BROKER_KEYS.get(name)
    if key is None and name not in UNUSED_SETTINGS and not name.startswith(UNUSED_PREFIXES):
        import difflib  # only for somebody's typing error

        close = difflib.get_close_matches(name, BROKER_KEYS, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise errors.InvalidConfig(f"Unknown broker config name: {name}{hint}")
    return key


def read_properties(text: str) -> dict[str, str]:
    """A Java property file: comments, continued lines, `=`, `:` or blanks between name and value."""
    settings: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1] + next(lines, "").lstrip()
        name, value = _split(line)
        settings[_unescape(name)] = _unescape(value)
    return settings


def read_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """`name=value` as `--set` takes it."""
    settings: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise errors.InvalidConfig(f"{assignment!r} is not of the form name=value")
        settings[name.strip()] = value.strip()
    return settings


def _scaled(value: Value, factor: int) -> int:
    assert isinstance(value, int)
    return value * factor if value >= 0 else -1


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    name, rest = line[:end], line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return name, rest


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\" and position < len(text):
            char = text[position]
            position += 1
            if char == "u" and (digits := text[position : position + 4]) and _is_hex(digits):
                char = chr(int(digits, 16))
                position += 4
            else:
                char = _ESCAPES.get(char, char)
        parts.append(char)
    return "".join(parts)


def _is_hex(digits: str) -> bool:
    return len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
