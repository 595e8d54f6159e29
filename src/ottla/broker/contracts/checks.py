"""The records of a batch against the contract of their topic: ids in the kernel, whole values in a thread."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from ottla import errors
from ottla.config.contracts import IN_FULL, KEY, Contract, Terms
from ottla.ports import Buffer
from ottla.storage.validation import RECORD_ERRORS_MAX, RecordError, RejectedRecords, summary
from ottla.wire import kernel
from ottla.wire.kernel_rows_py import headers_at

RECORDS_AT_ONCE = 1_000  # of a full check: some ten milliseconds of a thread
RECORDS_MAX = 500_000  # in a batch that is checked in full: what finds them takes 72 bytes for each
NO_ID, UNKNOWN_GUID = -1, -2
_KEY_AT, _VALUE_AT, _HEADERS_AT = 2, 4, 6

Headers = tuple[tuple[str, bytes | None], ...]


class Allowed(NamedTuple):
    """The schemas that a key or value of a topic may have, as the kernel wants them; `where` says it to people."""

    ids: bytes
    guids: bytes
    where: str


class Schemas(Protocol):
    """What the records of the registry's topic add up to."""

    def apply(self, key: bytes | None, value: bytes | None) -> None: ...

    def allowed(self, topic: str, terms: Terms) -> Allowed: ...

    def fault(self, field: str, data: bytes, headers: Headers) -> str | None:
        """Why the key or value is not what its schema says, with the field's name. Asked on a thread."""


class UnknownSchemas(RejectedRecords):
    """Records name schemas that are not known to be allowed; later they may be."""


class BatchCheck:
    """Called with the records of one batch while it is accepted. What it checks in full comes after that: `jobs`."""

    def __init__(self, schemas: Schemas, topic: str, contract: Contract) -> None:
        self._schemas, self._topic, self._contract = schemas, topic, contract
        self._records: Buffer = b""
        self._count = 0

    def __call__(self, records: Buffer, count: int) -> None:
        for terms in self._contract.terms:
            allowed = self._schemas.allowed(self._topic, terms)
            total, strays = kernel.strays(
                records, count, RECORD_ERRORS_MAX, terms.field == KEY, allowed.ids, allowed.guids
            )
            if total:
                raise _refusal(terms.field, allowed, total, strays)
        if self._contract.is_full:
            self._records, self._count = records, count

    @property
    def is_full(self) -> bool:
        return self._contract.is_full

    def jobs(self) -> Iterator[Callable[[], None]]:
        """The full check in parts, each for a thread; others may have their turn in between."""
        if self._count > RECORDS_MAX:
            raise errors.MessageTooLarge(
                f"{self._topic} checks records in full: a batch may have {RECORDS_MAX} of them, not {self._count}"
            )
        full = _FullCheck(self._schemas, [t.field for t in self._contract.terms if t.extent == IN_FULL])
        yield partial(full.begin, self._records, self._count)
        for first in range(0, self._count, RECORDS_AT_ONCE):
            yield partial(full.check, first, min(first + RECORDS_AT_ONCE, self._count))
        full.end()


class _FullCheck:
    def __init__(self, schemas: Schemas, fields: list[str]) -> None:
        self._schemas = schemas
        self._fields = [(field, _KEY_AT if field == KEY else _VALUE_AT) for field in fields]
        self._faults: list[RecordError] = []
        self._total = 0

    def begin(self, records: Buffer, count: int) -> None:
        self._rows = memoryview(kernel.index(records, count)).cast("q")
        self._records = bytes(records)

    def check(self, first: int, end: int) -> None:
        width = kernel.INDEX_FIELDS
        for number in range(first, end):
            row = self._rows[number * width : (number + 1) * width]
            headers = headers_at(self._records, row[_HEADERS_AT])
            for field, at in self._fields:
                if row[at] >= 0:
                    self._look(number, field, self._records[row[at] : row[at + 1]], headers)

    def _look(self, number: int, field: str, data: bytes, headers: Headers) -> None:
        fault = self._schemas.fault(field, data, headers)
        if fault is not None:
            self._total += 1
            if len(self._faults) < RECORD_ERRORS_MAX:
                self._faults.append(RecordError(number, f"{field}: {fault}"))

    def end(self) -> None:
        if self._total:
            faults = tuple(self._faults)
            raise RejectedRecords(summary("their schemas", self._total, faults), faults)


def _refusal(
    field: str, allowed: Allowed, total: int, strays: list[tuple[int, int]]
) -> UnknownSchemas | RejectedRecords:
    record_errors = tuple(RecordError(at, _reason(field, allowed, schema_id)) for at, schema_id in strays)
    # Records that name none at all are refused at once: no registration can make them right.
    kind = RejectedRecords if all(schema_id == NO_ID for _, schema_id in strays) else UnknownSchemas
    return kind(summary("missing or unknown schemas", total, record_errors), record_errors)


def _reason(field: str, allowed: Allowed, schema_id: int) -> str:
    if schema_id == NO_ID:
        return (
            f"the {field} names no schema: it must begin with a zero byte and the id of one that is registered "
            f"{allowed.where}, or have the header __{field}_schema_id"
        )
    if schema_id == UNKNOWN_GUID:
        return f"the {field}'s schema, by its GUID, is not registered {allowed.where}"
    return f"the {field}'s schema, id {schema_id}, is not registered {allowed.where}"
