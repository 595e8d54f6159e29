"""Whose log folder it is, told by the names in it. Nothing is opened and nothing is changed."""

from ottla.frozen import frozen
from ottla.ports import Disk
from ottla.storage.checkpoints import META_PROPERTIES, TopicPartition
from ottla.storage.folder_names import parse_folder

KAFKA_METADATA = "__cluster_metadata-0"
_KAFKA_BOOTSTRAP = "bootstrap.checkpoint"


@frozen
class Contents:
    """`of_kafka` is certain: Apache Kafka keeps its metadata log here. Its other log folders look like ours."""

    has_meta: bool
    of_kafka: bool
    partitions: tuple[TopicPartition, ...]
    marked: tuple[str, ...]

    @property
    def is_used(self) -> bool:
        return self.has_meta or self.of_kafka or bool(self.partitions) or bool(self.marked)

    def __str__(self) -> str:
        parts = ["meta.properties"] if self.has_meta else []
        if self.partitions or self.marked:
            count = len(self.partitions) + len(self.marked)
            parts.append(f"{count} partition folder{'' if count == 1 else 's'}")
        return " and ".join(parts) or "nothing"


def contents(disk: Disk) -> Contents:
    names = disk.list("")
    partitions, marked = [], []
    for name in names:
        folder = parse_folder(name)
        if folder is None or name == KAFKA_METADATA:
            continue
        if folder.kind:
            marked.append(name)
        else:
            partitions.append((folder.topic, folder.partition))
    return Contents(
        META_PROPERTIES in names,
        KAFKA_METADATA in names or _KAFKA_BOOTSTRAP in names,
        tuple(partitions),
        tuple(marked),
    )
