"""The log folders of a broker: locked, and offline from the start where the disk does not play along."""

import logging
import resource
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.config.settings import Config
from ottla.errors import KafkaStorageError, OttlaError
from ottla.metadata.image import Image
from ottla.ports import Disk
from ottla.server.disk import OsDisk
from ottla.server.lock import FolderLock
from ottla.storage.checkpoints import TopicPartition, uuid_text
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.ownership import Contents, contents

log = logging.getLogger("ottla.server")

OnOffline = Callable[[LogFolder, OSError], None]

PUT_ASIDE = "ottla.start.without.metadata"
GIVE_UP = "ottla.start.without.folders"
_NAMED_MAX = 5


class ForeignFolder(OttlaError):
    """A folder with data that the metadata does not know. A start would put all of it aside."""


@dataclass(slots=True)
class Folders:
    all: list[LogFolder] = field(default_factory=list)
    locks: list[FolderLock] = field(default_factory=list)

    @classmethod
    def open(cls, config: Config, disks: list[Disk] | None, on_offline: OnOffline) -> "Folders":
        """`disks` stand for the folders of the configuration. FolderInUse when another broker has one."""
        opened = cls()
        handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = FileCache(files_max=max(1, min(config.ottla_open_files_max, handles // 4)))
        try:
            if disks is None:
                for path in config.log_dirs_in_use():
                    disk = OsDisk(path)
                    folder = _folder(disk, path, files, on_offline)
                    opened.all.append(folder)
                    opened._lock(folder, disk)
            else:
                names = [f"memory-{index}" for index in range(len(disks))]
                opened.all = [
                    _folder(disk, name, files, on_offline) for disk, name in zip(disks, names, strict=True)
                ]
        except BaseException:
            opened.release()
            raise
        return opened

    def check_usable(self) -> None:
        """A broker without any folder would serve nothing; the next start may find the disks well."""
        if all(folder.is_offline for folder in self.all):
            reasons = "; ".join(f"{folder.path}: {folder.failure}" for folder in self.all)
            raise KafkaStorageError(f"All log folders are offline: {reasons}")

    def release(self) -> None:
        for lock in self.locks:
            lock.release()
        self.locks.clear()

    def _lock(self, folder: LogFolder, disk: OsDisk) -> None:
        """The first folder has the metadata: without it there is no broker. The others may be missing."""
        try:
            with folder.guard():
                disk.make_folder("")
                self.locks.append(FolderLock(disk.root))
        except KafkaStorageError:
            if folder is self.all[0]:
                raise


def _folder(disk: Disk, path: str, files: FileCache, on_offline: OnOffline) -> LogFolder:
    return LogFolder(
        disk, path, files=files, report=log.warning, on_offline=on_offline, exclusive=threading.Lock()
    )


def check_ours(folders: Sequence[LogFolder], image: Image, metadata_home: str, put_aside: bool) -> None:
    """Refuse folders that hold what is not this cluster's, before anything in them is changed.

    `put_aside` is the operator's word that folders without their metadata may start from nothing.
    """
    for folder in folders:
        if folder.is_offline:
            continue
        with folder.guard():
            inside = contents(folder.disk)
        if inside.of_kafka:
            raise ForeignFolder(_kafka_text(folder.path, inside))
        if not image.cluster_id and inside.is_used and not put_aside:
            raise ForeignFolder(_lost_text(folder.path, inside, metadata_home))
        if image.cluster_id and not inside.has_meta and not put_aside:
            _check_known(folder.path, inside, image)


def known_directories(image: Image, node_id: int) -> tuple[bytes, ...]:
    """The log folders that this broker had, or waited for, when it registered last."""
    broker = image.brokers.get(node_id)
    return broker.directories if broker is not None else ()


def report_missing(missing: Sequence[bytes], awaited: Sequence[TopicPartition]) -> None:
    """`awaited` are the partitions that are offline for it."""
    ids = ", ".join(map(uuid_text, missing))
    lost = f"a log folder that this broker had is missing (directory.id {ids} in its meta.properties)"
    if not awaited:
        log.warning("%s: its replicas are copied from other brokers", lost)
        return
    names = [f"{topic}-{index}" for topic, index in awaited[:_NAMED_MAX]]
    log.error(
        "%s: %d partitions are offline, as their records may be there: %s. Bring the folder back and name it in "
        "log.dirs. If it is lost, start once with %s=true: partitions without another replica start from nothing",
        lost,
        len(awaited),
        ", ".join(names if len(names) == len(awaited) else [*names, "..."]),
        GIVE_UP,
    )


def strand_leftovers(folders: Sequence[LogFolder]) -> None:
    """A broker without metadata deletes nothing: folders that their last owner had marked for deletion are renamed to
    *-stray."""
    for folder in folders:
        if not folder.is_offline:
            folder.strand_leftovers()


def _check_known(path: str, inside: Contents, image: Image) -> None:
    unknown = [key for key in inside.partitions if image.partition(*key) is None]
    if unknown:
        raise ForeignFolder(
            f"{path} has no meta.properties, and its partition {unknown[0][0]}-{unknown[0][1]} is not of this "
            f"cluster. Use an empty folder, {_import_text(path)}, or set {PUT_ASIDE}=true to rename its "
            "unknown partitions to *-stray"
        )


def _kafka_text(path: str, inside: Contents) -> str:
    return (
        f"{path} is a log folder of Apache Kafka ({inside}). Nothing in it was changed. "
        f"To go on with its data, {_import_text(path)}"
    )


def _lost_text(path: str, inside: Contents, metadata_home: str) -> str:
    return (
        f"{path} holds {inside}, but {metadata_home} knows of no cluster. Nothing was changed. "
        f"If the folder is of Apache Kafka, {_import_text(path)}; if the metadata was lost, restore it. "
        f"To start from nothing and rename every partition to *-stray, set {PUT_ASIDE}=true"
    )


def _import_text(path: str) -> str:
    return f"run: ottla import-kafka --from {path} --data NEW_FOLDER"
