"""Kafka's primitive types, as the records of the coordinators need them. Broken bytes raise ValueError."""

import struct
from collections.abc import Mapping

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class Writer:
    """Appends fields; every method returns the writer itself."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def done(self) -> bytes:
        return bytes(self._data)

    def raw(self, data: bytes) -> "Writer":
        self._data += data
        return self

    def int8(self, value: int) -> "Writer":
        return self.raw(_INT8.pack(value))

    def int16(self, value: int) -> "Writer":
        return self.raw(_INT16.pack(value))

    def int32(self, value: int) -> "Writer":
        return self.raw(_INT32.pack(value))

    def int64(self, value: int) -> "Writer":
        return self.raw(_INT64.pack(value))

    def varint(self, value: int) -> "Writer":
        while value > 0x7F:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)
        return self

    def string(self, value: str) -> "Writer":
        data = value.encode()
        return self.int16(len(data)).raw(data)

    def nullable_string(self, value: str | None) -> "Writer":
        return self.int16(-1) if value is None else self.string(value)

    def blob(self, value: bytes) -> "Writer":
        return self.int32(len(value)).raw(value)

    def compact_count(self, count: int) -> "Writer":
        return self.varint(count + 1)

    def compact_bytes(self, value: bytes) -> "Writer":
        return self.varint(len(value) + 1).raw(value)

    def compact_string(self, value: str) -> "Writer":
        return self.compact_bytes(value.encode())

    def compact_nullable_string(self, value: str | None) -> "Writer":
        return self.varint(0) if value is None else self.compact_string(value)

    def tags(self, tags: Mapping[int, bytes]) -> "Writer":
        self.varint(len(tags))
        for number, data in sorted(tags.items()):
            self.varint(number).compact_tag(data)
        return self

    def compact_tag(self, data: bytes) -> "Writer":
        return self.varint(len(data)).raw(data)


class Reader:
    """Takes fields off the front. `flexible` chooses between the two spellings of text(), blob(), count()."""

    __slots__ = ("_data", "_position", "flexible")

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = memoryview(data)
        self._position = 0
        self.flexible = flexible

    def raw(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if length < 0 or self._position > len(self._data):
            raise ValueError(f"{length} bytes asked for at {start} of {len(self._data)}")
        return bytes(self._data[start : self._position])

    def int8(self) -> int:
        return int(_INT8.unpack(self.raw(1))[0])

    def int16(self) -> int:
        return int(_INT16.unpack(self.raw(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.raw(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self.raw(8))[0])

    def varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7
        raise ValueError("a variable-length integer without an end")

    def string(self) -> str:
        return self.raw(self.int16()).decode()

    def compact_string(self) -> str:
        return self.raw(self.varint() - 1).decode()

    def text(self) -> str:
        return self.compact_string() if self.flexible else self.string()

    def nullable_text(self) -> str | None:
        length = self.varint() - 1 if self.flexible else self.int16()
        return None if length < 0 else self.raw(length).decode()

    def blob(self) -> bytes:
        return self.raw(self.varint() - 1 if self.flexible else self.int32())

    def count(self) -> int:
        """The length of an array; null counts as empty. Each element takes a byte at least."""
        count = self.varint() - 1 if self.flexible else self.int32()
        if count > len(self._data) - self._position:
            raise ValueError(f"an array of {count} in {len(self._data) - self._position} bytes")
        return max(count, 0)

    def tags(self) -> dict[int, bytes]:
        tags = {}
        for _ in range(self.varint()):
            number = self.varint()
            tags[number] = self.raw(self.varint())
        return tags
