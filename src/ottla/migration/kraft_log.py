"""Reads `__cluster_metadata-0`: the newest snapshot that is whole, and the log behind it."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.errors import OttlaError
from ottla.migration import kraft_codec
from ottla.migration.kraft_schema import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    KraftRecord,
    Voters,
)
from ottla.ports import Disk
from ottla.storage.files import LOG, base_offset_of
from ottla.storage.ownership import KAFKA_METADATA
from ottla.wire import batch as batches
from ottla.wire import records as wire_records
from ottla.wire.batch import CorruptBatch

_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_QUORUM_STATE = "quorum-state"
_CONTROLS = {LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS}


class MetadataDamaged(OttlaError):
    """The metadata of Apache Kafka cannot be read as a whole."""


class Entry(NamedTuple):
    """One record; `control` is the type of a control record, and -1 for metadata."""

    offset: int
    epoch: int
    control: int
    value: bytes


class MetadataLog(NamedTuple):
    """What one node knows. `last_epoch` and `end_offset` tell which of several nodes knows most."""

    records: list[KraftRecord]
    voters: frozenset[int]
    last_epoch: int
    end_offset: int


def read(disk: Disk) -> MetadataLog:
    names = disk.list(KAFKA_METADATA)
    snapshot_end, epoch, snapshot = _newest_snapshot(disk, names)
    entries = list(_log_entries(disk, names, snapshot_end))
    both = [*snapshot, *entries]
    return MetadataLog(
        list(_committed(both)),
        _voters(both) or _old_voters(disk),
        max([epoch, *(entry.epoch for entry in entries)]),
        entries[-1].offset + 1 if entries else snapshot_end,
    )


def _newest_snapshot(disk: Disk, names: list[str]) -> tuple[int, int, list[Entry]]:
    """Its end offset, epoch and records. One without its footer was not finished and does not count."""
    for name in sorted(names, reverse=True):
        match = _SNAPSHOT_NAME.fullmatch(name)
        if match is None:
            continue
        try:
            entries = list(_entries(disk.read_whole(f"{KAFKA_METADATA}/{name}")))
        except CorruptBatch:
            continue
        if entries and entries[-1].control == SNAPSHOT_FOOTER:
            return int(match[1]), int(match[2]), entries
    return 0, 0, []


def _log_entries(disk: Disk, names: list[str], start: int) -> Iterator[Entry]:
    bases = sorted(
        base for name in names if name.endswith(LOG) and (base := base_offset_of(name)) is not None
    )
    expected = min(bases, default=start)
    if expected > start:
        raise MetadataDamaged(
            f"{KAFKA_METADATA}: the log begins at offset {expected} and there is no whole snapshot that "
            f"reaches so far (the newest ends at {start})"
        )
    for base in bases:
        if base != expected:
            raise MetadataDamaged(f"{KAFKA_METADATA}: the log ends at {expected}, the next segment is {base}")
        data = disk.read_whole(f"{KAFKA_METADATA}/{base:020d}{LOG}")
        try:
            for entry in _entries(data):
                expected = entry.offset + 1
                if entry.offset >= start:
                    yield entry
        except CorruptBatch as error:
            if base != bases[-1]:
                raise MetadataDamaged(f"{KAFKA_METADATA}/{base:020d}{LOG}: {error}") from error
            return  # a torn tail was never acknowledged


def _entries(data: bytes) -> Iterator[Entry]:
    """CorruptBatch where it does not go on."""
    position = 0
    while position < len(data):
        header = batches.check(data, position)
        for record in wire_records.iterate(data, position, header):
            control = kraft_codec.control_type(record.key) if header.is_control else -1
            yield Entry(record.offset, header.leader_epoch, control, record.value or b"")
        position += header.size


def _committed(entries: Iterable[Entry]) -> Iterator[KraftRecord]:
    """Metadata records; those of a transaction only if it ended. One cut off by a crash is aborted by the
    next controller."""
    held: list[KraftRecord] | None = None
    for entry in entries:
        if entry.control >= 0:
            if entry.control not in _CONTROLS:
                raise kraft_codec.UnknownMetadata(f"a control record of the unknown type {entry.control}")
            continue
        record = kraft_codec.decode(entry.value)
        match record:
            case BeginTransaction():
                held = []
            case AbortTransaction():
                held = None
            case EndTransaction():
                yield from held or ()
                held = None
            case _ if held is not None:
                held.append(record)
            case _:
                yield record


def _voters(entries: Iterable[Entry]) -> frozenset[int]:
    last: frozenset[int] = frozenset()
    for entry in entries:
        if entry.control == KRAFT_VOTERS:
            voters = kraft_codec.read_control(Voters, entry.value)
            assert isinstance(voters, Voters)
            last = frozenset(voter.voter_id for voter in voters.voters)
    return last


def _old_voters(disk: Disk) -> frozenset[int]:
    """Of a quorum that is fixed in the settings: the nodes write down who it is."""
    path = f"{KAFKA_METADATA}/{_QUORUM_STATE}"
    if not disk.exists(path):
        return frozenset()
    try:
        state = json.loads(disk.read_whole(path))
        return frozenset(int(voter["voterId"]) for voter in state.get("currentVoters") or ())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MetadataDamaged(f"{path} cannot be read: {error}") from error
