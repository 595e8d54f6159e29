"""The two small files of a partition's folder besides its segments: whose it is, and its leader epochs."""

import base64
import binascii
from collections.abc import Callable

from ottla.ports import Disk
from ottla.storage.epochs import BadEpochs, LeaderEpochs
from ottla.storage.files import EPOCHS, PARTITION_METADATA, replace_quickly

NO_TOPIC_ID = bytes(16)
_TOPIC_ID = b"topic_id: "


def read_topic_id(disk: Disk, folder: str, report: Callable[[str], None]) -> bytes:
    path = f"{folder}/{PARTITION_METADATA}"
    if not disk.exists(path):
        return NO_TOPIC_ID
    for line in disk.read_whole(path).splitlines():
        if line.startswith(_TOPIC_ID):
            try:
                topic_id = base64.urlsafe_b64decode(line.removeprefix(_TOPIC_ID) + b"==")
            except binascii.Error:
                break
            if len(topic_id) == len(NO_TOPIC_ID):
                return topic_id
    report(f"{path} names no topic id and is ignored")
    return NO_TOPIC_ID


def write_topic_id(disk: Disk, folder: str, topic_id: bytes) -> None:
    text = b"version: 0\n" + _TOPIC_ID + base64.urlsafe_b64encode(topic_id).rstrip(b"=")
    replace_quickly(disk, f"{folder}/{PARTITION_METADATA}", text)


def read_epochs(disk: Disk, folder: str, report: Callable[[str], None]) -> LeaderEpochs | None:
    """None without a readable checkpoint: then the batches have to tell."""
    path = f"{folder}/{EPOCHS}"
    try:
        return LeaderEpochs.load(disk.read_whole(path))
    except FileNotFoundError:
        pass
    except BadEpochs as error:
        report(f"{path} is rebuilt from the batches: {error}")
    return None


def write_epochs(disk: Disk, folder: str, epochs: LeaderEpochs) -> None:
    replace_quickly(disk, f"{folder}/{EPOCHS}", epochs.dump())
    epochs.dirty = False
