"""A socket in the log folder, by which commands on this machine ask the running broker: today for a backup.

Who may write to the folder may use it. One JSON object a line: {"command": "hold"} is answered with what is held, and
{"command": "release"} with the partitions that changed meanwhile. When the connection ends, everything is released.
"""

import asyncio
import logging
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.server.node import Node
    from ottla.server.staging import Staging

log = logging.getLogger("ottla.server")

CONTROL = ".control"
LINKS = ".backup-"  # the beginning of the names of folders that hold links for a backup


class Control:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._folder = os.path.abspath(node.broker.replicas.folders[0].path)  # noqa: PTH100
        self._is_held = False

    async def start(self) -> None:
        for folder in self._node.broker.replicas.folders:
            with suppress(OSError):
                _remove_leftovers(folder.path)
        with suppress(FileNotFoundError):
            os.unlink(f"{self._folder}/{CONTROL}")  # noqa: PTH108 - of a broker that was killed
        try:
            with short_path(self._folder) as path:
                self._server = await asyncio.start_unix_server(self._serve, path)
            os.chmod(f"{self._folder}/{CONTROL}", 0o600)  # noqa: PTH101
        except OSError as error:  # a file system without sockets: then a backup needs a stop
            log.warning(
                "%s/%s: %s; `ottla backup` works while the broker is stopped", self._folder, CONTROL, error
            )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                os.unlink(f"{self._folder}/{CONTROL}")  # noqa: PTH108

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import json  # few brokers are ever asked

        staging: Staging | None = None
        try:
            while line := await reader.readline():
                staging, reply = self._answer(json.loads(line), staging)
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the command is gone, or it is none of ours
        finally:
            if staging is not None:
                await asyncio.get_running_loop().run_in_executor(None, staging.release)
                self._is_held = False
            writer.close()

    def _answer(self, request: Any, staging: "Staging | None") -> tuple["Staging | None", dict[str, Any]]:
        match request.get("command") if isinstance(request, dict) else None:
            case "hold" if staging is None:
                return self._hold()
            case "release" if staging is not None:
                return staging, {"truncated": staging.truncated()}
            case other:
                return staging, {"error": f"{other!r} is not a command, or not now"}

    def _hold(self) -> tuple["Staging | None", dict[str, Any]]:
        if self._is_held:
            return None, {"error": "another backup is being taken of this broker"}
        from ottla.server.staging import Staging

        staging = Staging(self._node)
        try:
            staging.hold()
        except (OSError, OttlaError) as error:
            return None, {"error": str(error)}
        self._is_held = True
        folders = [
            {"folder": folder.folder, "path": folder.path, "sizes": folder.sizes}
            for folder in staging.folders
        ]
        return staging, {"folders": folders, "clustered": self._node.is_clustered}


def _remove_leftovers(folder: str) -> None:
    """Of a broker that was killed during a backup."""
    links = [name for name in os.listdir(folder) if name.startswith(LINKS)]  # noqa: PTH208
    if links:
        import shutil

        for name in links:
            shutil.rmtree(f"{folder}/{name}", ignore_errors=True)


@contextmanager
def short_path(folder: str) -> "Iterator[str]":
    """Of the socket: paths over about 100 characters are refused, so a long one goes through an open folder."""
    path = f"{folder}/{CONTROL}"
    if len(os.fsencode(path)) < 100:
        yield path
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{CONTROL}"
    finally:
        os.close(fd)
