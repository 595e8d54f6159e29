"""The state of one partition's log, and what an error of the disk does to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from ottla import errors
from ottla.config.log import LogConfig
from ottla.storage.files import Location
from ottla.storage.flush import Durability
from ottla.storage.opening import Opened
from ottla.storage.pending import Owner, PendingWrites
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.shortage import is_shortage


class LogState:
    """Shared by the modules that change a log: appending, rolling, truncation, durability."""

    def __init__(self, location: Location, config: LogConfig, opened: Opened, topic_id: bytes) -> None:
        self.disk, self.folder, files = location
        self.config = config
        self.epochs = opened.epochs
        self.producers = opened.producers
        self.topic_id = topic_id
        self.log_start_offset = self.high_watermark = opened.log_start_offset
        self.chain = Segments(self.disk, files, self.folder, opened.segments)
        self.end_offset = self.chain.active.next_offset
        self.failed: OSError | None = None
        self.durability = Durability(self.disk, self.folder, self.end_offset)
        self.pending = PendingWrites(
            self.disk, self.folder, self.epochs, self.durability, is_new=self.is_empty
        )

    def belong_to(self, owner: Owner) -> None:
        self.pending.owner = owner

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    @property
    def segments(self) -> Sequence[Segment]:
        """In order; the last one is active."""
        return self.chain.all

    @property
    def active_base_offset(self) -> int:
        return self.chain.active.base_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def is_empty(self) -> bool:
        return len(self.segments) == 1 and not self.segments[0].size_bytes

    @property
    def recovery_point(self) -> int:
        """Everything below is durable, and is not checked after a crash."""
        return self.durability.point

    def fail(self, error: OSError) -> None:
        """The disk failed: from here on every append is refused."""
        if self.failed is None:
            self.failed = error
            self.pending.owner.on_failed(error)

    def refuse(self, error: OSError | None = None) -> NoReturn:
        cause = error or self.failed
        raise errors.KafkaStorageError(f"{self.folder}: {cause}") from cause

    @contextmanager
    def writing(self) -> Iterator[None]:
        """An OSError in here leaves us not knowing what is on disk."""
        try:
            yield
        except OSError as error:
            self.fail(error)
            self.refuse(error)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """An OSError in here changes nothing, so a full disk or a lack of file handles does not fail the log."""
        try:
            yield
        except OSError as error:
            if not is_shortage(error):
                self.fail(error)
            self.refuse(error)
