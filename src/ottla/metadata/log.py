"""The port of the metadata log: one ordered list of entries, one writer at a time.

A writer appends at the position it has read up to, under the controller epoch it holds. A writer that was
deposed or has not read everything is refused: that is the whole fencing. Every implementation (local journal,
in-process, ZooKeeper) delivers entries to its listener in order and passes the same tests.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ottla.errors import OttlaError
from ottla.metadata.records import Record

ENTRY_MAX_BYTES = 512 << 10


class AppendFailed(OttlaError):
    """The entry was not acknowledged."""


class Refused(AppendFailed):
    """The entry is not in the log and will not be."""


class Deposed(Refused):
    """Somebody else holds the lease, under a later epoch, or the session is over."""


class Outrun(Refused):
    """Another entry has the position: read it and decide again."""


class TooLarge(Refused):
    """More than one entry can hold."""


class DiskFailed(Refused):
    """It could not be written; what was half written is taken back."""


class Unavailable(AppendFailed):
    """The log cannot be reached. The entry may be there: who reads on will see."""


Done = Callable[[AppendFailed | None], None]
"""None once the entry is committed and delivered; else why that is not known."""


class Listener(Protocol):
    def on_snapshot(self, position: int, records: Sequence[Record]) -> None:
        """Everything before `position`, for a reader that starts or has fallen behind what was trimmed."""
        ...

    def on_entry(self, position: int, records: Sequence[Record]) -> None: ...

    def on_lease(self, holder: int | None, epoch: int) -> None:
        """Who is the controller now, under which epoch."""
        ...

    def on_members(self, members: Mapping[int, bytes]) -> None:
        """Brokers with a living session and what they registered."""
        ...

    def on_session_lost(self) -> None:
        """Registration and lease are gone; `open` again."""
        ...


class MetadataLog(Protocol):
    def open(self, listener: Listener, position: int = 0) -> None:
        """Begin to deliver from `position` on: the snapshot if older entries are gone, the entries, who
        holds the lease (the sign that all entries there were have been told), who is there; and whatever
        comes."""
        ...

    def register(self, broker_id: int, registration: bytes) -> None:
        """Be a member for as long as the session lives."""
        ...

    def claim(self, broker_id: int, over: int | None = None) -> None:
        """Ask for the controller's lease, unless it is held; `on_lease` tells who got it.

        A lease under the epoch `over` is taken from its holder, who is believed dead: if it is not, the new
        epoch keeps it from writing.
        """
        ...

    def resign(self) -> None:
        """Give the lease back."""
        ...

    def append(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None: ...

    def snapshot(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        """Keep `records` in place of all entries before `position`; those may be trimmed."""
        ...

    def catch_up(self, done: Callable[[], None]) -> None:
        """`done` once everything is delivered that was committed before; at once while out of reach."""
        ...

    def close(self) -> None: ...
