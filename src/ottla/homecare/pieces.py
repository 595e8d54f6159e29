"""Values larger than a record may be, in pieces: one under the key itself, the rest under the key and a number.

The first piece tells how many follow. A value that shrinks leaves pieces behind; nobody asks for them any more.
"""

from collections.abc import Iterable, Mapping

PIECE_BYTES = 512 * 1024  # well below the usual `max.message.bytes`
_COUNT_BYTES = 4
_MARK = "\0"  # is in no key


def split(values: Iterable[tuple[str, bytes]], piece_bytes: int = PIECE_BYTES) -> dict[str, bytes]:
    """As they are written."""
    found: dict[str, bytes] = {}
    for key, value in values:
        more = range(piece_bytes, len(value), piece_bytes)
        found[key] = len(more).to_bytes(_COUNT_BYTES) + value[:piece_bytes]
        for number, at in enumerate(more):
            found[f"{key}{_MARK}{number}"] = value[at : at + piece_bytes]
    return found


def join(found: Mapping[str, bytes]) -> dict[str, bytes]:
    """What `split` was given, from the latest record of each key."""
    return {
        key: b"".join(
            [
                first[_COUNT_BYTES:],
                *(found[f"{key}{_MARK}{n}"] for n in range(int.from_bytes(first[:_COUNT_BYTES]))),
            ]
        )
        for key, first in found.items()
        if _MARK not in key
    }
