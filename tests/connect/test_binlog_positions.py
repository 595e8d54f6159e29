"""Files of the binary log that are longer than the 4 GiB which a header, or a request, can count."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.connect.mysql import binlog, stream
from ottla.connect.mysql.progress import Place
from ottla.connect.mysql.transactions import Transactions
from ottla.connect.spi import Limit

GIB = 2**30
FILE, NEXT = "log.000001", "log.000002"


def packet(kind: int, end_pos: int, body: bytes = b"") -> bytes:
    return binlog.HEADER.pack(1, kind, 1, binlog.HEADER.size + len(body), end_pos % 2**32, 0) + body


def rotate(file: str, end_pos: int = 0) -> bytes:
    return packet(binlog.ROTATE, end_pos, struct.pack("<Q", 4) + file.encode())


DESCRIPTION = packet(binlog.FORMAT, 256, bytes(5))  # events without checksums


def begin(number: int, end_pos: int) -> bytes:
    return packet(binlog.MARIADB_GTID, end_pos, struct.pack("<QIB", number, 0, 0))


class Server:
    """A connection to a server that sends these events, and notes from where they are asked for."""

    def __init__(self, *packets: bytes) -> None:
        self._packets = list(packets)
        self.asked: list[tuple[int, str]] = []

    def cursor(self) -> Any:
        return nullcontext(SimpleNamespace(execute=lambda statement: None))

    def _execute_command(self, command: int, data: bytes) -> None:
        self.asked.append((struct.unpack_from("<I", data)[0], data[10:].decode()))

    def _read_packet(self) -> Any:
        data = self._packets.pop(0) if self._packets else None
        return SimpleNamespace(is_eof_packet=lambda: data is None, get_all_data=lambda: b"\0" + (data or b""))


def read(server: Server, pos: int) -> tuple[list[tuple[int, int]], Place]:
    """Types and ends of the events, and the place behind them."""
    taken = Transactions(Place.at(FILE, pos), 0, Limit())
    config: Any = {"database.server.id": 7}
    shown = []
    for header, event in stream._events(server, config, taken, is_mariadb=True):
        shown.append((header.type, header.end_pos))
        taken.take(header, event)
    return shown, taken.place


GIANT = (begin(1, 1000), *(packet(99, GIB * n) for n in range(1, 5)), packet(binlog.XID, 4 * GIB + 500))


def test_a_place_behind_4_gib_is_looked_for_from_the_begin_of_its_file():
    tail = begin(2, 4 * GIB + 600), packet(binlog.XID, 4 * GIB + 700)
    server = Server(rotate(FILE), DESCRIPTION, *GIANT, *tail)
    shown, place = read(server, 4 * GIB + 500)
    assert server.asked == [(4, FILE)]
    assert shown[2:] == [(binlog.MARIADB_GTID, 4 * GIB + 600), (binlog.XID, 4 * GIB + 700)]
    assert place == Place.at(FILE, 4 * GIB + 700)


def test_positions_go_on_where_a_transaction_passes_4_gib():
    server = Server(rotate(FILE), DESCRIPTION, *GIANT)
    _, place = read(server, 400)
    assert server.asked == [(400, FILE)]
    assert place == Place.at(FILE, 4 * GIB + 500)


@pytest.mark.parametrize("pos", [400, 4 * GIB + 500])
def test_the_next_file_begins_at_its_first_position(pos):
    after = rotate(NEXT, 4 * GIB + 550), rotate(NEXT), DESCRIPTION, begin(2, 300), packet(binlog.XID, 400)
    shown, place = read(Server(rotate(FILE), DESCRIPTION, *GIANT, *after), pos)
    assert shown[-2:] == [(binlog.MARIADB_GTID, 300), (binlog.XID, 400)]
    assert place == Place.at(NEXT, 400)
