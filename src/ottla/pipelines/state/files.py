"""The stores of one stream task with what they belong to: a token, and a changelog position for each store.

A step changes the stores between `begin` and `commit`. State that is found in between, because its process died, is
discarded, and the changelog is read from its start. Commit after the transaction's end: only then is the content what
the token says.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ottla.pipelines.state.header import CLEAN, DIRTY, SYNCED, Header, why_unusable
from ottla.pipelines.state.places import FolderPlace, MemoryPlace, Place
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore

LOCK_WAIT_S = 5.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class TaskFiles:
    """`folder` holds the mapped files; None keeps the stores in this process's memory.

    `identity` says what the content depends on besides the specs: cluster id and topic ids. Everything but construction
    happens inside `with files.locked()`. Another process that keeps the lock for long gets its way: the stores are then
    `private`, in memory, and begin empty.
    """

    def __init__(
        self,
        folder: str | Path | None,
        specs: Iterable[StoreSpec],
        identity: str,
        *,
        lock_wait_s: float = LOCK_WAIT_S,
        boot: str | None = None,
    ) -> None:
        self._specs = {spec.name: spec for spec in sorted(specs, key=lambda spec: spec.name)}
        self._identity = "\n".join([identity, *(spec.signature() for spec in self._specs.values())])
        self._boot = boot if boot is not None else boot_id()
        self._shared = FolderPlace(Path(folder)) if folder is not None else None
        self._lock_wait_s = lock_wait_s
        self._private = MemoryPlace()
        self._place: Place = self._private
        self._header: Header | None = None
        self._stores: dict[str, KeyedStore] = {}
        self._stores_of: Place | None = None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """No other process changes the files in the meantime. Stores may be other objects than the last time."""
        shared = self._shared
        if shared is None or not shared.lock(self._lock_wait_s):
            self._enter(self._private)
            yield
            return
        try:
            self._private = MemoryPlace()
            self._enter(shared)
            yield
        finally:
            shared.unlock()

    @property
    def is_private(self) -> bool:
        """Whether the stores are in this process's memory."""
        return self._place is self._private

    @property
    def token(self) -> bytes:
        """Of the step that was committed last; empty for new stores."""
        return self._header.token if self._header is not None else b""

    @property
    def positions(self) -> Mapping[str, int]:
        """Up to where the content of each store was in its changelog at the last commit."""
        return self._header.positions if self._header is not None else {}

    @property
    def stores(self) -> dict[str, KeyedStore]:
        if self._stores_of is not self._place or not self._place.is_current():
            self._stores = {
                name: KeyedStore(spec, self._place.arrays(name)) for name, spec in self._specs.items()
            }
            self._stores_of = self._place
        return self._stores

    # -- whether to go on with what is stored --------------------------------------------------------

    def is_usable(self, now_ms: int, delete_retention_ms: int, committed: bytes = b"") -> bool:
        return self.why_unusable(now_ms, delete_retention_ms, committed) is None

    def why_unusable(self, now_ms: int, delete_retention_ms: int, committed: bytes = b"") -> str | None:
        """Why the content must be discarded, or None: then it is what `token` and `positions` say.

        State with the `committed` token is good at any age; any other must still find all deletions in the changelog.
        """
        return why_unusable(
            self._header,
            identity=self._identity,
            boot=self._boot,
            sizes=self._place.sizes(),
            now_ms=now_ms,
            delete_retention_ms=delete_retention_ms,
            committed=committed,
        )

    # -- changing it -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Before the first change. A process that dies from here on leaves state that nobody uses."""
        if self._header is None:
            raise RuntimeError("there is no state to change yet; discard() makes an empty one")
        if self._header.mark != DIRTY:
            # The disk must know before it can have any of the changes, if it was told that it has everything.
            self._place.mark(DIRTY, synced=self._header.mark == SYNCED)
            self._header = _marked(self._header, DIRTY)

    def commit(self, token: bytes, positions: Mapping[str, int], now_ms: int | None = None) -> None:
        """The content is what the step of this token committed. Call it after the end of the transaction."""
        header = Header(
            self._identity,
            self._boot,
            token,
            dict(positions),
            int(time.time() * 1000) if now_ms is None else now_ms,
            self._place.sizes(),
        )
        self._place.write(header)
        self._place.mark(CLEAN, synced=False)
        self._header = _marked(header, CLEAN)

    def sync(self) -> None:
        """After a commit: puts everything on the disk, so that it is good after a loss of power too."""
        if self._header is None or self._header.mark == DIRTY:
            raise RuntimeError("state that is being changed cannot be synced; commit() it first")
        self._place.sync()
        self._place.mark(SYNCED, synced=True)
        self._header = _marked(self._header, SYNCED)

    def discard(self) -> None:
        """Empty stores without token or positions, as dirty as any that were begun."""
        self._header = Header(self._identity, self._boot)
        self._place.write(self._header)
        self._place.mark(
            DIRTY, synced=True
        )  # before a file is gone: the disk may have a header that it may trust
        self._place.wipe(self._specs)
        self._stores_of = None

    def clear(self, store: str) -> None:
        """One empty store without position; the others stay."""
        self.begin()
        assert self._header is not None
        positions = {name: at for name, at in self._header.positions.items() if name != store}
        self._header = Header(**{**self._header.__dict__, "positions": positions})
        self._place.wipe([store])
        self._stores[store] = KeyedStore(self._specs[store], self._place.arrays(store))

    def close(self) -> None:
        """Gives the mappings and the memory back."""
        self._stores, self._stores_of = {}, None
        self._place = self._private = MemoryPlace()
        if self._shared is not None:
            self._shared.close()

    def _enter(self, place: Place) -> None:
        self._place = place
        self._header = place.read()


def boot_id() -> str:
    """Another one after each start of the machine; where there is none, files are good for one process."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return f"{time.time_ns()}"


def _marked(header: Header, mark: int) -> Header:
    return Header(**{**header.__dict__, "mark": mark})
