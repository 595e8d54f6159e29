"""The bytes of ZooKeeper's protocol: requests out, replies in. Only what a metadata log needs."""

import struct
from enum import IntEnum

from ottla.errors import OttlaError
from ottla.frozen import frozen

_INT, _LONG, _BOOL = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">?")
_HEADER = struct.Struct(">ii")
_REPLY = struct.Struct(">iqi")
_STAT = struct.Struct(">qqqqiiiqiiq")
_MULTI = struct.Struct(">i?i")
_MULTI_END = _MULTI.pack(-1, True, -1)

PING_XID, AUTH_XID, EVENT_XID = -2, -4, -1
EPHEMERAL = 1
RECURSIVE = 1
ALL_PERMISSIONS = 31
ANY_VERSION = -1


class Op(IntEnum):
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET = 4
    SET = 5
    CHILDREN = 8
    SYNC = 9
    PING = 11
    CHECK = 13
    MULTI = 14
    MULTI_READ = 22
    AUTH = 100
    SASL = 102
    ADD_WATCH = 106
    CLOSE = -11
    ERROR = -1


class Code(IntEnum):
    INCONSISTENT = -2  # this part of a multi was not tried, as another one failed
    CONNECTION_LOSS = -4
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    AUTH_FAILED = -115


class ZooKeeperError(OttlaError):
    """A request was refused; `codes` of a multi tell which part."""

    def __init__(self, code: int, codes: tuple[int, ...] = ()) -> None:
        self.code, self.codes = code, codes or (code,)
        super().__init__(f"ZooKeeper refused: {_name(code)} {tuple(map(_name, codes)) if codes else ''}")


class Disconnected(OttlaError):
    """There is no connection, or it broke before the answer: the outcome of the request is unknown."""


@frozen
class Node:
    """A znode's data, and of its stat what we use."""

    data: bytes
    version: int
    owner: int  # the session of an ephemeral one, else 0


@frozen
class Connected:
    timeout_ms: int
    session_id: int
    password: bytes


class Reader:
    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data, self._position = data, position

    def _take(self, form: struct.Struct) -> tuple[int, ...]:
        values = form.unpack_from(self._data, self._position)
        self._position += form.size
        return values

    def int32(self) -> int:
        return self._take(_INT)[0]

    def buffer(self) -> bytes:
        length = self.int32()
        if length < 0:
            return b""
        begin = self._position
        self._position += length
        return self._data[begin : self._position]

    def text(self) -> str:
        return self.buffer().decode()

    def reply(self) -> tuple[int, int, int]:
        xid, zxid, error = self._take(_REPLY)
        return xid, zxid, error

    def node(self) -> Node:
        data = self.buffer()
        return self._with_stat(data)

    def stat(self) -> Node:
        return self._with_stat(b"")

    def _with_stat(self, data: bytes) -> Node:
        stat = self._take(_STAT)
        return Node(data, stat[4], stat[7])

    def names(self) -> list[str]:
        return [self.text() for _ in range(self.int32())]

    def event(self) -> tuple[int, str]:
        kind, _ = self.int32(), self.int32()
        return kind, self.text()

    def connected(self) -> Connected:
        _, timeout_ms = self.int32(), self.int32()
        session_id = self._take(_LONG)[0]
        return Connected(timeout_ms, session_id, self.buffer())

    def parts(self) -> list[Node | list[str] | str | int | None]:
        """The results of a multi: what each part gave, or its error code."""
        results: list[Node | list[str] | str | int | None] = []
        while True:
            kind, done, _ = self._take(_MULTI)
            if done:
                return results
            match kind:
                case Op.ERROR:
                    results.append(self.int32())
                case Op.CREATE:
                    results.append(self.text())
                case Op.GET:
                    results.append(self.node())
                case Op.SET:
                    results.append(self.stat())
                case Op.CHILDREN:
                    results.append(self.names())
                case _:
                    results.append(None)


@frozen
class Part:
    """A request by itself, or one of a multi."""

    op: Op
    body: bytes


def create(path: str, data: bytes, acl: "Acl", *, ephemeral: bool = False) -> Part:
    flags = _INT.pack(EPHEMERAL if ephemeral else 0)
    return Part(Op.CREATE, _text(path) + _buffer(data) + acl.packed() + flags)


def delete(path: str, version: int = ANY_VERSION) -> Part:
    return Part(Op.DELETE, _text(path) + _INT.pack(version))


def get(path: str) -> Part:
    return Part(Op.GET, _text(path) + _BOOL.pack(False))


def set_data(path: str, data: bytes, version: int = ANY_VERSION) -> Part:
    return Part(Op.SET, _text(path) + _buffer(data) + _INT.pack(version))


def children(path: str) -> Part:
    return Part(Op.CHILDREN, _text(path) + _BOOL.pack(False))


def check(path: str, version: int) -> Part:
    return Part(Op.CHECK, _text(path) + _INT.pack(version))


def sync(path: str) -> Part:
    return Part(Op.SYNC, _text(path))


def add_watch(path: str) -> Part:
    """Persistent, and for everything below."""
    return Part(Op.ADD_WATCH, _text(path) + _INT.pack(RECURSIVE))


def sasl(token: bytes) -> Part:
    return Part(Op.SASL, _buffer(token))


def multi(parts: list[Part], op: Op = Op.MULTI) -> Part:
    body = b"".join(_MULTI.pack(part.op, False, -1) + part.body for part in parts)
    return Part(op, body + _MULTI_END)


@frozen
class Acl:
    """Who has all permissions on the nodes that we create: anybody, or only clients that authenticate as we do."""

    scheme: str = "world"
    identity: str = "anyone"

    def packed(self) -> bytes:
        entry = _INT.pack(ALL_PERMISSIONS) + _text(self.scheme) + _text(self.identity)
        return _INT.pack(1) + entry


def request(xid: int, part: Part) -> bytes:
    return _framed(_HEADER.pack(xid, part.op) + part.body)


def connect(last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    body = _INT.pack(0) + _LONG.pack(last_zxid) + _INT.pack(timeout_ms) + _LONG.pack(session_id)
    return _framed(body + _buffer(password or bytes(16)) + _BOOL.pack(False))


def auth(scheme: str, credentials: bytes) -> bytes:
    body = _INT.pack(0) + _text(scheme) + _buffer(credentials)
    return _framed(_HEADER.pack(AUTH_XID, Op.AUTH) + body)


PING = _INT.pack(_HEADER.size) + _HEADER.pack(PING_XID, Op.PING)


def _framed(body: bytes) -> bytes:
    return _INT.pack(len(body)) + body


def _buffer(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _text(value: str) -> bytes:
    return _buffer(value.encode())


def _name(code: int) -> str:
    try:
        return Code(code).name
    except ValueError:
        return str(code)
