"""Making a log durable: decided on the loop, done in a thread, reported back with `Log.on_flushed`."""

from dataclasses import dataclass

from ottla.ports import Disk
from ottla.storage.segment import IndexWrite


@dataclass(slots=True)
class Flush:
    """Everything below `up_to` is durable once `run` is through. It opens files of its own, so that the loop
    may close, rename or delete them meanwhile."""

    disk: Disk
    folder: str
    up_to: int
    generation: int  # a truncation in between makes the result worthless
    writes: list[IndexWrite]
    paths: list[str]
    names_changed: bool

    def run(self) -> None:
        """Only I/O; an OSError means that nothing is certain."""
        for write in self.writes:
            file = self.disk.open(write.path, create=True)
            try:
                file.write_at(write.position, write.data)
            finally:
                file.close()
        for path in self.paths:
            self._sync(path)
        if self.names_changed:
            self.disk.sync_folder(self.folder)
            self.disk.sync_folder(self.folder.rpartition("/")[0])

    def _sync(self, path: str) -> None:
        try:
            file = self.disk.open(path)
        except FileNotFoundError:
            return  # deleted meanwhile, and with it the need
        try:
            file.sync()
        finally:
            file.close()
