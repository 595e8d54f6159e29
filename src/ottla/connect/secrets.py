"""`${file:PATH:KEY}`, `${env:NAME}`, `${dir:FOLDER:FILE}`: secrets that stay out of configs, answers and logs."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ottla.client.settings import read_properties
from ottla.connect.errors import ConfigError

_PLACEHOLDER = re.compile(r"\$\{([^}:]+):(?:([^}]*):)?([^}]*)\}")
PROVIDERS = ("file", "env", "dir")


def resolve(config: Mapping[str, str | None]) -> dict[str, str | None]:
    """With the values in place of the placeholders; of providers that are not known the text stays, as in Java."""
    return {name: None if text is None else _resolved(name, text) for name, text in config.items()}


def has_placeholder(text: str | None) -> bool:
    return text is not None and any(match[1] in PROVIDERS for match in _PLACEHOLDER.finditer(text))


def values(text: str) -> list[str]:
    """The secrets themselves, of those placeholders in the text that can be resolved."""
    known = []
    for match in _PLACEHOLDER.finditer(text):
        if match[1] in PROVIDERS:
            try:
                known.append(_resolved("", match[0]))
            except ConfigError:
                continue
    return known


def _resolved(name: str, text: str) -> str:
    def value(match: re.Match[str]) -> str:
        provider, path, key = match[1], match[2] or "", match[3]
        match provider:
            case "env":
                return _from(os.environ, key, f"environment variable {key}", name)
            case "file":
                return _from(_properties(path, name), key, f"{key} in {path}", name)
            case "dir":
                return _file(Path(path) / key, name)
            case _:
                return match[0]

    return _PLACEHOLDER.sub(value, str(text))


def _properties(path: str, name: str) -> Mapping[str, str]:
    return read_properties(_file(Path(path), name))


def _file(path: Path, name: str) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise ConfigError(f"setting {name}: {path} cannot be read: {error.strerror}") from None


def _from(values: Mapping[str, str], key: str, what: str, name: str) -> str:
    try:
        return values[key]
    except KeyError:
        raise ConfigError(f"setting {name}: there is no {what}") from None
