"""A frame in pieces: large payloads keep their own buffers instead of being copied into it."""

from ottla.ports import Buffer

SPLICE_BYTES_MIN = 16 << 10  # below that a copy is cheaper than a buffer of its own


class Pieces:
    """Records in several buffers. Such can be spliced into a `Gather`, and nothing else."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: list[Buffer]) -> None:
        self.buffers = buffers
        self._size = sum(map(len, buffers))

    def __len__(self) -> int:
        return self._size


class Gather(bytearray):
    """A frame in which large payloads are only noted, not copied: `buffers` has them in their places."""

    def __init__(self, start: Buffer = b"") -> None:
        super().__init__(start)
        self._splices: list[tuple[int, Buffer | Pieces]] = []

    def splice(self, payload: Buffer | Pieces) -> None:
        self._splices.append((len(self), payload))

    @property
    def spliced_bytes(self) -> int:
        return sum(len(payload) for _, payload in self._splices)

    def buffers(self) -> list[Buffer]:
        if not self._splices:
            return [self]
        view = memoryview(self)
        parts: list[Buffer] = []
        position = 0
        for at, payload in self._splices:
            parts.append(view[position:at])
            parts += payload.buffers if isinstance(payload, Pieces) else [payload]
            position = at
        return [*parts, view[position:]]
