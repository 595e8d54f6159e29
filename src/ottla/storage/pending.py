"""What a log still has to write before its next record, and in which order."""

from typing import Protocol

from ottla.ports import Disk
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.files import EPOCHS, PARTITION_METADATA
from ottla.storage.flush import Durability
from ottla.storage.partition_files import NO_TOPIC_ID, write_epochs, write_topic_id
from ottla.storage.shortage import is_shortage


class Owner(Protocol):
    """The log folder, which writes this log's offsets to its checkpoints and fails with it."""

    def on_failed(self, error: OSError) -> None: ...

    def on_moved_back(self, offset: int) -> None:
        """The log was cut to `offset`: the checkpoints may name offsets beyond it."""

    def settle(self) -> None:
        """Write the checkpoints, if they may still name offsets that the log does not have."""


class NoOwner:
    """Of a log that is in no folder: nobody keeps its offsets."""

    def on_failed(self, error: OSError) -> None:
        pass

    def on_moved_back(self, offset: int) -> None:
        pass

    def settle(self) -> None:
        pass


class PendingWrites:
    """The folder, the topic id, the epochs and the names of files that must precede the next record.

    Creating a topic, leading an epoch and truncating write nothing by themselves: thousands of logs may do so at
    the same time. An append looks only at `due`.
    """

    __slots__ = ("_disk", "_durability", "_epochs", "_folder", "_names_unsynced", "due", "is_new", "owner")

    def __init__(
        self, disk: Disk, folder: str, epochs: LeaderEpochs, durability: Durability, *, is_new: bool
    ) -> None:
        self.due = is_new
        self.is_new = is_new  # the folder may not exist yet
        self.owner: Owner = NoOwner()
        self._disk = disk
        self._folder = folder
        self._epochs = epochs
        self._durability = durability
        self._names_unsynced = False

    def on_epoch_begun(self) -> None:
        self.due = True

    def on_unsettled(self) -> None:
        """The checkpoints name offsets that the log does not have. After a crash, new records below those offsets
        would not be checked, so the checkpoints are written first."""
        self.due = True

    def on_moved_back(self, offset: int) -> None:
        self.owner.on_moved_back(offset)
        self.on_unsettled()

    def on_renamed(self) -> None:
        """Segments were renamed to be deleted. A power cut may undo that, and recovery would take them for the
        continuation of the next records."""
        self._names_unsynced = self.due = True

    def on_moved(self, folder: str) -> None:
        self._folder = folder

    def write(self, topic_id: bytes) -> None:
        """Before a record. The order counts: a crash between two steps must leave a folder that opens as the log
        was, so the checkpoints come first and the epochs last."""
        self.owner.settle()
        self._disk.make_folder(self._folder)
        if self._names_unsynced:
            self._disk.sync_folder(self._folder)
            self._names_unsynced = False
        if topic_id != NO_TOPIC_ID:
            write_topic_id(self._disk, self._folder, topic_id)
            self._durability.on_written([f"{self._folder}/{PARTITION_METADATA}"])
        self.is_new = self.due = False
        self.save_epochs()

    def save_epochs(self) -> None:
        """If they changed. A full disk does not fail the log: the next append tries again."""
        if not self._epochs.dirty or self.is_new:
            return
        try:
            write_epochs(self._disk, self._folder, self._epochs)
        except OSError as error:
            if not is_shortage(error):
                raise
            self.due = True
            return
        self._durability.on_written([f"{self._folder}/{EPOCHS}"])
