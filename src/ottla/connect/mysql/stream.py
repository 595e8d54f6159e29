"""Connections to the server: for statements, and for the events of its binary log."""

from __future__ import annotations

import secrets
import ssl
import struct
from collections.abc import Iterator
from typing import Any

import pymysql  # type: ignore[import-untyped,import-not-found,unused-ignore]
from pymysql.constants import COMMAND  # type: ignore[import-untyped,unused-ignore]

from ottla.connect.errors import ConfigError, ConnectError, RetriableError
from ottla.connect.mysql import binlog
from ottla.connect.mysql.binlog import Checksums, Event, Header, Positions, Rotate
from ottla.connect.mysql.progress import Place
from ottla.connect.mysql.transactions import Transactions
from ottla.connect.spi import Config

_NO_WAIT = 1  # the server ends the stream where its log ends
_LOG_GONE = (
    1236  # "could not find first log file name", "impossible position", "truncated in the middle of event"
)
_REFUSED = frozenset({1044, 1045, 1142, 1227})
_HEADER = binlog.HEADER
_SESSION = "SET time_zone = '+00:00', sql_mode = '', lock_wait_timeout = {seconds}, net_write_timeout = 600"


class LogTruncated(ConnectError):
    """The file ends in the middle of an event: the server was killed, and has begun another file."""


def connect(config: Config) -> Any:
    """Values come as the server writes them, times in UTC."""
    connection = pymysql.connect(
        host=config["database.hostname"],
        port=config["database.port"],
        user=config["database.user"],
        password=config.password("database.password") or "",
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=10,
        read_timeout=600,
        ssl=_ssl(config),
        conv={},
        program_name="ottla connect",
    )
    with connection.cursor() as cursor:
        seconds = max(1, config["snapshot.lock.timeout.ms"] // 1000)
        cursor.execute(_SESSION.format(seconds=seconds))
    return connection


def _ssl(config: Config) -> ssl.SSLContext | None:
    mode = config["database.ssl.mode"]
    if mode == "disabled":
        return None
    context = ssl.create_default_context(cafile=config["database.ssl.ca"])
    context.check_hostname = mode == "verify_identity"
    if mode == "required":
        context.verify_mode = ssl.CERT_NONE
    if config["database.ssl.cert"]:
        context.load_cert_chain(config["database.ssl.cert"], config["database.ssl.key"])
    return context


def read_log(config: Config, into: Transactions, *, is_mariadb: bool) -> bool:
    """Gives events from the place that `into` stands at, until it is full (False) or the log ends (True)."""
    connection = connect(config)
    try:
        for header, event in _events(connection, config, into, is_mariadb=is_mariadb):
            into.take(header, event)
            if into.is_full:
                return False
        into.end()
        return True
    finally:
        connection.close()


def _events(
    connection: Any, config: Config, into: Transactions, *, is_mariadb: bool
) -> Iterator[tuple[Header, Event | None]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SET @master_binlog_checksum = @@global.binlog_checksum"
        )  # else they are refused, not left out
        cursor.execute("SET @mariadb_slave_capability = 4")
    checksums = Checksums()
    place = into.place
    positions = Positions(place.pos)
    server_id = config["database.server.id"] or 2**31 + secrets.randbelow(2**30)
    command = struct.pack("<IHI", positions.asked, _NO_WAIT, server_id) + place.file.encode()
    connection._execute_command(COMMAND.COM_BINLOG_DUMP, command)
    while True:
        packet = connection._read_packet()
        if packet.is_eof_packet():
            return
        data = packet.get_all_data()[1:]
        header = positions.whole(Header(*_HEADER.unpack_from(data)))
        body = checksums.body(header, data)
        if positions.is_before(header):
            continue
        is_wanted = header.type in _DECODED and into.is_wanted(header)
        event = binlog.decode(header, body, is_mariadb=is_mariadb) if is_wanted else None
        if isinstance(event, Rotate) and event.file != into.place.file:
            positions.file_begins(event.pos)
        yield header, event


_DECODED = binlog.ROWS | {
    binlog.TABLE_MAP, binlog.XID, binlog.MARIADB_GTID, binlog.GTID, binlog.ANONYMOUS_GTID, binlog.QUERY,
    binlog.QUERY_COMPRESSED, binlog.ROTATE,
}  # fmt: skip


def translated(error: pymysql.MySQLError, config: Config, place: Place | None) -> ConnectError:
    where = f"the server at {config['database.hostname']}:{config['database.port']}"
    code = error.args[0] if error.args else None
    text = " ".join(str(part) for part in error.args[1:])
    if code == _LOG_GONE and "truncated" in text:
        return LogTruncated(text)
    if code == _LOG_GONE:
        at = f" since {place.file}:{place.pos}" if place else ""
        return ConfigError(
            f"{where} does not have the changes{at} any more: {text}; remove the connector's offsets to take a new"
            " snapshot, and let the server keep its log longer (expire_logs_days)"
        )
    if code in _REFUSED:
        return ConfigError(
            f"{where} refuses: {text}; database.user needs REPLICATION SLAVE, BINLOG MONITOR (MySQL: REPLICATION"
            " CLIENT) and SELECT on the tables"
        )
    return RetriableError(f"{where}: {text or error}")
