"""Values with schemas of a registry as a struct column, read with the subject's latest schema when the query starts.

Values that were written with other versions are brought to that one as Avro says.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from ottla.serialization.columns import Columns, columns_of
from ottla.serialization.framing import NoColumns
from ottla.serialization.registry_client import RegistryClient
from ottla.spark.errors import BadValue as BadRecord
from ottla.spark.errors import OptionError
from ottla.spark.options import Registered


def struct_text(of: Registered) -> tuple[str, str]:
    """The type of the value in Spark's words, and the schema itself."""
    columns = _columns(RegistryClient(of.url), of, of.version or "latest")
    return columns.text, columns.reader


def pinned(of: Registered, planned: str) -> Registered:
    """With the version whose columns the query was planned with: others may have been registered since then."""
    registry = RegistryClient(of.url)
    latest = registry.version(of.subject)
    numbers = [latest.version or 1]
    while numbers:
        number = numbers.pop()
        if _plain(_columns(registry, of, number).text) == _plain(planned):
            return replace(of, version=number)
        if number == latest.version:
            path = f"/subjects/{quote(of.subject, safe='')}/versions"
            numbers = [known for known in registry.ask("GET", path) if known < number]
    raise OptionError(f"no version of subject {of.subject} has the columns {planned} any more; load() again")


def _plain(text: str) -> str:
    """Types as Spark prints them, and as it reads them, in one way."""
    return text.lower().replace("`", "").replace(" ", "")


def _columns(registry: RegistryClient, of: Registered, version: int | str) -> Columns:
    try:
        return columns_of(registry, of.subject, version, schema_type=of.schema_type)
    except NoColumns as error:
        raise OptionError(str(error)) from error


class RegistryValues:
    """A value that cannot be decoded is null, or with `fail_fast` an error that names it."""

    def __init__(
        self,
        kind: Any,
        url: str,
        schema_type: str,
        reader: str,
        *,
        fail_fast: bool = False,
        subject: str | None = None,
    ) -> None:
        """`subject` is where `reader` comes from: Avro values that were written with it are decoded all at once."""
        from ottla.serialization.arrow import value_column

        self._fail_fast = fail_fast
        registry = RegistryClient(url)
        own = registry.lookup(subject, reader) if subject is not None and schema_type == "AVRO" else None
        self._column = value_column(registry, schema_type, reader, kind, own)

    def decode(self, rows: Any) -> Any:
        return self.decode_telling(rows)[0]

    def decode_telling(self, rows: Any) -> tuple[Any, Any]:
        """The values, and for those that cannot be decoded why not; null where all is well."""
        import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

        from ottla.serialization.arrow import schema_headers

        values, reasons = self._column.decode(rows.column("value"), schema_headers(rows))
        if self._fail_fast:
            for at, reason in enumerate(reasons):
                if reason is not None:
                    raise BadRecord(f"{_where(rows, at)}: {reason}")
        return values, pa.array(reasons, pa.string())


def _where(rows: Any, at: int) -> str:
    settings: Mapping[str, Any] = {
        name: rows.column(name)[at].as_py() for name in ("topic", "partition", "offset")
    }
    return f"{settings['topic']}-{settings['partition']}, offset {settings['offset']}"
