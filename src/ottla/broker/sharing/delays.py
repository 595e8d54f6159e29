"""Records that say when they may be delivered: the header `ottla-deliver-at`, honoured by share groups only.

Its value is a time in milliseconds since 1970 as decimal text, or in ISO 8601 with its distance from UTC. Anything
else is as no header.
"""

import re
from datetime import datetime

from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.compression import OverLimit

DELIVER_AT = "ottla-deliver-at"
UNPACKED_MAX = 16 * 1024 * 1024  # a batch that decompresses to more is not looked into
_IN_BATCH = re.compile(DELIVER_AT.encode())
_LAST_MS = 253_402_300_800_000  # the year 10000


def dues_in(data: Buffer, from_offset: int, wall_ms: int) -> dict[int, int]:
    """Offsets from this one on whose time is still to come, and that time."""
    dues: dict[int, int] = {}
    for position, header in batches.headers(data):
        if header.last_offset < from_offset or header.is_control or not _has_header(data, position, header):
            continue
        for record in records.iterate(data, position, header, limit=UNPACKED_MAX):
            due_ms = max((_time_ms(value) for name, value in record.headers if name == DELIVER_AT), default=0)
            if due_ms > wall_ms and record.offset >= from_offset:
                dues[record.offset] = due_ms
    return dues


def _has_header(data: Buffer, position: int, header: batches.BatchHeader) -> bool:
    """Whether one of its records may have it: most batches are not taken apart."""
    if header.codec == batches.NONE:
        return _IN_BATCH.search(data, position, position + header.size) is not None
    try:
        return _IN_BATCH.search(batches.payload(data, position, header, limit=UNPACKED_MAX)) is not None
    except OverLimit:
        return False


def _time_ms(value: bytes | None) -> int:
    text = (value or b"").decode("ascii", "replace").strip()
    if text.isdecimal():
        return min(int(text[:20]), _LAST_MS)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return 0 if time.tzinfo is None else int(time.timestamp() * 1000)
