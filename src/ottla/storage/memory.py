"""A disk in memory: for `--memory`, and for tests that crash, tear and fill it.

With `track_sync` it remembers what was synced, and names are durable only after `sync_folder`, so that
`crash` can take everything else away. Renaming a folder counts as durable at once.
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from ottla.ports import Buffer


def _no_time() -> int:
    return 0


def _nothing(path: str, unsynced_bytes: int) -> None:
    return None


@dataclass(slots=True)
class Fault:
    """The n-th call of an operation from now on fails, and all after it until `clear_faults`.

    `partial` bytes of a failing append are written all the same and stay: the disk did not let us cut them.
    """

    operation: str
    error: OSError
    after: int = 0
    times: int | None = None
    partial: int = 0
    path_part: str = ""


@dataclass(slots=True, eq=False)
class _Node:
    """The contents of a file; `clean_up_to` is the first byte that may differ from `synced`."""

    data: bytearray = dataclass_field(default_factory=bytearray)
    synced: bytearray = dataclass_field(default_factory=bytearray)
    clean_up_to: int = 0
    modified_ms: int = 0


class MemoryDisk:
    def __init__(
        self,
        *,
        capacity_bytes: int | None = None,
        track_sync: bool = True,
        now_ms: Callable[[], int] = _no_time,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.track_sync = track_sync
        self.faults: list[Fault] = []
        self.last_append: tuple[str, int, int] | None = None  # path, position, bytes
        self.syncs = 0
        self.open_files = 0
        self.now_ms = now_ms
        self.used_bytes = 0
        self._nodes: dict[str, _Node] = {}
        self._folders: set[str] = {""}
        self._names: dict[str, set[str]] = {}  # folder -> names in it, so that `list` stays quick
        self._durable_nodes: dict[str, _Node] = {}
        self._durable_folders: set[str] = {""}

    # The Disk port.

    def open(self, path: str, *, create: bool = False) -> "MemoryFile":
        self.check_fault("open", path)
        node = self._nodes.get(path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            node = self._new_node(path)
        self.open_files += 1
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return path in self._nodes or path in self._folders

    def list(self, folder: str) -> list[str]:
        self.check_fault("list", folder)
        return sorted(self._names.get(folder, ()))

    def size(self, path: str) -> int:
        return len(self._node(path).data)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def make_folder(self, path: str) -> None:
        self.check_fault("make_folder", path)
        while path and path not in self._folders:
            self._folders.add(path)
            self._add_name(path)
            path = _parent(path)

    def rename(self, old: str, new: str) -> None:
        self.check_fault("rename", old)
        if old in self._folders:
            self._rename_folder(old, new)
            return
        node = self._node(old)
        replaced = self._nodes.get(new)
        if replaced is not None and replaced is not node:
            self.used_bytes -= len(replaced.data)
        del self._nodes[old]
        self._drop_name(old)
        self._nodes[new] = node
        self._add_name(new)

    def remove(self, path: str) -> None:
        self.check_fault("remove", path)
        if path in self._nodes:
            self.used_bytes -= len(self._nodes.pop(path).data)
        elif path in self._folders:
            for name in list(self._names.get(path, ())):
                self.remove(f"{path}/{name}")
            self._folders.discard(path)
            self._names.pop(path, None)
        else:
            return
        self._drop_name(path)

    def read_whole(self, path: str) -> bytes:
        self.check_fault("read", path)
        return bytes(self._node(path).data)

    def write_whole(self, path: str, data: Buffer) -> None:
        self.check_fault("write_whole", path)
        old = self._nodes.pop(path, None)
        if old is not None:
            self.used_bytes -= len(old.data)
        node = self._new_node(path)
        self.reserve(len(data), path)
        node.data += data
        if self.track_sync:
            node.synced = bytearray(node.data)
            node.clean_up_to = len(node.data)
            self._durable_nodes[path] = node

    def sync_folder(self, path: str) -> None:
        self.check_fault("sync_folder", path)
        if not self.track_sync:
            return
        durable = self._durable_nodes
        for gone in [name for name in durable if _parent(name) == path and name not in self._nodes]:
            del durable[gone]
        for name in self._names.get(path, ()):
            full = f"{path}/{name}" if path else name
            if full in self._nodes:
                durable[full] = self._nodes[full]
        self._durable_folders = {
            folder for folder in self._durable_folders if _parent(folder) != path or folder == ""
        }
        self._durable_folders.update(folder for folder in self._folders if _parent(folder) == path)

    def total_bytes(self) -> int:
        return self.used_bytes + self.free_bytes()

    def free_bytes(self) -> int:
        return (1 << 62) if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes)

    # What tests do to it.

    def fail(
        self,
        operation: str,
        error: OSError | None = None,
        *,
        after: int = 0,
        times: int | None = None,
        partial: int = 0,
        path_part: str = "",
    ) -> None:
        """`operation` is a method of Disk or File; by default EIO, at once and for ever."""
        chosen = error or OSError(errno.EIO, "simulated failure")
        self.faults.append(Fault(operation, chosen, after, times, partial, path_part))

    def clear_faults(self) -> None:
        self.faults.clear()

    def crash(
        self, *, lose_unsynced: bool = True, survives: Callable[[str, int], int | None] = _nothing
    ) -> None:
        """The machine stops: names and bytes that were not synced are gone. Open files are stale afterwards.

        With `lose_unsynced=False` only the process stops: the page cache survives. `survives` is asked for
        each file how many of its unsynced bytes made it to the disk all the same; None: not even its name.
        """
        self.clear_faults()
        self.open_files = 0
        if lose_unsynced:
            self._let_survive(survives)
            self._folders = {folder for folder in self._durable_folders if self._is_durable(folder)}
            self._nodes = {
                path: node for path, node in self._durable_nodes.items() if _parent(path) in self._folders
            }
            self._durable_nodes = dict(self._nodes)
            for node in self._nodes.values():
                node.data = bytearray(node.synced)
                node.clean_up_to = len(node.data)
        # New nodes, so that a write through a stale file never reaches the disk again.
        self._take_copies(self)

    def tear(self, path: str, at: int, then: bytes = b"") -> None:
        """Cut a file at a byte, with garbage behind it if asked for."""
        node = self._node(path)
        self.used_bytes += at + len(then) - len(node.data)
        del node.data[at:]
        node.data += then
        node.clean_up_to = min(node.clean_up_to, at)

    def tear_last_append(self, kept_bytes: int, then: bytes = b"") -> None:
        """Of the last append only so many bytes reached the disk."""
        assert self.last_append is not None, "nothing was appended"
        path, position, _ = self.last_append
        self.tear(path, position + kept_bytes, then)

    def copy(self) -> "MemoryDisk":
        """The same contents, on a disk of its own: one crash after another from one state."""
        twin = MemoryDisk(capacity_bytes=self.capacity_bytes, track_sync=self.track_sync, now_ms=self.now_ms)
        twin._folders = set(self._folders)
        twin._durable_folders = set(self._durable_folders)
        twin._take_copies(self)
        twin.last_append = self.last_append
        return twin

    # For its files.

    def check_fault(self, operation: str, path: str) -> Fault | None:
        """Raises what is due; a failing append is handed back, as part of it may be written first."""
        if not self.faults:
            return None
        for fault in self.faults:
            if fault.operation != operation or fault.path_part not in path:
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            if fault.times is not None:
                if fault.times == 0:
                    continue
                fault.times -= 1
            if fault.partial and operation == "append":
                return fault
            raise OSError(fault.error.errno, fault.error.strerror, path)
        return None

    def reserve(self, size: int, path: str) -> None:
        if self.capacity_bytes is not None and self.used_bytes + size > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        self.used_bytes += size

    def _node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _new_node(self, path: str) -> _Node:
        if _parent(path) not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        node = self._nodes[path] = _Node(modified_ms=self.now_ms())
        self._add_name(path)
        return node

    def _take_copies(self, of: "MemoryDisk") -> None:
        copies = {
            id(node): _Node(bytearray(node.data), bytearray(node.synced), node.clean_up_to, node.modified_ms)
            for node in (*of._nodes.values(), *of._durable_nodes.values())
        }
        self._nodes, self._durable_nodes = (
            {path: copies[id(node)] for path, node in names.items()}
            for names in (of._nodes, of._durable_nodes)
        )
        self.used_bytes = sum(len(node.data) for node in self._nodes.values())
        self._list_names()

    def _list_names(self) -> None:
        self._names = {}
        for path in (*self._nodes, *self._folders):
            if path:
                self._add_name(path)

    def _add_name(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self._names.setdefault(folder, set()).add(name)

    def _drop_name(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self._names.get(folder, set()).discard(name)

    def _let_survive(self, survives: Callable[[str, int], int | None]) -> None:
        for path, node in self._nodes.items():
            kept = survives(path, len(node.data) - node.clean_up_to)
            if kept is None:
                continue
            self._durable_nodes[path] = node
            while path := _parent(path):
                self._durable_folders.add(path)
            if kept:
                node.synced[node.clean_up_to :] = node.data[node.clean_up_to : node.clean_up_to + kept]

    def _rename_folder(self, old: str, new: str) -> None:
        for names in (self._nodes, self._durable_nodes):
            for path in [path for path in names if path.startswith(old + "/")]:
                names[new + path[len(old) :]] = names.pop(path)
        for folders in (self._folders, self._durable_folders):
            for path in [path for path in folders if path == old or path.startswith(old + "/")]:
                folders.discard(path)
                folders.add(new + path[len(old) :])
        self._list_names()

    def _is_durable(self, folder: str) -> bool:
        while folder:
            if folder not in self._durable_folders:
                return False
            folder = _parent(folder)
        return True


class MemoryFile:
    __slots__ = ("_closed", "_disk", "_node", "path")

    def __init__(self, disk: MemoryDisk, path: str, node: _Node) -> None:
        self._disk = disk
        self._node = node
        self._closed = False
        self.path = path

    def size(self) -> int:
        return len(self._node.data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        disk, data = self._disk, self._node.data
        self._check_open()
        fault = disk.check_fault("append", self.path) if disk.faults else None
        position = len(data)
        if fault is not None:
            disk.reserve(fault.partial, self.path)
            data += b"".join(buffers)[: fault.partial]
            raise OSError(fault.error.errno, fault.error.strerror, self.path)
        size = 0
        for buffer in buffers:
            size += len(buffer)
        disk.reserve(size, self.path)
        for buffer in buffers:
            data += buffer
        disk.last_append = (self.path, position, size)
        self._node.modified_ms = disk.now_ms()
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        self._check_open()
        self._disk.check_fault("write_at", self.path)
        contents = self._node.data
        grown = position + len(data) - len(contents)
        if grown > 0:
            self._disk.reserve(grown, self.path)
            contents += bytes(grown)
        contents[position : position + len(data)] = data
        self._node.clean_up_to = min(self._node.clean_up_to, position)
        self._node.modified_ms = self._disk.now_ms()

    def read(self, position: int, length: int) -> bytes:
        self._check_open()
        if self._disk.faults:
            self._disk.check_fault("read", self.path)
        with memoryview(self._node.data) as view:
            return bytes(view[position : position + length])

    def read_into(self, position: int, view: memoryview) -> int:
        data = self.read(position, len(view))
        view[: len(data)] = data
        return len(data)

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.check_fault("truncate", self.path)
        data = self._node.data
        self._disk.used_bytes += size - len(data)
        if size > len(data):
            data += bytes(size - len(data))
        else:
            del data[size:]
        self._node.clean_up_to = min(self._node.clean_up_to, size)
        self._node.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        self._check_open()
        self._disk.check_fault("sync", self.path)
        self._disk.syncs += 1
        if self._disk.track_sync:
            node = self._node
            node.synced[node.clean_up_to :] = node.data[node.clean_up_to :]
            node.clean_up_to = len(node.data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disk.open_files -= 1

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed", self.path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
