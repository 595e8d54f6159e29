"""One log folder of Apache Kafka, only ever read."""

from collections.abc import Iterator
from pathlib import Path

from ottla.migration import kraft_log
from ottla.migration.refusals import CannotImport
from ottla.migration.source_folder import SourceFolder
from ottla.server.disk import OsDisk
from ottla.storage import checkpoints
from ottla.storage.files import LOG, base_offset_of
from ottla.storage.folder_names import partition_folder
from ottla.storage.ownership import KAFKA_METADATA, contents
from ottla.wire import batch as batches
from ottla.wire import records as wire_records
from ottla.wire.batch import CorruptBatch

NO_DIRECTORY_ID = bytes(16)
_KNOWN_GROUP_KEYS = {*range(9), *range(10, 24)}


class KafkaFolder(SourceFolder):
    __slots__ = ()

    @classmethod
    def open(cls, path: str) -> "KafkaFolder":
        disk = OsDisk(path)
        if not Path(path).is_dir():
            raise CannotImport(f"{path}: no such folder")
        meta = checkpoints.read_meta(disk, missing_directory_id=NO_DIRECTORY_ID)
        if meta is None:
            raise CannotImport(
                f"{path} has no {checkpoints.META_PROPERTIES}: it is no log folder of Apache Kafka"
            )
        inside = contents(disk)
        return cls(path, meta, disk, list(inside.partitions), list(inside.marked))

    @property
    def has_metadata(self) -> bool:
        return self.disk.exists(KAFKA_METADATA)

    def metadata(self) -> kraft_log.MetadataLog:
        return kraft_log.read(self.disk)


def foreign_groups(folder: KafkaFolder, topic: str) -> set[int]:
    """Types of group records in force that are not known here: a kind of group of a later release."""
    alive: dict[bytes, bool] = {}
    for key in folder.partitions:
        if key[0] == topic:
            for group_key, is_set in _group_keys(folder.disk, partition_folder(*key)):
                if is_set:
                    alive[group_key] = True
                else:
                    alive.pop(group_key, None)
    return {int.from_bytes(group_key[:2], "big", signed=True) for group_key in alive}


def _group_keys(disk: OsDisk, folder: str) -> Iterator[tuple[bytes, bool]]:
    names = [name for name in disk.list(folder) if name.endswith(LOG) and base_offset_of(name) is not None]
    for name in sorted(names):
        with Path(disk.root, folder, name).open("rb") as file:
            while head := file.read(batches.HEADER_BYTES):
                try:
                    header = batches.read_header(head)
                    batch = head + file.read(header.size - batches.HEADER_BYTES)
                    records = wire_records.read(batch) if len(batch) == header.size else []
                except CorruptBatch:
                    break  # torn by a crash: the start that follows the import cuts it
                for record in records if not header.is_control else ():
                    key = record.key or b""
                    if int.from_bytes(key[:2], "big", signed=True) not in _KNOWN_GROUP_KEYS:
                        yield key, record.value is not None
