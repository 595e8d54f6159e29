"""Ports for servers that are told theirs: no two processes are given the same, not even while a server is down.

A block of ports belongs to the process that has bound the last port of it, until that process ends or gives it back.
Blocks lie below the range from which the kernel hands out ports (ip_local_port_range): nobody's port 0 lands there,
and no client that knocks at a dead server's port connects to itself.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterable, Iterator
from functools import cache

_BLOCK = 200
_BASES = range(20_200, 32_000, _BLOCK)


class Block:
    """Ports from `base` on, up to the one that guards them."""

    def __init__(self) -> None:
        start = os.getpid() % len(_BASES)
        for i in range(len(_BASES)):
            self.base = _BASES[(start + i) % len(_BASES)]
            self._guard = socket.socket()
            try:
                self._guard.bind(("127.0.0.1", self.base + _BLOCK - 1))
                return
            except OSError:
                self._guard.close()
        raise RuntimeError("every block of ports is in use")

    def are_free(self, offsets: Iterable[int]) -> bool:
        return all(_is_free(self.base + each) for each in offsets)

    def close(self) -> None:
        self._guard.close()


def free_block(offsets: Iterable[int]) -> Block:
    """A block in which nobody listens on these ports: a server of a test run that was killed may have outlived it."""
    offsets, tried = list(offsets), list[Block]()
    try:
        while not (block := Block()).are_free(offsets):
            tried.append(block)
        return block
    finally:
        for each in tried:
            each.close()


def free_ports(count: int) -> list[int]:
    """Ports of this process's block that nobody listens on. They come round again after some 200."""
    ports = (port for port in _own_ports(os.getpid()) if _is_free(port))
    return list(itertools.islice(ports, count))


@cache
def _own_ports(pid: int) -> Iterator[int]:
    return _round(Block())  # a forked child has another pid, and takes a block of its own


def _round(block: Block) -> Iterator[int]:
    while True:
        yield from range(block.base, block.base + _BLOCK - 1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
