"""Where things are in ZooKeeper, and how their data reads."""

import struct

from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.frozen import frozen

_ENTRY = struct.Struct(">i8s")
_CURRENT = struct.Struct(">qi")


@frozen
class Paths:
    root: str

    @property
    def controller(self) -> str:
        """Ephemeral: who holds the lease."""
        return f"{self.root}/controller"

    @property
    def epoch(self) -> str:
        """Its version is the controller epoch: every lease moves it, every write checks it."""
        return f"{self.root}/controller_epoch"

    @property
    def brokers(self) -> str:
        return f"{self.root}/brokers/ids"

    def broker(self, broker_id: int | str) -> str:
        return f"{self.brokers}/{broker_id}"

    @property
    def log(self) -> str:
        return f"{self.root}/log"

    def entry(self, position: int) -> str:
        return f"{self.log}/{position:019d}"

    @property
    def snapshots(self) -> str:
        return f"{self.root}/snap"

    def snapshot(self, position: int) -> str:
        return f"{self.snapshots}/{position:019d}"

    def chunk(self, position: int, number: int) -> str:
        return f"{self.snapshot(position)}/{number:05d}"

    @property
    def current(self) -> str:
        """Which snapshot counts."""
        return f"{self.root}/snap_current"

    def folders(self) -> list[str]:
        """What must be there before anything else, in order."""
        parents, path = [], ""
        for name in self.root.strip("/").split("/"):
            path += f"/{name}"
            parents.append(path)
        return [*parents, f"{self.root}/brokers", self.brokers, self.log, self.snapshots, self.epoch]


def pack_entry(epoch: int, nonce: bytes, body: bytes) -> bytes:
    return _ENTRY.pack(epoch, nonce) + body


def unpack_entry(data: bytes) -> tuple[int, bytes, bytes]:
    epoch, nonce = _ENTRY.unpack_from(data)
    return epoch, nonce, data[_ENTRY.size :]


def pack_current(position: int, chunks: int) -> bytes:
    return _CURRENT.pack(position, chunks)


def unpack_current(data: bytes) -> tuple[int, int]:
    position, chunks = _CURRENT.unpack(data)
    return position, chunks


def parse_connect(text: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """`host:port,host:port/chroot` as Kafka writes it: addresses, and the root below which we are."""
    addresses, slash, chroot = text.partition("/")
    hosts = []
    for address in addresses.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon:
            host, port = address.strip(), "2181"
        if not host or not port.isdecimal():
            raise InvalidConfig(f"zookeeper.connect: {address!r} is not HOST:PORT")
        hosts.append((host.strip("[]"), int(port)))
    root = f"/{chroot.strip('/')}" if slash and chroot.strip("/") else ""
    return tuple(hosts), f"{root}/ottla"


def timeout_of(config: Config) -> int:
    return config.zookeeper_session_timeout_ms
