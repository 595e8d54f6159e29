"""Which tables a capture takes: `table.include.list` and its like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ottla.connect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Selection:
    """`table.include.list` and its like: regular expressions for whole names, of any case."""

    tables: Sequence[str] = ()
    without_tables: Sequence[str] = ()
    schemas: Sequence[str] = ()
    without_schemas: Sequence[str] = ()
    _patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)

    def takes(self, schema: str, name: str) -> bool:
        full = f"{schema}.{name}"
        return (
            (not self.schemas or self._any(self.schemas, schema))
            and not self._any(self.without_schemas, schema)
            and (not self.tables or self._any(self.tables, full))
            and not self._any(self.without_tables, full)
        )

    def order(self, schema: str, name: str) -> tuple[int, str]:
        """As the include list names them, then by name."""
        full = f"{schema}.{name}"
        place = next(
            (i for i, table in enumerate(self.tables) if self._matches(table, full)), len(self.tables)
        )
        return place, full

    def _any(self, patterns: Iterable[str], text: str) -> bool:
        return any(self._matches(pattern, text) for pattern in patterns)

    def _matches(self, pattern: str, text: str) -> bool:
        compiled = self._patterns.get(pattern)
        if compiled is None:
            try:
                compiled = self._patterns[pattern] = re.compile(pattern, re.IGNORECASE)
            except re.error as error:
                raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from error
        return compiled.fullmatch(text) is not None
