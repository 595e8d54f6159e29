"""A log folder that is only read, ours or Apache Kafka's: which partitions go along, and their copy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.metadata.image import Image
from ottla.migration import copying
from ottla.server.disk import OsDisk
from ottla.storage import checkpoints
from ottla.storage.checkpoints import Meta, Offsets, TopicPartition
from ottla.storage.files import CORRUPT
from ottla.storage.folder_names import partition_folder
from ottla.storage.partition_files import NO_TOPIC_ID, read_topic_id, write_topic_id

OFFSET_FILES = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.CLEANER_OFFSETS,
)


@dataclass(slots=True)
class SourceFolder:
    path: str
    meta: Meta
    disk: OsDisk
    partitions: list[TopicPartition]
    set_aside: list[str] = field(default_factory=list)
    """Folders that stay behind: unfinished deletions and copies, and what the metadata does not know."""

    @property
    def was_clean(self) -> bool:
        return self.disk.exists(checkpoints.CLEAN_MARK)

    @property
    def size_bytes(self) -> int:
        return sum(
            self.disk.size(f"{partition_folder(*key)}/{name}")
            for key in self.partitions
            for name in self._files(key)
        )

    def leave_strays(self, image: Image) -> None:
        """Partitions that the metadata does not know here, or knows under another topic id, stay behind."""
        for key in list(self.partitions):
            state = image.partition(*key)
            name = partition_folder(*key)
            topic_id = read_topic_id(self.disk, name, lambda line: None)
            if (
                state is None
                or self.meta.node_id not in state.replicas
                or topic_id not in (state.topic_id, NO_TOPIC_ID)
            ):
                self.partitions.remove(key)
                self.set_aside.append(name)

    def copy_partitions(self, image: Image, target: str, progress: copying.Progress) -> None:
        disk = OsDisk(target)
        for key in self.partitions:
            name = partition_folder(*key)
            copying.copy_folder(Path(self.path, name), Path(target, name), self._files(key), progress)
            state = image.partition(*key)
            if state is not None and read_topic_id(disk, name, lambda line: None) != state.topic_id:
                write_topic_id(disk, name, state.topic_id)

    def offsets(self, name: str) -> Offsets:
        present = set(self.partitions)
        return {key: at for key, at in checkpoints.read_offsets(self.disk, name).items() if key in present}

    def _files(self, key: TopicPartition) -> list[str]:
        """Without what a recovery of ours has cut off and kept."""
        return [name for name in self.disk.list(partition_folder(*key)) if not name.endswith(CORRUPT)]


def copy_all(folders: Sequence[SourceFolder], image: Image, target: str, progress: copying.Progress) -> None:
    """Partitions and checkpoints of a broker's folders, into one."""
    Path(target).mkdir(parents=True, exist_ok=True)
    for folder in folders:
        folder.copy_partitions(image, target, progress)
    for name in OFFSET_FILES:
        merged: Offsets = {}
        for folder in folders:
            merged |= folder.offsets(name)
        checkpoints.write_offsets(OsDisk(target), name, merged)


def left_behind(folders: Sequence[SourceFolder]) -> list[str]:
    return [
        f"left behind: {folder.path}/{name} (a deletion, a copy, or unknown to the metadata)"
        for folder in folders
        for name in folder.set_aside
    ]
