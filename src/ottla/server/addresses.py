"""Where a broker listens, and what it tells clients to connect to."""

import logging
import socket
from collections.abc import Sequence

from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.frozen import frozen
from ottla.metadata.records import Endpoint

log = logging.getLogger("ottla.server")

ANYWHERE = ("", "0.0.0.0", "::")


@frozen
class Address:
    """A listener as configured: NAME://HOST:PORT."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        name, separator, rest = text.partition("://")
        host, colon, port = rest.rpartition(":")
        if separator and colon and port.isdecimal() and int(port) > 65535:
            raise InvalidConfig(f"listener {text}: there is no port {port}; ports go from 0 to 65535")
        if not separator or not colon or not port.isdecimal():
            raise InvalidConfig(f"listener {text!r} is not of the form NAME://HOST:PORT")
        return cls(name, host.strip("[]"), int(port))


def listeners(config: Config) -> list[Address]:
    addresses = [Address.parse(text) for text in config.listeners]
    if not addresses:
        raise InvalidConfig("listeners is empty: there is nothing to listen on")
    if len({address.name for address in addresses}) < len(addresses):
        raise InvalidConfig(f"listeners: each needs a name of its own: {','.join(config.listeners)}")
    return addresses


def advertised(config: Config, ports: Sequence[int]) -> tuple[Endpoint, ...]:
    """What clients are told, for each listener, of which `ports` are those really bound.

    Clients connect to this, not to the address they began with: if it is wrong, they fail on their second
    connection, with an error that names an address nobody typed. So what is surely wrong is refused here.
    """
    wanted = _configured(config)
    endpoints = []
    for bound, port in zip(listeners(config), ports, strict=True):
        own = wanted.pop(bound.name, None)
        host = own.host if own is not None else bound.host
        if host in ANYWHERE:
            host = socket.gethostname()
            log.info(
                "listening on all addresses, clients are told to connect to %s:%d; "
                "set advertised.listeners if they cannot reach that",
                host,
                port,
            )
        endpoints.append(Endpoint(bound.name, host, own.port if own is not None and own.port else port))
    if wanted:
        raise InvalidConfig(
            f"advertised.listeners names {', '.join(wanted)}, which is not in listeners "
            f"({','.join(config.listeners)})"
        )
    return tuple(endpoints)


def _configured(config: Config) -> dict[str, Address]:
    by_name: dict[str, Address] = {}
    for text in config.advertised_listeners or ():
        address = Address.parse(text)
        if address.host in ANYWHERE:
            raise InvalidConfig(
                f"advertised.listeners={text} is no address to connect to: {address.host!r} means "
                "every address of this machine. Set it to the name or address by which clients reach this "
                "broker; `listeners` is where it listens"
            )
        by_name[address.name] = address
    return by_name
