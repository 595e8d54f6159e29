"""The newest offset of every key in the dirty part of a log, within a bound on memory."""

from hashlib import blake2b

# What one entry costs, measured: 132 bytes at the worst, and what the allocator loses.
ENTRY_BYTES = 150
_DIGEST_BYTES = 16
_SHARDS = 256  # a power of two


class KeyMap:
    """Keys as 16-byte digests, shorter keys as they are (their length tells them from a digest).

    Two keys with one digest would be taken for the same; at 128 bits that does not happen, and Kafka relies
    on it as well. Many small dicts instead of one: growing a large one would hold up the event loop.
    """

    __slots__ = ("_shards", "_size", "keys_max", "latest_offset")

    def __init__(self, bytes_max: int) -> None:
        self.keys_max = max(1, bytes_max // ENTRY_BYTES)
        self.latest_offset = -1  # everything up to here is in the map
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def is_full(self) -> bool:
        return self._size >= self.keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Offsets come in rising order, so the last one is the newest."""
        if len(key) >= _DIGEST_BYTES:
            key = _digest(key)
        shard = self._shards[hash(key) & (_SHARDS - 1)]
        before = len(shard)
        shard[key] = offset
        self._size += len(shard) - before

    def offset_of(self, key: bytes) -> int:
        """-1 for a key that the dirty part does not have."""
        if len(key) >= _DIGEST_BYTES:
            key = _digest(key)
        return self._shards[hash(key) & (_SHARDS - 1)].get(key, -1)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
