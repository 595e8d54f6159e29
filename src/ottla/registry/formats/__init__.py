"""The kinds of schemas: what is valid, how its text is kept, which can read what another wrote."""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol

from ottla.registry import errors
from ottla.registry.state import Content

# Imported when first used: each brings a library.
_HOMES = {
    "AVRO": "ottla.registry.formats.avro",
    "PROTOBUF": "ottla.registry.formats.protobuf",
    "JSON": "ottla.registry.formats.json_schema",
}
TYPES = ("JSON", "PROTOBUF", "AVRO")


class Parsed(Protocol):
    """A valid schema with everything that it refers to."""

    @property
    def canonical(self) -> str:
        """The text that is kept: two texts that mean the same in every detail have the same one."""

    @property
    def normalized(self) -> str:
        """As `canonical`, and also without what makes no difference to a reader or writer."""

    @property
    def top_fields(self) -> frozenset[str]:
        """The names of its outermost fields."""

    def cannot_read(self, writer: "Parsed") -> list[str]:
        """Why this schema cannot read what the other wrote; nothing if it can."""

    def formatted(self, name: str) -> str:
        """The text in another form that the schema's kind knows, such as `serialized`."""


class Parser(Protocol):
    def parse(self, text: str, references: Mapping[str, str]) -> Parsed:
        """`references` are texts by the names under which the schema refers to them, what they need first."""


def parse(content: Content, references: Mapping[str, str]) -> Parsed:
    home = _HOMES.get(content.schema_type)
    if home is None:
        raise errors.invalid_schema(f"the type {content.schema_type} is not known; it is {', '.join(TYPES)}")
    try:
        parser: Parser = import_module(home)
    except ImportError as error:
        raise errors.unprocessable(
            f"{content.schema_type} schemas need the package {error.name}: pip install 'ottla[registry]'"
        ) from error
    try:
        parsed = parser.parse(content.schema, references)
    except RecursionError as error:
        raise errors.invalid_schema("it nests too deep") from error
    check_encodable(parsed.canonical)  # an escape such as \ud800 is a character by now
    return parsed


def check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise errors.invalid_schema(f"it has text that is not Unicode: {error}") from error
