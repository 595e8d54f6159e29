"""Ports that stay ours: while a broker is down nobody else gets its port, and a forked child keeps none."""

import os
import socket
import weakref
from collections.abc import Callable, Iterable


class Reservation:
    """A socket bound to the port but never listening: clients are refused, as by a broker that is down.

    With SO_REUSEADDR the broker can still listen on the port, and the system gives it to nobody else.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self.port: int = self._socket.getsockname()[1]

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class Forks:
    """In a forked child, the descriptors of these owners become /dev/null: closed for the world, and safe to
    close once more when Python collects the objects that believe they have them."""

    def __init__(self) -> None:
        self._owners: weakref.WeakKeyDictionary[object, Callable[[], Iterable[int]]] = (
            weakref.WeakKeyDictionary()
        )
        os.register_at_fork(after_in_child=self._in_child)

    def add(self, owner: object, descriptors: Callable[[], Iterable[int]]) -> None:
        self._owners[owner] = descriptors

    def _in_child(self) -> None:
        if not self._owners:
            return
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptors in self._owners.values():
            for descriptor in descriptors():
                if descriptor >= 0:
                    os.dup2(nothing, descriptor, inheritable=False)
        os.close(nothing)
