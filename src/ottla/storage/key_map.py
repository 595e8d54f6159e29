"""The newest offset of every key in the dirty part of a log, within a bound on memory."""

from hashlib import blake2b

# What one entry costs in a dict of bytes to int, measured at its worst (just after the table has grown).
ENTRY_BYTES = 200
_DIGEST_BYTES = 16


class KeyMap:
    """Keys as 16-byte digests, shorter keys as they are (their length tells them from a digest).

    Two keys with one digest would be taken for the same; at 128 bits that does not happen, and Kafka relies
    on it as well.
    """

    __slots__ = ("_offsets", "keys_max", "latest_offset")

    def __init__(self, bytes_max: int) -> None:
        self.keys_max = max(1, bytes_max // ENTRY_BYTES)
        self.latest_offset = -1  # everything up to here is in the map
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Offsets come in rising order, so the last one is the newest."""
        self._offsets[key if len(key) < _DIGEST_BYTES else _digest(key)] = offset

    def offset_of(self, key: bytes) -> int:
        """-1 for a key that the dirty part does not have."""
        return self._offsets.get(key if len(key) < _DIGEST_BYTES else _digest(key), -1)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
