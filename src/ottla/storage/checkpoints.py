"""The small files of a log folder in Kafka's format: offset checkpoints, meta.properties, the clean mark."""

import base64
import binascii
from collections.abc import Mapping

from ottla.errors import OttlaError
from ottla.frozen import frozen
from ottla.ports import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_MARK = ".kafka_cleanshutdown"

_CHECKPOINT_VERSION = 0
_META_VERSION = 1

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]


class DamagedFile(OttlaError):
    """A file is there and is not what it should be. We say so and guess nothing."""

    def __init__(self, path: str, reason: str, line: int | None = None) -> None:
        self.path = path
        self.reason = reason
        self.line = line
        place = path if line is None else f"{path}, line {line}"
        super().__init__(f"{place}: {reason}")


def read_offsets(disk: Disk, name: str) -> Offsets:
    """The offset of every partition in a checkpoint. None are in one never written; Kafka makes it empty."""
    if not disk.exists(name) or disk.size(name) == 0:
        return {}
    lines = _lines(disk, name)
    version = _number(name, lines, 0, "version")
    if version != _CHECKPOINT_VERSION:
        raise DamagedFile(name, f"version {version} is unknown", 1)
    count = _number(name, lines, 1, "number of entries")
    if count != len(lines) - 2:
        raise DamagedFile(name, f"{count} entries announced, {len(lines) - 2} found", 2)
    offsets: Offsets = {}
    for at, line in enumerate(lines[2:], start=3):
        partition, offset = _entry(name, at, line)
        if partition in offsets:
            raise DamagedFile(name, f"{partition[0]}-{partition[1]} is there twice", at)
        offsets[partition] = offset
    return offsets


def write_offsets(disk: Disk, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    entries = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    text = "\n".join([str(_CHECKPOINT_VERSION), str(len(entries)), *entries]) + "\n"
    disk.write_whole(name, text.encode())


@frozen
class Meta:
    """Whose folder this is; `directory_id` tells one log folder of a broker from another."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def read_meta(disk: Disk, *, missing_directory_id: bytes | None = None) -> Meta | None:
    """`missing_directory_id` is for folders of an Apache Kafka that wrote none yet."""
    if not disk.exists(META_PROPERTIES):
        return None
    properties = _properties(disk)
    version = _property(properties, "version")
    if version != str(_META_VERSION):
        raise DamagedFile(META_PROPERTIES, f"version {version} is unknown")
    node_id = _property(properties, "node.id")
    if not _is_integer(node_id):
        raise DamagedFile(META_PROPERTIES, f"node.id={node_id} is not a number")
    if missing_directory_id is not None and "directory.id" not in properties:
        directory_id = missing_directory_id
    else:
        directory_id = _uuid(_property(properties, "directory.id"))
    return Meta(_property(properties, "cluster.id"), int(node_id), directory_id)


def write_meta(disk: Disk, meta: Meta) -> None:
    lines = [
        "#",
        f"version={_META_VERSION}",
        f"cluster.id={meta.cluster_id}",
        f"node.id={meta.node_id}",
        f"directory.id={uuid_text(meta.directory_id)}",
    ]
    disk.write_whole(META_PROPERTIES, ("\n".join(lines) + "\n").encode())


def write_clean_mark(disk: Disk, broker_epoch: int) -> None:
    import json  # a start only looks whether the mark is there

    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.write_whole(CLEAN_MARK, text.encode())


def take_clean_mark(disk: Disk) -> bool:
    """Was the last stop a clean one? The mark is gone afterwards: it is true only once."""
    if not disk.exists(CLEAN_MARK):
        return False
    disk.remove(CLEAN_MARK)
    disk.sync_folder("")
    return True


def uuid_text(uuid: bytes) -> str:
    """Kafka's text for a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def _lines(disk: Disk, name: str) -> list[str]:
    try:
        text = disk.read_whole(name).decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(name, "not a text file") from error
    if not text.endswith("\n"):
        raise DamagedFile(name, "the last line is cut off")
    return text[:-1].split("\n")


def _number(name: str, lines: list[str], at: int, missing: str) -> int:
    if at >= len(lines) or not _is_integer(lines[at]):
        raise DamagedFile(name, f"no {missing}", at + 1)
    return int(lines[at])


def _entry(name: str, at: int, line: str) -> tuple[TopicPartition, int]:
    words = line.split(" ")
    if len(words) != 3 or not words[0] or not _is_integer(words[1]) or not _is_integer(words[2]):
        raise DamagedFile(name, f"{line[:80]!r} is not `topic partition offset`", at)
    partition, offset = int(words[1]), int(words[2])
    if partition < 0 or offset < 0:
        raise DamagedFile(name, f"{line[:80]!r} has a negative number", at)
    return (words[0], partition), offset


def _is_integer(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    return digits.isascii() and digits.isdigit() and len(digits) <= 19


def _properties(disk: Disk) -> dict[str, str]:
    values: dict[str, str] = {}
    for at, line in enumerate(_lines(disk, META_PROPERTIES), start=1):
        if not line.strip() or line.startswith(("#", "!")):
            continue
        name, equals, value = line.partition("=")
        if not equals or name.strip() in values:
            raise DamagedFile(META_PROPERTIES, f"{line[:80]!r} is not `name=value`, or is there twice", at)
        values[name.strip()] = value.strip().replace("\\", "")
    return values


def _property(properties: Mapping[str, str], name: str) -> str:
    if not properties.get(name):
        raise DamagedFile(META_PROPERTIES, f"{name} is missing")
    return properties[name]


def _uuid(text: str) -> bytes:
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise DamagedFile(META_PROPERTIES, f"directory.id={text} is not a UUID") from error
    if len(uuid) != 16:
        raise DamagedFile(META_PROPERTIES, f"directory.id={text} is not a UUID")
    return uuid
